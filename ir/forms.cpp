// SPDX-License-Identifier: Apache-2.0
#include "ir/forms.h"

#include "ir/algebraic_norms.h"
#include "ir/rounded_weights.h"
#include "ir/summed_products.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

// Appends the rounded form of a chain whose algebraic form, if it is one, is described by `from`.
void add_rounded(const VerifiedChain& chain, const ChainForm& from, std::vector<ChainForm>& forms) {
  RewrittenChain rounded = rounded_form(chain);
  if (!rounded.chain) return;
  ChainForm form = from;
  form.chain = std::make_shared<const VerifiedChain>(std::move(*rounded.chain));
  form.rounded = true;
  llvm::append_range(form.rewritten, rounded.rewritten);
  forms.push_back(std::move(form));
}

}  // namespace

ChainForms other_forms(const VerifiedChain& chain, bool algebraic, bool rounded) {
  ChainForms forms;
  if (algebraic) {
    AlgebraicForm form = algebraic_form(chain);
    forms.kept = std::move(form.kept);
    if (form.chain) {
      forms.all.push_back({std::make_shared<const VerifiedChain>(std::move(*form.chain)), true,
                           false, false, std::move(form.rewritten)});
    }
  }
  if (!rounded) return forms;
  const std::vector<ChainForm> written = forms.all;
  add_rounded(chain, {}, forms.all);
  for (const ChainForm& form : written) add_rounded(*form.chain, form, forms.all);
  return forms;
}

void add_sums_of_products(const VerifiedChain& chain, std::vector<ChainForm>& forms) {
  const auto add = [&](const VerifiedChain& from, ChainForm form) {
    RewrittenChain summed = summed_products(from);
    if (!summed.chain) return;
    form.chain = std::make_shared<const VerifiedChain>(std::move(*summed.chain));
    form.sums_products = true;
    llvm::append_range(form.rewritten, summed.rewritten);
    forms.push_back(std::move(form));
  };
  const std::vector<ChainForm> others = forms;
  add(chain, {});
  for (const ChainForm& form : others) add(*form.chain, form);
}

}  // namespace catenary
