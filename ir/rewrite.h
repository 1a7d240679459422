// SPDX-License-Identifier: Apache-2.0
// What the makers of a chain's other forms share (forms.h): names that are free, and the result.
#pragma once

#include <set>

#include "ir/verify/verify.h"

namespace catenary {

// Another form of a chain: same parameters and outputs in the same order.
struct RewrittenChain {
  std::optional<VerifiedChain> chain;  // nothing: there is no such form
  std::vector<std::string> rewritten;  // for explain, a clause for each place that differs
};

// The form that was written. Without one where it breaks a limit on the number of values: the chain
// is then planned as it is.
RewrittenChain rewritten_chain(Expected<VerifiedChain> written, std::vector<std::string> clauses);

// Drops values that no output needs. Parameters stay.
void drop_unused(Chain& chain);

// Names that no value of the chain has.
class FreshNames {
 public:
  explicit FreshNames(const Chain& chain) {
    for (const Value& value : chain.values) names_.insert(value.name);
  }

  // `base`, shortened where it is long, and `suffix`; a number follows where that is taken.
  std::string make(const std::string& base, const std::string& suffix);

 private:
  std::set<std::string> names_;
};

}  // namespace catenary
