// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the storage types. PTX ISA 9.7.9.21 (cvt): .rn rounds to nearest
// even, .rna (tf32) to nearest, ties away from zero. A two-element cvt takes the high half first.
#pragma once

#include "ptx/device.cuh"
#include "shared/fp8.h"

namespace catenary {

CATENARY_DEVICE float bits_to_f32(u32 bits) { return __uint_as_float(bits); }
CATENARY_DEVICE u32 f32_to_bits(float v) { return __float_as_uint(v); }

CATENARY_DEVICE float bf16_to_f32(u32 bits) { return bits_to_f32(bits << 16); }

CATENARY_DEVICE float f16_to_f32(u16 bits) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
}

CATENARY_DEVICE u16 f32_to_f16(float v) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}

CATENARY_DEVICE u32 f32_to_bf16x2(float low, float high) {
  u32 bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

CATENARY_DEVICE u32 f32_to_f16x2(float low, float high) {
  u32 bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}

CATENARY_DEVICE u16 f32_to_bf16(float v) { return static_cast<u16>(f32_to_bf16x2(v, 0.0f)); }

// Two elements of 8 bits, the low one in the low byte. Saturating: infinities become the largest
// finite value; a NaN is 0x7f. Instructions of sm_89 and newer.
CATENARY_DEVICE u16 f32_to_e4m3x2(float low, float high) {
#if __CUDA_ARCH__ >= 890
  u16 bits;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return static_cast<u16>(f32_to_fp8(kE4M3Bits, low) | f32_to_fp8(kE4M3Bits, high) << 8);
#endif
}

CATENARY_DEVICE u16 f32_to_e5m2x2(float low, float high) {
#if __CUDA_ARCH__ >= 890
  u16 bits;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return static_cast<u16>(f32_to_fp8(kE5M2Bits, low) | f32_to_fp8(kE5M2Bits, high) << 8);
#endif
}

// Exact: f16 has every value of e4m3 and e5m2.
CATENARY_DEVICE u32 e4m3x2_to_f16x2(u16 bits) {
#if __CUDA_ARCH__ >= 890
  u32 halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(bits));
  return halves;
#else
  return f32_to_f16x2(fp8_to_f32(kE4M3Bits, bits), fp8_to_f32(kE4M3Bits, bits >> 8));
#endif
}

CATENARY_DEVICE u32 e5m2x2_to_f16x2(u16 bits) {
#if __CUDA_ARCH__ >= 890
  u32 halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(bits));
  return halves;
#else
  return f32_to_f16x2(fp8_to_f32(kE5M2Bits, bits), fp8_to_f32(kE5M2Bits, bits >> 8));
#endif
}

// A NaN whose payload is only in the low 13 bits becomes infinite (RESULTS hw-31); NaNs that
// arithmetic gives stay NaN.
CATENARY_DEVICE u32 f32_to_tf32(u32 bits) {
  u32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(bits_to_f32(bits)));
  return rounded;
}

}  // namespace catenary
