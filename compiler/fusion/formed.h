// SPDX-License-Identifier: Apache-2.0
// Operands that contractions form as they load rows of another tensor: a norm whose result the
// chain rounds before the product, a gain in f32, a cast. Taken from plain IR, LayerNorm for one:
//
//   mean = mul(sum "mk->m"(x), 1/K);  d = sub(x @ "mk", mean @ "m")
//   s = rsqrt(add(mul(sum "mk->m"(square(d)), 1/K), eps))
//   n = cast(add(mul(mul(d, s @ "m"), g @ "k"), b @ "k"), bf16);  y = contract "mk,nk->mn"(n, w)
//
// Such an operand is elementwise in one matrix, in vectors along K and in numbers for each row, and
// only contractions read it, along K. The numbers of a row come from sums along K over elementwise
// values of the same matrix. A sum that depends on another sum takes another pass over the rows.
// The lines are those of the chain, and so are the rounding points. Knows no family.
#pragma once

#include "compiler/fusion/fuse.h"

namespace catenary {

// Moves each such operand into the contractions that read it, with all that only it needs. Says in
// FusionPlan::kept_apart why an operand that depends on sums of its rows is none. Returns whether
// one was moved. The plan is complete but for norms inside, sums of rows and copies; gains
// have been moved.
bool form_operands_inside(const VerifiedChain& chain, FusionPlan& plan);

}  // namespace catenary
