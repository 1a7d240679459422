// SPDX-License-Identifier: Apache-2.0
// A tensor of torch as one call sees it, and what its layout says: which bound form it belongs to,
// and whether it can be an output.
#pragma once

#include "adapters/torch/registry.h"
#include "adapters/torch/shim.h"

namespace catenary::torch_adapter {

// `sizes` and `strides` belong to the tensor. dtype and device type are torch's numbers.
struct View {
  void* address = nullptr;
  int64_t rank = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;
  int32_t dtype = 0;
  int32_t device_type = 0;
  int32_t device = 0;
};

// Identifies a form that is bound to tensors of these layouts, one per tensor of the form.
inline Signature signature_of(const Form& form, Place place, int device,
                              llvm::ArrayRef<View> views) {
  Signature signature = {form.key, static_cast<i64>(place), device};
  for (const View& view : views) {
    const auto rank = static_cast<size_t>(view.rank);
    add_tensor(signature, view.dtype, alignment_of(view.address), {view.sizes, rank},
               {view.strides, rank});
  }
  return signature;
}

// Whether a tensor has the dtype and layout of an output; its device is not compared.
inline bool fits(const Shim& shim, const View& view, const TensorLayout& wanted) {
  if (view.dtype != shim.dtype_code(wanted.dtype)) return false;
  if (view.rank != static_cast<i64>(wanted.sizes.size())) return false;
  for (i64 d = 0; d < view.rank; ++d) {
    if (view.sizes[d] != wanted.sizes[d]) return false;
    if (view.sizes[d] > 1 && view.strides[d] != wanted.strides[d]) return false;
  }
  return true;
}

}  // namespace catenary::torch_adapter
