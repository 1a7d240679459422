// SPDX-License-Identifier: Apache-2.0
// Split-K: the CTAs of each split store f32 partial sums to the workspace, and a `reduce` kernel
// adds them in ascending order and runs the epilogue. Knows no contraction family.
#pragma once

#include "compiler/families/problem.h"

namespace catenary {

// The kernels of a contraction: `kernel` if split_k is 1; else `kernel` with stores of partial sums
// [split][accumulator][batch..][M][N] as its program, at the split's coordinate
// kMaxDims - 3 - batch_rank, and the reduction after it. `transposed`: `kernel` computes the
// transposed problem. `workspace_bytes`: what the bucket has so far. `name`: prefix of the
// reduction's symbol.
PlannedGroup apply_split_k(const ContractionProblem& problem, bool transposed, int split_k,
                           const std::string& name, i64 workspace_bytes, KernelPlan kernel);

}  // namespace catenary
