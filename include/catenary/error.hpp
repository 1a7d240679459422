// SPDX-License-Identifier: Apache-2.0
// A failed call of the C ABI as a C++ exception, and text for the C ABI. Part of
// catenary.hpp.
#ifndef CATENARY_ERROR_HPP
#define CATENARY_ERROR_HPP

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "Catenary's C++ headers need C++20: compile with -std=c++20 (C: include catenary/catenary.h)"
#else

#include <cstddef>
#include <stdexcept>
#include <string>

#include "catenary/catenary.h"

namespace ctn {

// A failed call. what() is one sentence with the value, the rule and the fix.
class Error : public std::runtime_error {
 public:
  // From the last error of this thread.
  explicit Error(ctn_status status)
      : std::runtime_error(ctn_last_error()),
        status_(status),
        line_(ctn_last_error_line()),
        column_(ctn_last_error_column()) {}
  ctn_status code() const noexcept { return status_; }  // of the failed call
  int line() const noexcept { return line_; }           // of the parsed text, from 1; 0: none
  int column() const noexcept { return column_; }       // of that line, from 1

 private:
  ctn_status status_;
  int line_;
  int column_;
};

// Throws unless `status` is CTN_OK. Call it on the thread of the failed call.
inline void check(ctn_status status) {
  if (status != CTN_OK) throw Error(status);
}

namespace detail {

// `text` in quotes for a message: cut after 64 bytes, all but printable ASCII as \xNN.
inline std::string quoted(const std::string& text) {
  constexpr std::size_t kShown = 64;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "'";
  for (const char c : text.substr(0, kShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c >= ' ' && c <= '~') {
      out += c;
    } else {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out + (text.size() > kShown ? "...'" : "'");
}

// For an argument of the C ABI, where text ends at its first zero byte.
inline const char* c_text(const std::string& text) {
  if (text.find('\0') == std::string::npos) return text.c_str();
  throw std::invalid_argument(quoted(text) + " contains a zero byte: remove it");
}

}  // namespace detail

}  // namespace ctn

#endif  // C++20
#endif  // CATENARY_ERROR_HPP
