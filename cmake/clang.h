// SPDX-License-Identifier: Apache-2.0
// Included before everything else where clang compiles the project over libstdc++.
//
// In C++20 all members of std::vector are constexpr, and clang instantiates them where they are
// named, also for an element type that is not complete yet, as in LLVM 14's JSON.h. Without
// constexpr it waits until the end of the file. std::allocator stays constexpr for fmt's buffers.
#include <bits/allocator.h>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#undef __cpp_lib_is_constant_evaluated

// The macros of g++ for what clang tells by __has_feature.
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
