// SPDX-License-Identifier: Apache-2.0
// The forms of a chain. Planners read the canonical form. The words of a chain allow other forms: a
// plan may compute one of them instead, and its results are right too.
#pragma once

#include <memory>

#include "ir/verify/verify.h"

namespace catenary {

// One of them: the canonical form (canonical_form.h), and of that the algebraic form
// (algebraic_norms.h), the rounded form (rounded_weights.h), or the rounded form of the algebraic
// one. A plan adds those with sums of products (summed_products.h), which no word needs to allow.
struct ChainForm {
  std::shared_ptr<const VerifiedChain> chain;
  bool canonical = false;  // the chain was written in another way
  bool algebraic = false;
  bool rounded = false;
  bool sums_products = false;
  std::vector<std::string> rewritten;  // for explain: what differs from the chain, a clause each
};

struct ChainForms {
  ChainForm canonical;            // without a chain: the one that was written is
  std::vector<ChainForm> all;     // the others, of the canonical form
  std::vector<std::string> kept;  // AlgebraicForm::kept
};

// Pure. `algebraic`, `rounded`: the forms that are allowed.
ChainForms other_forms(const VerifiedChain& chain, bool algebraic, bool rounded);

// Appends the forms with sums of products: of `chain`, which `form` describes, then of each of
// `forms`.
void add_sums_of_products(const VerifiedChain& chain, const ChainForm& form,
                          std::vector<ChainForm>& forms);

}  // namespace catenary
