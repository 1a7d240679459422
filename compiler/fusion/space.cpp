// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/space.h"

#include <algorithm>

namespace catenary {
namespace {

bool mergeable(const Axis& outer, const Axis& inner) {
  if (outer.kind != inner.kind || outer.kind == AxisKind::kApart) return false;
  if (inner.extent.scale != 0) return false;
  if (inner.extent.size > 0 && outer.extent.size > kMaxAxisSize / inner.extent.size) return false;
  for (size_t t = 0; t < outer.stride.size(); ++t) {
    if (outer.stride[t] != inner.stride[t] * inner.extent.size) return false;
  }
  return true;
}

}  // namespace

void merge_axes(Space& space) {
  llvm::SmallVector<Axis, 8> merged;
  for (const Axis& axis : space.axes) {
    if (axis.extent == Extent(1) && axis.kind != AxisKind::kApart) continue;
    if (!merged.empty() && mergeable(merged.back(), axis)) {
      Axis& outer = merged.back();
      const i64 inner = axis.extent.size;
      outer.extent = outer.extent.scale != 0
                         ? Extent(outer.extent.size * inner, outer.extent.scale * inner)
                         : Extent(outer.extent.size * inner);
      outer.stride = axis.stride;
    } else {
      merged.push_back(axis);
    }
  }
  space.axes = std::move(merged);
}

void sort_axes(Space& space, AxisKind kind, int tensor) {
  llvm::SmallVector<Axis, 8> chosen;
  for (const Axis& axis : space.axes) {
    if (axis.kind == kind) chosen.push_back(axis);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](const Axis& a, const Axis& b) {
    const bool a_symbolic = a.extent.scale != 0;
    const bool b_symbolic = b.extent.scale != 0;
    if (a_symbolic != b_symbolic) return a_symbolic;
    return a.stride[tensor] > b.stride[tensor];
  });
  size_t next = 0;
  for (Axis& axis : space.axes) {
    if (axis.kind == kind) axis = chosen[next++];
  }
}

i64 access_bytes(i64 align, llvm::ArrayRef<i64> byte_steps) {
  i64 bytes = std::min<i64>(align, 16);
  for (i64 step : byte_steps) {
    while (step % bytes != 0) bytes /= 2;
  }
  return bytes;
}

}  // namespace catenary
