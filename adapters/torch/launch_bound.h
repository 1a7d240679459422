// SPDX-License-Identifier: Apache-2.0
// The launch of a bound form, with addresses ready.
#pragma once

#include "adapters/torch/registry.h"

namespace catenary::torch_adapter {

// On a GPU only.
struct LaunchMemory {
  void* workspace = nullptr;  // executable->workspace_bytes() bytes, aligned to 256
  cuda::Stream stream = nullptr;
};

// `addresses`: the tensors of the form, then its outputs; `scalars` in the order of the chain. The
// counts are those of the form. On the host it returns when the outputs are written. Returns the
// errors that Executable::launch() and run_on_host() return.
Error launch_bound(const Bound& bound, llvm::ArrayRef<void*> addresses,
                   llvm::ArrayRef<float> scalars, const LaunchMemory& memory);

}  // namespace catenary::torch_adapter
