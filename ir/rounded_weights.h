// SPDX-License-Identifier: Apache-2.0
// The rounded form of quantised weights: the same chain with every weight of integers rounded to
// the dtype of the operand that it is multiplied with. What the word `rounded_weights` of a chain
// allows is decided here and nowhere else.
//
//   y = contract "mk,nk->mn"(x, dequant(q, s) block (1, 128))
//
// becomes, where x is bf16,
//
//   w = cast(dequant(q, s) block (1, 128), bf16);  y = contract "mk,nk->mn"(x, w)
//
// There is one cast for each weight and dtype. The form is a chain with a rounding of its own: its
// plan, kernels and reference bounds follow as those of any other chain. Weights of fp8 stay.
#pragma once

#include "ir/rewrite.h"

namespace catenary {

// Pure. The form does not have the word itself. There is no form where no contraction reads a
// dequantised weight of integers. The caller checks that the chain or its options allow the form.
RewrittenChain rounded_form(const VerifiedChain& chain);

}  // namespace catenary
