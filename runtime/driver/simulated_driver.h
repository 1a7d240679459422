// SPDX-License-Identifier: Apache-2.0
// The simulator as a driver: a table of entry points over one simulated device per process, so that
// all higher layers run kernels without a GPU. The device has the properties of the GPU that
// CATENARY_SIM_TARGET names (a name or an arch of targets.def; default h200).
//
// Kernels are shared objects of the host's compiler (compiler/compile/host_compiler.h). All streams
// share one queue. It runs when a call waits, copies or frees; a kernel's fault is the result of
// that call (kSimulatorFault). Events have no times. Not supported: virtual memory, copies during
// capture.
#pragma once

#include <functional>
#include <optional>

#include "compiler/target.h"
#include "runtime/driver/api.h"

namespace catenary::cuda {

// The table. kInvalidArgument: CATENARY_SIM_TARGET or CATENARY_SIM_SEED has an invalid value.
Expected<Api> simulator_api();

// The GPU that is simulated: of CATENARY_SIM_TARGET, else default_target(). kInvalidArgument.
Expected<Target> simulated_target();

// Sets the seed of later runs; a seed determines the interleaving. Default: CATENARY_SIM_SEED,
// or 1. Errors: those of simulator_api().
Error set_simulator_seed(u64 seed);

// Sets the callback for a run's progress (sim::SimulatorOptions::progress), called on the thread
// that waits; an empty function: none. Errors: those of simulator_api().
Error set_simulator_progress(std::function<void(u64 done, u64 all)> progress);

// The details of `result`, once. Call simulator_api() first.
std::optional<ErrorReport> take_simulator_report(Result result);

}  // namespace catenary::cuda
