// SPDX-License-Identifier: Apache-2.0
// A host thread whose locale or floating-point environment is not C's default, for a scope.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cfenv>
#include <clocale>
#include <cstdlib>
#include <string>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "tests/support/temp_dir.h"

namespace catenary::test {

// A process-wide locale with a decimal comma: German, made by localedef where it is not installed.
class CommaLocale {
 public:
  CommaLocale() : path_("LOCPATH", std::getenv("LOCPATH")) {
    found_ = choose();
    if (!found_) make();
    if (!found_) MESSAGE("skipped: neither a German locale nor localedef is installed");
  }
  ~CommaLocale() { std::setlocale(LC_ALL, "C"); }
  bool found() const { return found_; }

 private:
  static bool choose() {
    return std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr &&
           std::localeconv()->decimal_point[0] == ',';
  }
  void make() {
    const std::string command = fmt::format(
        "localedef -i de_DE -f UTF-8 --no-archive '{}' >/dev/null 2>&1", folder_ / "de_DE.UTF-8");
    if (std::system(command.c_str()) != 0) return;
    ::setenv("LOCPATH", folder_.path().c_str(), 1);
    found_ = choose();
  }

  TempDir folder_;
  ScopedEnv path_;  // restores LOCPATH
  bool found_ = false;
};

// A rounding mode, with or without subnormals replaced by zero.
class HostRounding {
 public:
  HostRounding(int mode, bool flush) {
    std::fegetenv(&before_);
    std::fesetround(mode);
#if defined(__SSE2__)
    if (flush) _mm_setcsr(_mm_getcsr() | 0x8040);  // FTZ and DAZ
#endif
  }
  HostRounding(const HostRounding&) = delete;
  HostRounding& operator=(const HostRounding&) = delete;
  ~HostRounding() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

}  // namespace catenary::test
