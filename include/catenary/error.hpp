// SPDX-License-Identifier: Apache-2.0
// A failed call of the C ABI as a C++ exception. Part of catenary.hpp.
#ifndef CATENARY_ERROR_HPP
#define CATENARY_ERROR_HPP

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "Catenary's C++ headers need C++20: compile with -std=c++20 (C: include catenary/catenary.h)"
#else

#include <stdexcept>

#include "catenary/catenary.h"

namespace ctn {

// A failed call. what() is one sentence with the value, the rule and the fix.
class Error : public std::runtime_error {
 public:
  explicit Error(ctn_status status)
      : std::runtime_error(ctn_last_error()),
        status_(status),
        line_(ctn_last_error_line()),
        column_(ctn_last_error_column()) {}
  ctn_status code() const noexcept { return status_; }
  int line() const noexcept { return line_; }  // of the parsed text, from 1; 0: none
  int column() const noexcept { return column_; }

 private:
  ctn_status status_;
  int line_;
  int column_;
};

// Throws unless `status` is CTN_OK. Call it on the thread of the failed call.
inline void check(ctn_status status) {
  if (status != CTN_OK) throw Error(status);
}

}  // namespace ctn

#endif  // C++20
#endif  // CATENARY_ERROR_HPP
