// SPDX-License-Identifier: Apache-2.0
#include "ir/names.h"

#include <fmt/format.h>

#include <algorithm>

#include "llvm/ADT/StringRef.h"

namespace catenary {

bool is_identifier(std::string_view text) {
  return !text.empty() && !is_digit(text[0]) && std::all_of(text.begin(), text.end(), is_name_byte);
}

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

std::string quoted(std::string_view text) {
  constexpr size_t kShown = 64;
  if (text.size() <= kShown) return fmt::format("'{}'", escaped(text));
  return fmt::format("'{}...'", escaped(text.substr(0, kShown)));
}

namespace {

// Is `a` the other with two neighbouring letters in each other's place?
bool swapped(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  const auto [left, right] = std::mismatch(a.begin(), a.end(), b.begin());
  if (a.end() - left < 2 || left[0] != right[1] || left[1] != right[0]) return false;
  return std::equal(left + 2, a.end(), right + 2);
}

// The one candidate that begins with `text`; "": none or several, or `text` is short.
std::string_view only_continuation(std::string_view text,
                                   llvm::ArrayRef<std::string_view> candidates) {
  std::string_view found;
  if (text.size() < 3) return found;
  for (std::string_view candidate : candidates) {
    if (candidate.substr(0, text.size()) != text) continue;
    if (!found.empty()) return {};
    found = candidate;
  }
  return found;
}

}  // namespace

std::string_view nearest_name(std::string_view text, llvm::ArrayRef<std::string_view> candidates) {
  const llvm::StringRef wanted(text.data(), text.size());
  // More than a third of the letters wrong: another word, not a typing error.
  unsigned best = std::max(static_cast<unsigned>(std::min<size_t>(text.size(), 64)) / 3, 1u) + 1;
  std::string_view nearest;
  for (std::string_view candidate : candidates) {
    const llvm::StringRef known(candidate.data(), candidate.size());
    const unsigned distance = swapped(text, candidate)
                                  ? 1
                                  : wanted.edit_distance(known, /*AllowReplacements=*/true, best);
    // With one letter each, every letter differs.
    if (distance < best && distance < std::max(text.size(), candidate.size())) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest.empty() ? only_continuation(text, candidates) : nearest;
}

std::string suggestion(std::string_view text, llvm::ArrayRef<std::string_view> candidates) {
  const std::string_view name = nearest_name(text, candidates);
  return name.empty() ? "" : fmt::format(" (did you mean {}?)", quoted(name));
}

}  // namespace catenary
