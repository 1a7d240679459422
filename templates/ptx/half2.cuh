// SPDX-License-Identifier: Apache-2.0
// Arithmetic on two 16-bit floats of one register. PTX ISA 9.7.4 (half precision floating point
// instructions); each half is rounded to nearest even. bf16: sm_90. Per thread.
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

}  // namespace catenary
