// SPDX-License-Identifier: Apache-2.0
// Operands that contractions form as they load rows of another tensor: a norm whose result the
// chain rounds before the product, a gain in f32, a cast. Taken from plain IR, LayerNorm for one:
//
//   mean = mul(sum "mk->m"(x), 1/K);  d = sub(x @ "mk", mean @ "m")
//   s = rsqrt(add(mul(sum "mk->m"(square(d)), 1/K), eps))
//   n = cast(add(mul(mul(d, s @ "m"), g @ "k"), b @ "k"), bf16);  y = contract "mk,nk->mn"(n, w)
//
// Any elementwise value of one matrix, of vectors along K and of numbers for each row is such an
// operand, if only contractions read it, along K. Numbers for each row come from sums along K
// of elementwise terms of the same matrix; a sum whose terms depend on another sum is a pass of its
// own over the rows. The lines are those of the chain, and so are the rounding points. Knows no
// family.
#pragma once

#include "compiler/fusion/fuse.h"

namespace catenary {

// Per value, whether it depends on a reduction by elementwise ops and casts only.
std::vector<bool> depend_on_sums(const VerifiedChain& chain);

// Moves each such operand into the contractions that read it, with all that only it needs. Says in
// FusionPlan::kept_apart why an operand that depends on sums of its rows is none. Returns whether
// one was moved. The plan is complete but for norms inside, sums of rows and copies; gains
// have been moved.
bool form_operands_inside(const VerifiedChain& chain, FusionPlan& plan);

}  // namespace catenary
