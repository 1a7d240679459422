// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/convert.cuh: exact, by integer arithmetic. NaN becomes 0x7fff in 16 bits (PTX
// ISA 9.7.9.21, cvt: "canonical NaN") and 0x7fffffff in 32 bits (RESULTS hw-31).
#pragma once

#include "ptx/device.cuh"
#include "shared/fp8.h"

namespace catenary {
namespace sim {

// Drops the low `drop` bits, rounding to nearest even.
inline u32 round_even(u32 bits, int drop) {
  return (bits + (1u << (drop - 1)) - 1 + (bits >> drop & 1)) >> drop;
}

inline u32 bf16_bits(float v) {
  const u32 bits = __builtin_bit_cast(u32, v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return round_even(bits, 16);
}

inline u32 f16_bits(float v) {
  const u32 bits = __builtin_bit_cast(u32, v);
  const u32 sign = bits >> 16 & 0x8000u;
  const u32 magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fff;
  if (magnitude >= 0x47800000u) return sign | 0x7c00;  // 2^16 and more
  if (magnitude < 0x38800000u) {
    // Subnormal below 2^-14: the last bit of an f32 in [0.5, 1) is 2^-24, as of f16's subnormals.
    const float shifted = __builtin_bit_cast(float, magnitude) + 0.5f;
    return sign | (__builtin_bit_cast(u32, shifted) - 0x3f000000u);
  }
  return sign | (round_even(magnitude, 13) - (112u << 10));
}

}  // namespace sim

CATENARY_DEVICE float bits_to_f32(u32 bits, sim::Site = sim::here()) {
  return __builtin_bit_cast(float, bits);
}

CATENARY_DEVICE u32 f32_to_bits(float v, sim::Site at = sim::here()) {
  sim::use(v, sim::in(at, __func__));
  return __builtin_bit_cast(u32, v);
}

CATENARY_DEVICE float bf16_to_f32(u32 bits, sim::Site = sim::here()) {
  return __builtin_bit_cast(float, bits << 16);
}

CATENARY_DEVICE float f16_to_f32(u16 bits, sim::Site = sim::here()) {
  const u32 sign = static_cast<u32>(bits & 0x8000) << 16;
  const u32 exponent = bits >> 10 & 31;
  const u32 fraction = bits & 0x3ff;
  if (exponent == 31) {
    return __builtin_bit_cast(float, fraction != 0 ? 0x7fffffffu : sign | 0x7f800000u);
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return __builtin_bit_cast(float, sign | (exponent + 112) << 23 | fraction << 13);
}

CATENARY_DEVICE u16 f32_to_f16(float v, sim::Site at = sim::here()) {
  sim::use(v, sim::in(at, __func__));
  return static_cast<u16>(sim::f16_bits(v));
}

CATENARY_DEVICE u32 f32_to_bf16x2(float low, float high, sim::Site at = sim::here()) {
  sim::use(low, sim::in(at, __func__));
  sim::use(high, sim::in(at, __func__));
  return sim::bf16_bits(low) | sim::bf16_bits(high) << 16;
}

CATENARY_DEVICE u32 f32_to_f16x2(float low, float high, sim::Site at = sim::here()) {
  sim::use(low, sim::in(at, __func__));
  sim::use(high, sim::in(at, __func__));
  return sim::f16_bits(low) | sim::f16_bits(high) << 16;
}

CATENARY_DEVICE u16 f32_to_bf16(float v, sim::Site at = sim::here()) {
  sim::use(v, sim::in(at, __func__));
  return static_cast<u16>(sim::bf16_bits(v));
}

CATENARY_DEVICE u16 f32_to_e4m3x2(float low, float high, sim::Site at = sim::here()) {
  sim::use(low, sim::in(at, __func__));
  sim::use(high, sim::in(at, __func__));
  return static_cast<u16>(f32_to_fp8(kE4M3Bits, low) | f32_to_fp8(kE4M3Bits, high) << 8);
}

CATENARY_DEVICE u16 f32_to_e5m2x2(float low, float high, sim::Site at = sim::here()) {
  sim::use(low, sim::in(at, __func__));
  sim::use(high, sim::in(at, __func__));
  return static_cast<u16>(f32_to_fp8(kE5M2Bits, low) | f32_to_fp8(kE5M2Bits, high) << 8);
}

CATENARY_DEVICE u32 e4m3x2_to_f16x2(u16 bits, sim::Site = sim::here()) {
  return sim::f16_bits(fp8_to_f32(kE4M3Bits, bits)) |
         sim::f16_bits(fp8_to_f32(kE4M3Bits, bits >> 8)) << 16;
}

CATENARY_DEVICE u32 e5m2x2_to_f16x2(u16 bits, sim::Site = sim::here()) {
  return sim::f16_bits(fp8_to_f32(kE5M2Bits, bits)) |
         sim::f16_bits(fp8_to_f32(kE5M2Bits, bits >> 8)) << 16;
}

// Ties away from zero: adds half of the last kept bit to the magnitude.
CATENARY_DEVICE u32 f32_to_tf32(u32 bits, sim::Site at = sim::here()) {
  sim::use(bits, sim::in(at, __func__));
  // A NaN is truncated, not rounded: one with only low bits becomes infinite (RESULTS hw-31).
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bits & 0xffffe000u;
  return (bits + 0x1000u) & 0xffffe000u;
}

}  // namespace catenary
