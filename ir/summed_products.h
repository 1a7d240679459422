// SPDX-License-Identifier: Apache-2.0
// Contractions that have few results for each batch entry as sums of products: the same chain with
//
//   p = mul(x @ "bmk", v @ "bk");  y = sum "bmk->bm"(p)
//
// in place of y = contract "bmk,bk->bm"(x, v). Tiles of such a contraction are mostly empty; the
// kernel of a sum reads each operand once. Products of 16-bit operands are exact in f32, and both
// add in f32 in any order: the bounds of the results are those of the contraction, and no word of
// the chain is needed.
#pragma once

#include "ir/verify/verify.h"

namespace catenary {

struct SummedProducts {
  // Same parameters and outputs in the same order. Nothing: no contraction is one of these.
  std::optional<VerifiedChain> chain;
  // For explain, a clause for each contraction.
  std::vector<std::string> rewritten;
};

// Pure. Those of 16-bit operands without ragged labels, at most 8 results for each batch entry, and
// one operand that has all labels.
SummedProducts summed_products(const VerifiedChain& chain);

}  // namespace catenary
