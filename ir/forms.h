// SPDX-License-Identifier: Apache-2.0
// The other forms that the words of a chain allow: chains that a plan may compute in its place, and
// whose results are right too.
#pragma once

#include <memory>

#include "ir/verify/verify.h"

namespace catenary {

// One of them: the algebraic form (algebraic_norms.h), the rounded form (rounded_weights.h), or the
// rounded form of the algebraic one. A plan adds those with sums of products (summed_products.h),
// which no word needs to allow.
struct ChainForm {
  std::shared_ptr<const VerifiedChain> chain;
  bool algebraic = false;
  bool rounded = false;
  bool sums_products = false;
  std::vector<std::string> rewritten;  // for explain: what differs from the chain, a clause each
};

struct ChainForms {
  std::vector<ChainForm> all;     // no form is the chain as written
  std::vector<std::string> kept;  // AlgebraicForm::kept of the chain
};

// Pure. `algebraic`, `rounded`: the forms that are allowed.
ChainForms other_forms(const VerifiedChain& chain, bool algebraic, bool rounded);

// Appends the forms with sums of products: of the chain as written, then of each of `forms`.
void add_sums_of_products(const VerifiedChain& chain, std::vector<ChainForm>& forms);

}  // namespace catenary
