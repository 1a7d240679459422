// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two 16-bit floats of one register. PTX ISA 9.7.4 (half precision floating point
// instructions); each half is rounded to nearest even. Differences of bf16: sm_90. Per thread.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE u32 sub_bf16x2(u32 a, u32 b) {
  u32 v;
  asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}

CATENARY_DEVICE u32 sub_f16x2(u32 a, u32 b) {
  u32 v;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}

// a * b - 0, which has the sign of a zero product: sm_80 has no mul of bf16.
CATENARY_DEVICE u32 mul_bf16x2(u32 a, u32 b) {
  u32 v;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(0x80008000u));
  return v;
}

CATENARY_DEVICE u32 mul_f16x2(u32 a, u32 b) {
  u32 v;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}

}  // namespace catenary
