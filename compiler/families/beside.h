// SPDX-License-Identifier: Apache-2.0
// Contractions side by side in one launch: several weights over one activation, each with its own
// N, epilogue and outputs. Nothing is repacked: a CTA computes a tile of one of them. Knows no
// contraction family.
#pragma once

#include "compiler/families/problem.h"

namespace catenary {

// The problem whose time is that of all parts in one launch: one weight with the rows of theirs.
// Candidates and predictions are of it; kernels are of the parts. Nothing: the parts do not share
// A, its M and its K.
std::optional<ContractionProblem> joint_problem(llvm::ArrayRef<ContractionProblem> parts);

// The identity of the parts in one launch for measured choices.
std::string joint_signature(llvm::ArrayRef<ContractionProblem> parts);

// One kernel of complete ones, each with its family: the first one with the others beside it.
// Nothing: they need unlike launches, or more parameters than a kernel has.
std::optional<KernelPlan> join_kernels(std::vector<KernelPlan> parts);

}  // namespace catenary
