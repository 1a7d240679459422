// SPDX-License-Identifier: Apache-2.0
// The algebraic form of norms before contractions: the same chain with each norm's row scale moved
// through the contractions that read the normalised rows, and without the roundings on that way.
// What the word `algebraic_norms` of a chain allows is decided here and nowhere else.
//
//   n = cast(mul(cast(mul(x, s @ "m"), bf16), g), bf16);  y = contract "mk,nk->mn"(n, w)
//
// becomes
//
//   n = cast(mul(x, g), bf16);  y = mul(contract "mk,nk->mn"(n, w), s @ "m")
//
// The form is a chain with rounding points of its own: its plan, kernels and reference bounds
// follow as those of any other chain. For each product:
//  - the operand is a matrix of float elements that only contractions read, each along the same
//    dimension K, dense and with one label for the rows and one for K; the caller does not want it;
//  - it is a matrix x times, or divided by, numbers for each row, vectors along K and constants, in
//    any order and with casts between; a number for each row depends on a reduction;
//  - below the last such number nothing changes: the rounding of x itself stays;
//  - x does not depend on a reduction by elementwise ops, unless it is rounded. That of LayerNorm
//    does, by its mean;
//  - rows of f16 are x as it is: x that is not normalised, times a gain or in f32, may overflow.
#pragma once

#include "ir/verify/verify.h"

namespace catenary {

struct AlgebraicForm {
  // Same parameters and outputs in the same order; the word itself is not set. Nothing: no operand
  // was rewritten.
  std::optional<VerifiedChain> chain;
  // For explain, a clause each: operands that were rewritten, and others that depend on reductions
  // of their rows, with the reason why they were not.
  std::vector<std::string> rewritten;
  std::vector<std::string> kept;
};

// Pure. Whether the form is allowed is the caller's to ask (Chain::algebraic_norms).
AlgebraicForm algebraic_form(const VerifiedChain& chain);

}  // namespace catenary
