// SPDX-License-Identifier: Apache-2.0
#include "ir/forms.h"

#include "ir/algebraic_norms.h"
#include "ir/canonical_form.h"
#include "ir/rounded_weights.h"
#include "ir/summed_products.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

// Appends a form of a chain, if it has one. `from` describes the chain.
void add_form(RewrittenChain written, ChainForm from, bool ChainForm::*what,
              std::vector<ChainForm>& forms) {
  if (!written.chain) return;
  from.chain = std::make_shared<const VerifiedChain>(std::move(*written.chain));
  from.*what = true;
  llvm::append_range(from.rewritten, written.rewritten);
  forms.push_back(std::move(from));
}

}  // namespace

ChainForms other_forms(const VerifiedChain& given, bool algebraic, bool rounded) {
  ChainForms forms;
  add_form(canonical_form(given), {}, &ChainForm::canonical, forms.all);
  if (!forms.all.empty()) forms.canonical = std::exchange(forms.all, {}).front();
  const ChainForm& own = forms.canonical;
  const VerifiedChain& chain = own.chain ? *own.chain : given;
  if (algebraic) {
    AlgebraicForm form = algebraic_form(chain);
    forms.kept = std::move(form.kept);
    add_form({std::move(form.chain), std::move(form.rewritten)}, own, &ChainForm::algebraic,
             forms.all);
  }
  if (!rounded) return forms;
  const std::vector<ChainForm> written = forms.all;
  add_form(rounded_form(chain), own, &ChainForm::rounded, forms.all);
  for (const ChainForm& form : written)
    add_form(rounded_form(*form.chain), form, &ChainForm::rounded, forms.all);
  return forms;
}

void add_sums_of_products(const VerifiedChain& chain, const ChainForm& form,
                          std::vector<ChainForm>& forms) {
  const std::vector<ChainForm> others = forms;
  add_form(summed_products(chain), form, &ChainForm::sums_products, forms);
  for (const ChainForm& other : others)
    add_form(summed_products(*other.chain), other, &ChainForm::sums_products, forms);
}

}  // namespace catenary
