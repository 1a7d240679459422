// SPDX-License-Identifier: Apache-2.0
// One call of an operator: torch's tensors in, launched, torch's tensors out.
#pragma once

#include <memory>

#include "adapters/torch/registry.h"
#include "adapters/torch/shim.h"

namespace catenary::torch_adapter {

// A tensor of torch that is deleted with this.
class OwnedTensor {
 public:
  OwnedTensor() = default;
  OwnedTensor(const Shim* shim, TensorHandle handle) : shim_(shim), handle_(handle) {}
  OwnedTensor(OwnedTensor&& other) noexcept : shim_(other.shim_), handle_(other.release()) {}
  OwnedTensor& operator=(OwnedTensor&& other) noexcept {
    std::swap(shim_, other.shim_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~OwnedTensor() {
    if (handle_ != nullptr) shim_->aoti_torch_delete_tensor_object(handle_);
  }
  TensorHandle get() const { return handle_; }
  TensorHandle release() { return std::exchange(handle_, nullptr); }

 private:
  const Shim* shim_ = nullptr;
  TensorHandle handle_ = nullptr;
};

using Tensors = llvm::SmallVector<OwnedTensor, 8>;

struct CallArguments {
  const Form* form = nullptr;
  Tensors inputs;                       // the parameters that no output overwrites
  llvm::SmallVector<float, 4> scalars;  // in the order of the chain
  Tensors outputs;                      // empty: allocated
  bool given_outputs = false;           // `outputs` are the caller's
  bool on_gpu = false;                  // the operator was called for CUDA tensors
};

// Runs the operator. Fills arguments.outputs unless they were given. Errors: those of the registry
// and of a launch; kInvalidArgument for tensors of several devices.
Error call(const Shim& shim, CallArguments& arguments);

}  // namespace catenary::torch_adapter
