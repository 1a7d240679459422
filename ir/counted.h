// SPDX-License-Identifier: Apache-2.0
// Counts in messages: "1 kernel", "2 kernels".
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace catenary {

// "1 entry", "0 entries", "2 mismatches": `noun` in the singular.
template <typename Integer>
std::string counted(Integer count, std::string_view noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  const bool ies = noun.size() > 1 && noun.back() == 'y' &&
                   std::string_view("aeiou").find(noun[noun.size() - 2]) == std::string_view::npos;
  if (ies) return fmt::format("{} {}ies", count, noun.substr(0, noun.size() - 1));
  return fmt::format("{} {}{}", count, noun, noun.ends_with("ch") ? "es" : "s");
}

}  // namespace catenary
