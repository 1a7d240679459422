// SPDX-License-Identifier: Apache-2.0
#include "simulator/model/number.h"

#include <cmath>
#include <cstring>

#include "ir/reference/reference.h"

namespace catenary::sim {
namespace {

DType dtype_of(Number number) {
  switch (number) {
    case Number::kBF16:
      return DType::kBF16;
    case Number::kF16:
      return DType::kF16;
    default:
      return DType::kF32;
  }
}

}  // namespace

u32 number_bytes(Number number) {
  if (number == Number::kE4M3 || number == Number::kE5M2) return 1;
  return number == Number::kBF16 || number == Number::kF16 ? 2 : 4;
}

void add_numbers(void* to, const void* from, u32 count, Number number) {
  for (u32 i = 0; i < count; ++i) {
    if (number == Number::kU32) {
      u32 a, b;
      std::memcpy(&a, static_cast<u8*>(to) + 4 * i, 4);
      std::memcpy(&b, static_cast<const u8*>(from) + 4 * i, 4);
      a += b;
      std::memcpy(static_cast<u8*>(to) + 4 * i, &a, 4);
      continue;
    }
    // Rounding an f32 sum through double is correct: 53 >= 2 * 24 + 2 fraction bits.
    const DType dtype = dtype_of(number);
    store_element(dtype, to, i, load_element(dtype, to, i) + load_element(dtype, from, i));
  }
}

void round_numbers_to_tf32(void* numbers, u32 count) {
  for (u32 i = 0; i < count; ++i) {
    const double value = load_element(DType::kF32, numbers, i);
    if (std::isnan(value)) {
      constexpr u32 kNan = 0x7fffe000;  // for every sign and payload (measured on an H200)
      std::memcpy(static_cast<u8*>(numbers) + 4 * i, &kNan, 4);
    } else if (std::isfinite(value)) {
      store_element(DType::kF32, numbers, i, round_to_tf32(value, true));
    }
  }
}

}  // namespace catenary::sim
