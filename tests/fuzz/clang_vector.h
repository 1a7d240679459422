// SPDX-License-Identifier: Apache-2.0
// Included before all else where clang compiles the project over libstdc++: std::vector without
// constexpr members. LLVM 14's JSON.h has a vector of a type that is incomplete there, and clang
// instantiates constexpr members at once; g++ does not.
#pragma once

// What <vector> includes keeps its constexpr.
#include <algorithm>
#include <bits/stl_uninitialized.h>

#include <compare>
#include <initializer_list>
#include <string>
#include <tuple>

#pragma push_macro("_GLIBCXX20_CONSTEXPR")
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#include <bits/stl_vector.h>
#pragma pop_macro("_GLIBCXX20_CONSTEXPR")

#include <vector>
