// SPDX-License-Identifier: Apache-2.0
#include "compiler/workspace.h"

#include <algorithm>
#include <map>
#include <vector>

#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

i64 aligned(i64 bytes) { return ceil_div(bytes, i64{256}) * 256; }

// A tensor of the workspace, from kernel `first` to kernel `last`.
struct Tensor {
  i64 bytes = 0;
  int first = 0;
  int last = 0;
  i64 offset = 0;
  bool is_live_with(const Tensor& other) const {
    return first <= other.last && other.first <= last;
  }
};

using Tensors = std::map<i64, Tensor>;  // by the offset that names it

Tensors collect(llvm::ArrayRef<KernelPlan> kernels) {
  Tensors tensors;
  for (int k = 0; k < static_cast<int>(kernels.size()); ++k) {
    for (const SlotBinding& slot : kernels[k].slots) {
      if (slot.kind != SlotBinding::Kind::kWorkspace) continue;
      Tensor& tensor = tensors.try_emplace(slot.workspace_offset, Tensor{0, k, k, 0}).first->second;
      tensor.bytes = std::max({tensor.bytes, slot.bytes, i64{1}});
      tensor.last = k;
    }
  }
  return tensors;
}

// The lowest offset at which the tensor overlaps no placed one that is live with it.
i64 lowest_offset(const Tensor& tensor, llvm::ArrayRef<const Tensor*> placed) {
  std::vector<const Tensor*> others;
  llvm::copy_if(placed, std::back_inserter(others),
                [&](const Tensor* other) { return tensor.is_live_with(*other); });
  llvm::sort(others, [](const Tensor* a, const Tensor* b) { return a->offset < b->offset; });
  i64 offset = 0;
  for (const Tensor* other : others) {
    if (offset + tensor.bytes <= other->offset) break;
    offset = std::max(offset, aligned(other->offset + other->bytes));
  }
  return offset;
}

}  // namespace

i64 share_workspace(llvm::MutableArrayRef<KernelPlan> kernels) {
  Tensors tensors = collect(kernels);
  // Large ones first: small ones fit into the gaps.
  std::vector<Tensor*> order;
  for (auto& [name, tensor] : tensors) order.push_back(&tensor);
  llvm::stable_sort(order, [](const Tensor* a, const Tensor* b) { return a->bytes > b->bytes; });
  std::vector<const Tensor*> placed;
  i64 end = 0;
  for (Tensor* tensor : order) {
    tensor->offset = lowest_offset(*tensor, placed);
    placed.push_back(tensor);
    end = std::max(end, aligned(tensor->offset + tensor->bytes));
  }
  for (KernelPlan& kernel : kernels) {
    for (SlotBinding& slot : kernel.slots) {
      if (slot.kind == SlotBinding::Kind::kWorkspace)
        slot.workspace_offset = tensors.at(slot.workspace_offset).offset;
    }
  }
  return end;
}

}  // namespace catenary
