// SPDX-License-Identifier: Apache-2.0
// Sums and maxima of rows of what a contraction computes, over blocks of columns that its tiles
// hold whole: a scale for each row and 128 columns, the norm of each head, a softmax over few
// columns.
//
//   value t [M, J, R]   reduced over R: one number for each row and block [M, J]
//   in the kernel       columns (J, R) of a row, R of them a block
//
// The kernel also computes what follows from these numbers: others for each row and block, and
// elements.
#pragma once

#include "compiler/fusion/fuse.h"

namespace catenary {

// Moves each such reduction, and the groups that read it, into the group of its contraction, and
// says so in `why`. Returns whether one was moved. Without `sums` only maxima: the epilogue adds
// the terms of a row in another order than `reduce`. Knows no kernel's axes: whether a block is
// columns of one tile is checked where the kernel is planned.
bool move_row_reductions_inside(const VerifiedChain& chain, FusionPlan& plan, bool sums);

// The dimensions of the group's shape that its row reductions keep, ascending.
llvm::SmallVector<int, 8> kept_dims(const FusionGroup& group);

// Columns of a block: the elements of the reduced dimensions. 1: the group has no row reductions.
i64 reduced_columns(const FusionGroup& group);

}  // namespace catenary
