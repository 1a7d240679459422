// SPDX-License-Identifier: Apache-2.0
// A form as JSON, for those who compute shapes without running it: fake kernels, sharding rules.
#pragma once

#include <string>

#include "adapters/torch/form.h"

namespace catenary::torch_adapter {

// Keys: name, exact, text, symbol {name, lo, hi}, scalars, inputs and outputs as the operators take
// them. An input: name, dtype, role, sizes (null: the symbol), strides, leading. An output: dtype,
// sizes (each [input, dimension] or a number), order, strides and their rule, leading, in_place.
std::string describe(const Form& form);

}  // namespace catenary::torch_adapter
