// SPDX-License-Identifier: Apache-2.0
// The iteration space of a kernel: axes with sizes and, for every tensor that the kernel touches,
// its step along each axis. Axes that all tensors step through as one are merged, so that a layout
// of eight dimensions usually becomes one of two or three. Knows no template.
#pragma once

#include "ir/types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "shared/config.h"

namespace catenary {

// What an axis is to the kernel. Only axes of one kind merge.
// kGroup: a ragged group's own axis of the result. kApart: an axis whose index the kernel needs, of
// ragged rows or of their groups: it neither merges nor vanishes.
enum class AxisKind : u8 { kTerm, kGroup, kBatch, kM, kN, kFree, kApart };

// Coordinates are 32 bits wide in the kernels (Coord in templates/epilogue/vec.cuh); half of that
// leaves room for a tile that reaches over the end.
inline constexpr i64 kMaxAxisSize = i64{1} << 31;

struct Axis {
  AxisKind kind = AxisKind::kFree;
  Extent extent;
  // Step of tensor i along this axis in elements; indices as handed to Space::add_tensor.
  llvm::SmallVector<i64, 8> stride;
};

struct Space {
  llvm::SmallVector<Axis, 8> axes;  // outermost first

  int num_tensors() const { return axes.empty() ? 0 : static_cast<int>(axes[0].stride.size()); }
};

inline Extent extent_of(Dim dim) { return dim.symbolic ? Extent(dim.size, 1) : Extent(dim.size); }

// Drops axes of exactly one step and merges neighbours a (outer), b (inner) of one kind where every
// tensor has stride[a] == stride[b] * size[b], b is not symbolic and the product stays within
// kMaxAxisSize. Order is kept.
void merge_axes(Space& space);

// Sorts axes of one kind among themselves by descending step of `tensor`, so that merge_axes sees
// neighbours; symbolic axes go first. Axes of other kinds stay where they are.
void sort_axes(Space& space, AxisKind kind, int tensor);

// Largest power of two of bytes, at most 16, that divides `align` and every listed byte step.
i64 access_bytes(i64 align, llvm::ArrayRef<i64> byte_steps);

}  // namespace catenary
