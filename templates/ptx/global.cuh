// SPDX-License-Identifier: Apache-2.0
// Global memory: one function per access width. PTX ISA 9.7.9 (ld, st). asm volatile keeps the
// order with griddepcontrol.wait; it does not make a load wait for its value. Streamed loads do not
// allocate in L1.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE u32 ld_global_u8(const void* p) {
  u32 v;
  asm volatile("ld.global.u8 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}

CATENARY_DEVICE u16 ld_global_u16(const void* p) {
  u16 v;
  asm volatile("ld.global.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}

CATENARY_DEVICE u32 ld_global_u32(const void* p) {
  u32 v;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}

CATENARY_DEVICE U32x2 ld_global_v2(const void* p) {
  U32x2 v;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}

CATENARY_DEVICE U32x4 ld_global_v4(const void* p) {
  U32x4 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// Constant loads, of memory that no kernel writes while the chain runs. Legal before
// griddepcontrol.wait. Volatile: NVVM would hoist other asm above the branch that guards it, where
// the address may be outside of the tensor (RESULTS hw-115).
CATENARY_DEVICE u32 ld_global_constant_u8(const void* p) {
  u32 v;
  asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}

CATENARY_DEVICE u16 ld_global_constant_u16(const void* p) {
  u16 v;
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(p));
  return v;
}

CATENARY_DEVICE u32 ld_global_constant_u32(const void* p) {
  u32 v;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(p));
  return v;
}

CATENARY_DEVICE U32x2 ld_global_constant_v2(const void* p) {
  U32x2 v;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}

CATENARY_DEVICE U32x4 ld_global_constant_v4(const void* p) {
  U32x4 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

CATENARY_DEVICE U32x2 ld_global_streamed_v2(const void* p) {
  U32x2 v;
  asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
  return v;
}

CATENARY_DEVICE U32x4 ld_global_streamed_v4(const void* p) {
  U32x4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

// A weight, loaded into registers before the dependency wait. Not .nc: ptxas would move such a load
// below griddepcontrol.wait (RESULTS hw-32). Two loads share each 32-byte sector, so L1 keeps the
// line until the second.
CATENARY_DEVICE U32x4 ld_global_weight_v4(const void* p) {
  U32x4 v;
  asm volatile("ld.global.L1::evict_first.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}

// A hint: prefetches the line of 128 bytes at `p` to L2. Volatile, so that it stays above
// griddepcontrol.wait.
CATENARY_DEVICE void prefetch_l2(const void* p) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(p) : "memory");
}

CATENARY_DEVICE void st_global_u8(void* p, u32 v) {
  asm volatile("st.global.u8 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

CATENARY_DEVICE void st_global_u16(void* p, u16 v) {
  asm volatile("st.global.u16 [%0], %1;" ::"l"(p), "h"(v) : "memory");
}

CATENARY_DEVICE void st_global_u32(void* p, u32 v) {
  asm volatile("st.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

CATENARY_DEVICE void st_global_v2(void* p, U32x2 v) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}

// Not read again soon: evicted from L2 first.
CATENARY_DEVICE void st_global_streamed_v4(void* p, U32x4 v) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

CATENARY_DEVICE void st_global_v4(void* p, U32x4 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z),
               "r"(v.w)
               : "memory");
}

}  // namespace catenary
