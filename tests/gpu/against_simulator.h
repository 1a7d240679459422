// SPDX-License-Identifier: Apache-2.0
// Runs a case a second time in the simulator, with the same sources, plan and data, and compares
// its bytes with the device's. The simulator's driver exists next to the device's for one case at a
// time.
#pragma once

#include "tests/gpu/run_case.h"

namespace catenary::gpu_suite {

// The kernels of `compiled`, by the host's compiler. Needs no device. Errors are the compiler's.
Expected<std::shared_ptr<const CompiledChain>> compile_for_simulator(const CompiledChain& compiled);

// Repeats each run of `prepared` and compares it with `device`, the device's memory after it. Exact
// integers must be equal bit for bit; other data must be within the reference's bounds, and its
// differences are counted. Returns the problems, one line each.
std::vector<std::string> run_in_simulator(const PreparedCase& prepared,
                                          const std::vector<std::vector<u8>>& device,
                                          SimulatorTally& tally);

}  // namespace catenary::gpu_suite
