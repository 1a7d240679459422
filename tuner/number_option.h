// SPDX-License-Identifier: Apache-2.0
// Whole numbers as options of the command. CLI11 alone takes -1 as an unsigned number, a number
// beyond 64 bits as the largest, and 010 as 8: every option that is a number has one of these.
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "ir/names.h"
#include "shared/int.h"

namespace catenary {

inline constexpr u64 kMaxI64 = std::numeric_limits<i64>::max();

// All of `text` as a decimal number; nothing: it is none, or does not fit.
template <typename Integer>
std::optional<Integer> decimal(std::string_view text) {
  Integer value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// For CLI::Option::transform: refuses what is no whole number from `least` to `most`.
inline CLI::Validator whole_number(u64 least, u64 most) {
  const std::string range = most >= kMaxI64 ? fmt::format("of {} or more", least)
                                            : fmt::format("from {} to {}", least, most);
  const char* bound = most > kMaxI64 ? ", below 2^64" : most == kMaxI64 ? ", below 2^63" : "";
  const auto check = [least, most, range, bound](std::string& text) -> std::string {
    const auto value = decimal<u64>(text);
    if (!value || *value < least || *value > most) {
      return fmt::format("{} is not a whole number {}{}", catenary::quoted(text), range, bound);
    }
    text = fmt::format("{}", *value);
    return "";
  };
  return CLI::Validator(check, range);
}

// For CLI::Option::transform: bytes with an optional unit, as in 4096, 64MiB, 1G; units of 1024.
inline CLI::Validator byte_size() {
  const auto check = [](std::string& text) -> std::string {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto count = decimal<u64>(std::string_view(text).substr(0, digits));
    const std::string unit = CLI::detail::to_lower(text.substr(digits));
    constexpr std::string_view kUnits = "kmgtpe";
    const size_t power = unit.empty() || unit == "b" ? 0 : kUnits.find(unit[0]) + 1;
    const std::string rest = power > 0 ? unit.substr(1) : "";
    const bool known =
        (unit.empty() || unit == "b" || power > 0) && (rest.empty() || rest == "b" || rest == "ib");
    if (!count || !known || *count > kMaxI64 >> (10 * power)) {
      return fmt::format("{} is not a number of bytes below 2^63 such as 4096, 64MiB or 1GiB",
                         catenary::quoted(text));
    }
    text = fmt::format("{}", *count << (10 * power));
    return "";
  };
  return CLI::Validator(check, "");
}

}  // namespace catenary
