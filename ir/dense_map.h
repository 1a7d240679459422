// SPDX-License-Identifier: Apache-2.0
// llvm::DenseMap where memory can run out.
#pragma once

#include <algorithm>

#include "llvm/ADT/DenseMap.h"

// The growth of one kind of map, at the top of a namespace, before its first use. LLVM's own
// changes the number of buckets before it allocates them, so that a map whose growth threw
// std::bad_alloc is destroyed by buckets that it does not have. Here such a map is as it was.
#define CATENARY_DENSE_MAP_GROWTH(...)                                                        \
  template <>                                                                                 \
  void llvm::DenseMap<__VA_ARGS__>::grow(unsigned at_least) {                                 \
    using Bucket = typename BaseT::value_type;                                                \
    const unsigned old_count = NumBuckets;                                                    \
    Bucket* const old = Buckets;                                                              \
    const unsigned count = std::max(64u, static_cast<unsigned>(NextPowerOf2(at_least - 1)));  \
    Buckets = static_cast<Bucket*>(allocate_buffer(sizeof(Bucket) * count, alignof(Bucket))); \
    NumBuckets = count;                                                                       \
    if (old == nullptr) return this->BaseT::initEmpty();                                      \
    this->moveFromOldBuckets(old, old + old_count);                                           \
    deallocate_buffer(old, sizeof(Bucket) * old_count, alignof(Bucket));                      \
  }
