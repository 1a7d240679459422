// SPDX-License-Identifier: Apache-2.0
// Contractions side by side in one launch: several weights over one activation, each with its own
// N, epilogue and outputs, or several gradients of weights that read one activation, each with its
// own M. Nothing is repacked: a CTA computes tiles of one of them. Knows no contraction family.
#pragma once

#include "compiler/families/problem.h"

namespace catenary {

// The problem whose time is that of all parts in one launch: one B with the columns of theirs, or
// one A with the rows of theirs. Candidates and predictions are of it; kernels are of the parts.
// Nothing: the parts share neither A, its M and its K, nor B, its N and its K.
std::optional<ContractionProblem> joint_problem(llvm::ArrayRef<ContractionProblem> parts);

// The rounds of tiles that persistent CTAs take where part i has `tiles[i]` of them, each CTA takes
// tiles of one part, and there are `ctas` of them: the least of the part that has the most. A part
// then needs ceil(tiles[i] / rounds) CTAs. 0: there are more parts than CTAs.
i64 persistent_rounds(llvm::ArrayRef<i64> tiles, i64 ctas);

// The identity of the parts in one launch for measured choices.
std::string joint_signature(llvm::ArrayRef<ContractionProblem> parts);

// One kernel of complete ones, each with its family: the first one with the others beside it.
// `joint` is their joint problem. Nothing: they need unlike launches, more CTAs than the GPU runs
// at once if they are persistent, or more parameters than a kernel has; or the parts share B and
// are not persistent, since row tiles are then those of one part.
std::optional<KernelPlan> join_kernels(std::vector<KernelPlan> parts,
                                       const ContractionProblem& joint);

}  // namespace catenary
