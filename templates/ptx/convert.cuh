// SPDX-License-Identifier: Apache-2.0
// Conversions between f32 and the storage types. PTX ISA 9.7.9.21 (cvt): .rn rounds to nearest
// even, .rna (tf32) to nearest, ties away from zero. A two-element cvt takes the high half first.
#pragma once

#include "ptx/device.cuh"

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

// A NaN whose payload is only in the low 13 bits becomes infinite (RESULTS hw-31); NaNs that
// arithmetic gives stay NaN.
CATENARY_DEVICE u32 f32_to_tf32(u32 bits) {
  u32 rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(bits_to_f32(bits)));
  return rounded;
}

}  // namespace catenary
