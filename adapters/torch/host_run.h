// SPDX-License-Identifier: Apache-2.0
// Tensors in host memory: by the reference, or by the simulator with copies to its device memory.
#pragma once

#include "adapters/torch/registry.h"

namespace catenary::torch_adapter {

// Addresses: the form's tensors, then its outputs. Errors: those of ctn_reference_run.
Error run_reference(const Bound& bound, llvm::ArrayRef<void*> addresses,
                    llvm::ArrayRef<float> scalars);

// The executable is the simulator's. Errors: those of a launch.
Error run_simulator(const Bound& bound, llvm::ArrayRef<void*> addresses,
                    llvm::ArrayRef<float> scalars);

}  // namespace catenary::torch_adapter
