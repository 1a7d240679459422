// SPDX-License-Identifier: Apache-2.0
// A case a second time, in the simulator: the same sources, plan and data, its bytes compared with
// those that the device gave. The simulator lives beside the device's driver for one case at a
// time.
#pragma once

#include "tests/gpu/run_case.h"

namespace catenary::gpu_suite {

// The kernels of `compiled`, by the host's compiler. Needs no device. Errors are the compiler's.
Expected<std::shared_ptr<const CompiledChain>> compile_for_simulator(const CompiledChain& compiled);

// Runs each run of `prepared` once more, beside `device`'s memory after it. Integers that are exact
// must be equal to the bit; anything else must lie within the reference's bounds, and its
// differences are counted. What is wrong, one line each.
std::vector<std::string> run_in_simulator(const PreparedCase& prepared,
                                          const std::vector<std::vector<u8>>& device,
                                          SimulatorTally& tally);

}  // namespace catenary::gpu_suite
