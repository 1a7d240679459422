// SPDX-License-Identifier: Apache-2.0
// The norm inside: a sum of squares over the rows of a contraction's data operand, formed by the
// kernel that reads those rows anyway, and what scales its result row by row, in its epilogue.
// Taken from plain IR, where the chain scales after the product:
//
//   s = rsqrt(add(mul(sum "mk->m"(square(x)), 1/K), eps));  y = mul(contract(x, w), s @ "m")
//
// Rounding points are those of the chain. A chain that rounds the scaled x has another product:
// that operand is formed.h's. Its algebraic form (ir/algebraic_norms.h), where the chain allows it,
// is such a chain. The contraction may multiply x by a gain as it loads it (gain.h).
// Knows no family.
#pragma once

#include "compiler/fusion/fuse.h"

namespace catenary {

// Moves each sum of squares, with all that depends on it, into the contractions that read it, if
// only those do. Returns whether there was one. The plan is complete but for its copies; gains and
// formed operands have been moved.
bool move_norms_inside(const VerifiedChain& chain, FusionPlan& plan);

}  // namespace catenary
