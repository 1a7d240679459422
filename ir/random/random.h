// SPDX-License-Identifier: Apache-2.0
// A small random generator with the same sequence on every host and with every standard library.
// splitmix64, by Steele, Lea and Flood.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "shared/int.h"

namespace catenary {

constexpr u64 mix64(u64 x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(u64 seed) : state_(mix64(seed + 0x9e3779b97f4a7c15ull)) {}

  u64 next() { return mix64(state_ += 0x9e3779b97f4a7c15ull); }

  // Uniform in [lo, hi].
  i64 range(i64 lo, i64 hi) {
    return lo + static_cast<i64>(next() % (static_cast<u64>(hi - lo) + 1));
  }

  // True with a probability of `percent` / 100.
  bool chance(int percent) { return range(0, 99) < percent; }

  template <typename T>
  const T& pick(llvm::ArrayRef<T> from) {
    return from[range(0, static_cast<i64>(from.size()) - 1)];
  }

 private:
  u64 state_;
};

}  // namespace catenary
