// SPDX-License-Identifier: Apache-2.0
#include "ir/rewrite.h"

namespace catenary {

RewrittenChain rewritten_chain(Expected<VerifiedChain> written, std::vector<std::string> clauses) {
  if (written) return {std::move(*written), std::move(clauses)};
  llvm::consumeError(written.takeError());
  return {};
}

void drop_unused(Chain& chain) {
  std::vector<bool> used(chain.values.size());
  for (const Output& output : chain.outputs) used[output.value] = true;
  for (size_t i = chain.values.size(); i-- > 0;) {
    const Value& value = chain.values[i];
    used[i] = used[i] || value.op == Op::kParameter;
    if (!used[i]) continue;
    for (const Use& use : value.operands) used[use.value] = true;
  }
  std::vector<ValueId> kept(chain.values.size(), -1);
  std::vector<Value> values;
  for (size_t i = 0; i < chain.values.size(); ++i) {
    if (!used[i]) continue;
    kept[i] = static_cast<ValueId>(values.size());
    values.push_back(std::move(chain.values[i]));
    for (Use& use : values.back().operands) use.value = kept[use.value];
    if (auto& ragged = values.back().ragged) ragged->ends = kept[ragged->ends];
  }
  chain.values = std::move(values);
  for (Output& output : chain.outputs) {
    output.value = kept[output.value];
    if (output.in_place >= 0) output.in_place = kept[output.in_place];
  }
}

std::string FreshNames::make(const std::string& base, const std::string& suffix) {
  constexpr size_t kRoom = 24;  // for the suffix and the number
  const std::string start = base.substr(0, kMaxNameBytes - kRoom) + suffix;
  std::string name = start;
  for (int i = 2; !names_.insert(name).second; ++i) name = fmt::format("{}{}", start, i);
  return name;
}

}  // namespace catenary
