// SPDX-License-Identifier: Apache-2.0
#include "ir/chain_words.h"

#include <fmt/ranges.h>

#include <vector>

#include "ir/names.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {

Expected<const ChainWord*> find_word(std::string_view name) {
  const auto* word = llvm::find_if(kChainWords, [&](const ChainWord& w) { return w.name == name; });
  if (word != std::end(kChainWords)) return word;
  std::vector<std::string_view> names;
  for (const ChainWord& known : kChainWords) names.push_back(known.name);
  return make_error(ErrorCode::kInvalidArgument,
                    "unknown word {} after the name of the chain{}: use {}, or none", quoted(name),
                    suggestion(name, names), fmt::join(names, ", "));
}

}  // namespace catenary
