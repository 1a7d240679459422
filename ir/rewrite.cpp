// SPDX-License-Identifier: Apache-2.0
#include "ir/rewrite.h"

namespace catenary {

RewrittenChain rewritten_chain(Expected<VerifiedChain> written, std::vector<std::string> clauses) {
  if (written) return {std::move(*written), std::move(clauses)};
  llvm::consumeError(written.takeError());
  return {};
}

std::string FreshNames::make(const std::string& base, const std::string& suffix) {
  constexpr size_t kRoom = 24;  // for the suffix and the number
  const std::string start = base.substr(0, kMaxNameBytes - kRoom) + suffix;
  std::string name = start;
  for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}{}", start, i);
  return name;
}

}  // namespace catenary
