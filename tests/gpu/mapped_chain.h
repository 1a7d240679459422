// SPDX-License-Identifier: Apache-2.0
// Random contractions whose operands tensor maps can describe, or threads copy, as text: what
// `gemm_sm90` takes. Sizes lie around its tiles and the depth of its ring.
#pragma once

#include <string>

#include "shared/int.h"

namespace catenary::gpu_suite {

// One seed gives one chain. `small`: for the simulator.
std::string mapped_chain(u64 seed, bool small);

}  // namespace catenary::gpu_suite
