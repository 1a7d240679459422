// SPDX-License-Identifier: Apache-2.0
// Random contractions that `gemm_sm90` supports, as text: operands by TMA or by cp.async fallback
// loads. Sizes are around its tiles and the number of its stages.
#pragma once

#include <string>

#include "shared/int.h"

namespace catenary::gpu_suite {

// One seed gives one chain. `small`: for the simulator.
std::string mapped_chain(u64 seed, bool small);

}  // namespace catenary::gpu_suite
