// SPDX-License-Identifier: Apache-2.0
// Tangents of torch's forward mode (torch.autograd.forward_ad), which no dispatch key tells of. The
// C shim has no function for them: these are C++ functions of libtorch_cpu and libc10.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "adapters/torch/shim.h"

namespace catenary::torch_adapter {

class ForwardMode {
 public:
  // Finds the functions in the loaded `libtorch_cpu` and the libraries that it needs.
  static ForwardMode open(const std::string& libtorch_cpu);

  // Whether this torch exports the functions. Else no tensor seems to have a tangent.
  bool is_known() const {
    return level_ != nullptr && tangent_ != nullptr && undefined_ != nullptr;
  }
  // Whether tensors can have tangents now, in any thread: torch has one level, number 0.
  bool is_active() const { return level_ != nullptr && level_(0) != nullptr; }
  bool has_tangent(TensorHandle tensor) const;

 private:
  struct Impl;  // c10::TensorImpl
  // torch::autograd::ForwardADLevel::try_get_by_idx; the owner is null without this level.
  std::shared_ptr<void> (*level_)(uint64_t number) = nullptr;
  // c10::TensorImpl::_fw_grad: the tensor that holds the tangent.
  Impl* const* (*tangent_)(const Impl* self, uint64_t level, TensorHandle tensor) = nullptr;
  const Impl* undefined_ = nullptr;  // that of a tensor without a value
};

}  // namespace catenary::torch_adapter
