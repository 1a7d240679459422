// SPDX-License-Identifier: Apache-2.0
// Tensors in host memory: by the reference, or by the simulator with copies to its device memory.
#pragma once

#include "adapters/torch/registry.h"

namespace catenary::torch_adapter {

// For a Bound whose place is not a GPU. Addresses: the form's tensors, then its outputs. Errors:
// those of ctn_reference_run, or of a launch.
Error run_on_host(const Bound& bound, llvm::ArrayRef<void*> addresses,
                  llvm::ArrayRef<float> scalars);

}  // namespace catenary::torch_adapter
