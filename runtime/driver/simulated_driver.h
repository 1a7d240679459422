// SPDX-License-Identifier: Apache-2.0
// The simulator as a driver: a table of entry points over the process's one simulated device, so
// that everything above the driver runs kernels without a GPU. The device stands for the GPU that
// CATENARY_SIM_TARGET names (a name or an arch of targets.def; h200 if it is not set).
//
// Its kernels are shared objects of the host's compiler (compiler/compile/host_compiler.h). Streams
// are one queue; it runs when somebody waits, copies or frees, and a kernel's fault is the result
// of that call (kSimulatorFault). Events have no times. Not in it: virtual memory, copies during
// capture.
#pragma once

#include <optional>

#include "runtime/driver/api.h"

namespace catenary::cuda {

// The table. kInvalidArgument: CATENARY_SIM_TARGET or CATENARY_SIM_SEED makes no sense.
Expected<Api> simulator_api();

// Of later runs: one seed, one interleaving. At first CATENARY_SIM_SEED, or 1. Errors of
// simulator_api().
Error set_simulator_seed(u64 seed);

// What the simulator has to say of `result`, once. After simulator_api().
std::optional<ErrorReport> take_simulator_report(Result result);

}  // namespace catenary::cuda
