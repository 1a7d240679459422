// SPDX-License-Identifier: Apache-2.0
// Contractions that have few results for each batch entry as sums of products: the same chain with
//
//   p = mul(x @ "bmk", v @ "bk");  y = sum "bmk->bm"(p)
//
// in place of y = contract "bmk,bk->bm"(x, v). Tiles of such a contraction are mostly empty; the
// kernel of a sum reads each operand once. Products of 16-bit operands are exact in the normal
// range of f32, and both add in f32 in any order: the bounds of the results are those of the
// contraction, and no word of the chain is needed.
#pragma once

#include "ir/rewrite.h"

namespace catenary {

// Pure. Without a chain where no contraction is one of these: of 16-bit operands without ragged
// labels, at most 8 results for each batch entry, and one operand that has all labels.
RewrittenChain summed_products(const VerifiedChain& chain);

}  // namespace catenary
