// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/launch_bound.h"

#include "adapters/torch/host_run.h"

namespace catenary::torch_adapter {

Error launch_bound(const Bound& bound, llvm::ArrayRef<void*> addresses,
                   llvm::ArrayRef<float> scalars, const LaunchMemory& memory) {
  if (bound.place != Place::kGpu) return run_on_host(bound, addresses, scalars);
  LaunchArguments launch;
  launch.tensors = addresses;
  launch.scalars = scalars;
  launch.symbol = bound.special.symbol;
  launch.workspace = memory.workspace;
  launch.stream = memory.stream;
  launch.allow_pdl = Registry::process().allow_pdl(*bound.form);
  return bound.executable->launch(launch);
}

}  // namespace catenary::torch_adapter
