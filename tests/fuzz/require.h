// SPDX-License-Identifier: Apache-2.0
// What a fuzz target requires. It knows no test framework: the targets run under doctest and under
// libFuzzer, and both report an abort with the input.
#pragma once

#include <cstdio>
#include <cstdlib>

#define FUZZ_REQUIRE(condition)                                                      \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)
