// SPDX-License-Identifier: Apache-2.0
// A contraction whose K is split over CTAs: each split stores f32 partial sums to the workspace,
// and a `reduce` kernel adds them in ascending order and runs the epilogue. Knows no family.
#pragma once

#include "compiler/families/family.h"

namespace catenary {

// What is summed: D's axes, and how many sums side by side (2: a gated pair).
struct SplitSums {
  Extents batch;
  int batch_rank = 0;
  Extent m, n;
  int split_k = 1;
  int sums = 1;
};

// Appends `kernel`, complete but for a split. With split_k > 1 its program becomes the stores of
// partial sums [split][batch..][M][N] at the split's coordinate kMaxDims - 3 - batch_rank, and the
// kernel that adds them and runs `program` follows it; the workspace grows by the sums.
void finish_split(const GroupContext& context, const Program& program, const SplitSums& sums,
                  KernelPlan kernel, std::vector<KernelPlan>& kernels);

}  // namespace catenary
