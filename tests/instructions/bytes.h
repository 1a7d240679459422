// SPDX-License-Identifier: Apache-2.0
// Helpers of the cases in this folder: numbers in and out of byte buffers, and reproducible random
// data.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "tests/instructions/cases.h"

namespace catenary::instructions {

using Bytes = std::vector<u8>;

inline constexpr u8 kUntouched = 0xcd;  // what outputs hold before a launch

template <class T>
T get(const Bytes& from, size_t offset) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof value);
  return value;
}

template <class T>
void put(Bytes& to, size_t offset, T value) {
  std::memcpy(to.data() + offset, &value, sizeof value);
}

inline void copy(const Bytes& from, size_t at, size_t bytes, Bytes& to, size_t offset) {
  std::memcpy(to.data() + offset, from.data() + at, bytes);
}

// The same numbers on every platform, unlike std's distributions.
class Random {
 public:
  explicit Random(u64 seed) : engine_(seed) {}
  u32 word() { return static_cast<u32>(engine_()); }
  i32 between(i32 low, i32 high) {
    return low + static_cast<i32>(engine_() % static_cast<u64>(high - low + 1));
  }
  Bytes bytes(size_t count) {
    Bytes result(count);
    for (u8& byte : result) byte = static_cast<u8>(engine_());
    return result;
  }

 private:
  std::mt19937_64 engine_;
};

// Integers of magnitude up to 256 (bf16) or 2048 (f16) are exact.
inline u16 bf16_of(i32 value) {
  return static_cast<u16>(std::bit_cast<u32>(static_cast<float>(value)) >> 16);
}
inline u16 f16_of(i32 value) {
  if (value == 0) return 0;
  const u32 bits = std::bit_cast<u32>(static_cast<float>(value));
  return static_cast<u16>((bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - (112u << 23)) >> 13);
}

// Integers of magnitude up to 16 (e4m3) or 8 (e5m2) are exact. `fraction`: explicit fraction bits.
inline u8 fp8_of(i32 value, int fraction) {
  if (value == 0) return 0;
  const u32 bits = std::bit_cast<u32>(static_cast<float>(value));
  const u32 bias = fraction == 3 ? 7 : 15;
  return static_cast<u8>((bits >> 24 & 0x80) |
                         ((bits & 0x7fffffff) - ((127 - bias) << 23)) >> (23 - fraction));
}

inline u32 element_bytes(sim::Number number) {
  if (number == sim::Number::kE4M3 || number == sim::Number::kE5M2) return 1;
  return number == sim::Number::kBF16 || number == sim::Number::kF16 ? 2 : 4;
}

// An integer as an element: bf16, f16, or f32 for tf32.
inline void put_number(Bytes& to, size_t offset, sim::Number number, i32 value) {
  if (number == sim::Number::kBF16) {
    put(to, offset, bf16_of(value));
  } else if (number == sim::Number::kF16) {
    put(to, offset, f16_of(value));
  } else if (number == sim::Number::kE4M3 || number == sim::Number::kE5M2) {
    put(to, offset, fp8_of(value, number == sim::Number::kE4M3 ? 3 : 2));
  } else {
    put(to, offset, static_cast<float>(value));
  }
}

inline Buffer input(Bytes bytes) { return {"in", sim::RegionRole::kInput, std::move(bytes)}; }
inline Buffer workspace(size_t bytes) {
  return {"work", sim::RegionRole::kWorkspace, Bytes(bytes, 0)};
}
inline Buffer output(Bytes bytes) { return {"out", sim::RegionRole::kOutput, std::move(bytes)}; }
inline Buffer output(size_t bytes) { return output(Bytes(bytes, kUntouched)); }

}  // namespace catenary::instructions
