// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a value that a contraction's kernel computes, as bias gradients are: the
// kernel stores the f32 sums of every kSummedRows rows, in the order of the rows, and the sum's own
// kernel adds those. The value itself need not be stored.
//
//   value t [M, N]   rows 0 .. 15 | 16 .. 31 | ...       sums [ceil(M / 16), N]
//
// Sums by group add the rows of a ragged contraction. A group's sums begin at its first row: the
// sum of group g that begins at row m has place m / kSummedRows + g. No two sums have one place,
// because at most one sum of a group has fewer than kSummedRows rows.
//
// Addresses are those of a tensor with the summed dimensions outside, the others inside, both in
// their order; of the rows only every kSummedRows-th one exists.
#pragma once

#include "compiler/fusion/fuse.h"
#include "compiler/fusion/space.h"

namespace catenary {

// Moves each such sum into the kernel that can form it, and says so in `why` of both groups.
// Returns whether one was moved. Knows no kernel's axes: whether the rows are those of the kernel's
// tiles is checked where the kernel is planned.
bool move_column_sums_inside(const VerifiedChain& chain, FusionPlan& plan);

// The dimensions of `type` that are `summed` as one: their size, and a step per dimension of
// `type`, as of a whole f32 tensor.
struct SummedRows {
  Extent size;
  llvm::SmallVector<i64, 4> strides;
  i64 row_stride = 0;
};
SummedRows summed_rows(const TensorType& type, llvm::ArrayRef<int> summed);

}  // namespace catenary
