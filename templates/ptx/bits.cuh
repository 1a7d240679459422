// SPDX-License-Identifier: Apache-2.0
// Bitwise operations of one instruction. PTX ISA 9.7.8.6 (lop3). Per thread.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// (a & mask) ^ flip. From the operators, two instructions come of two constants (RESULTS
// dequant-2).
CATENARY_DEVICE u32 and_xor(u32 a, u32 mask, u32 flip) {
  u32 v;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(v) : "r"(a), "r"(mask), "r"(flip));
  return v;
}

// No instruction. The compiler takes v for a new value: what it has computed from v before it
// computes again, instead of keeping that in registers.
CATENARY_DEVICE void renew(u32& v) { asm volatile("" : "+r"(v)); }

}  // namespace catenary
