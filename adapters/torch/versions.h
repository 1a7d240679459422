// SPDX-License-Identifier: Apache-2.0
// Versions of torch's tensors (Tensor._version): autograd refuses a backward that reads a saved
// tensor of another version. The C shim has no function for them: these are C++ functions of
// libtorch_cpu.
#pragma once

#include <string>

#include "adapters/torch/shim.h"

namespace catenary::torch_adapter {

class Versions {
 public:
  // Finds the functions in the loaded `libtorch_cpu`. kUnsupported: it does not export them.
  static Expected<Versions> open(const std::string& libtorch_cpu);

  // After `tensor` was overwritten. Tensors of inference mode have no version.
  void count(TensorHandle tensor) const;

 private:
  bool (*is_inference_)(TensorHandle tensor) = nullptr;  // at::native::is_inference
  void (*bump_)(TensorHandle tensor) = nullptr;          // torch::autograd::impl::bump_version
};

}  // namespace catenary::torch_adapter
