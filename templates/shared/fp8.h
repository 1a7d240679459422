// SPDX-License-Identifier: Apache-2.0
// Bits of e4m3 and e5m2 to f32 and back, by integer arithmetic: for GPUs before sm_89, which have
// no instruction, and for the simulator. Shared by host and device.
#pragma once

#include "shared/int.h"

namespace catenary {

// Exponent bias and explicit fraction bits of a format.
struct Fp8Format {
  i32 bias;
  i32 fraction;
  u32 largest;  // bits of the largest finite value
  constexpr bool operator==(const Fp8Format&) const = default;
};
inline constexpr Fp8Format kE4M3Bits = {7, 3, 0x7e};
inline constexpr Fp8Format kE5M2Bits = {15, 2, 0x7b};

// The exact value of the low 8 bits. e4m3 has no infinity; a NaN is 0x7fffffff.
constexpr float fp8_to_f32(const Fp8Format& format, u32 bits) {
  const u32 magnitude = bits & 0x7f;
  const u32 sign = (bits & 0x80) << 24;
  const bool has_infinity = format.largest == kE5M2Bits.largest;
  if (magnitude > format.largest) {
    const bool infinite = has_infinity && magnitude == format.largest + 1;
    return __builtin_bit_cast(float, infinite ? sign | 0x7f800000u : 0x7fffffffu);
  }
  // As an f32 of the same exponent field; the product moves the bias, and normalises subnormals.
  const u32 scale = static_cast<u32>(254 - format.bias) << 23;
  const float value = __builtin_bit_cast(float, magnitude << (23 - format.fraction)) *
                      __builtin_bit_cast(float, scale);
  return __builtin_bit_cast(float, __builtin_bit_cast(u32, value) | sign);
}

// Rounded to nearest, ties to even; values beyond the largest finite one, infinities too, become
// that; a NaN is 0x7f.
constexpr u32 f32_to_fp8(const Fp8Format& format, float value) {
  const u32 bits = __builtin_bit_cast(u32, value);
  const u32 sign = bits >> 24 & 0x80;
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  const u32 shift = 23 - static_cast<u32>(format.fraction);
  const u32 smallest_normal = static_cast<u32>(128 - format.bias) << 23;
  if (magnitude < smallest_normal) {
    // The last bit of this power of two in f32 is the format's smallest value.
    const u32 power = static_cast<u32>(151 - format.bias - format.fraction) << 23;
    const float shifted = __builtin_bit_cast(float, magnitude) + __builtin_bit_cast(float, power);
    return sign | (__builtin_bit_cast(u32, shifted) - power);
  }
  const u32 even = magnitude >> shift & 1;
  const u32 rounded = (magnitude + (1u << (shift - 1)) - 1 + even) >> shift;
  const u32 result = rounded - (static_cast<u32>(127 - format.bias) << format.fraction);
  return sign | (result < format.largest ? result : format.largest);
}

}  // namespace catenary
