// SPDX-License-Identifier: Apache-2.0
// Shared memory by 32-bit address: one function per access width. PTX ISA 9.7.9 (ld, st with state
// space shared). Addresses are bytes from dynamic_smem().
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// The 32-bit shared address of the kernel's dynamic shared memory; at least 16-byte aligned.
CATENARY_DEVICE u32 dynamic_smem() {
  extern __shared__ __align__(1024) u8 catenary_dynamic_smem[];
  return static_cast<u32>(__cvta_generic_to_shared(catenary_dynamic_smem));
}

CATENARY_DEVICE float ld_shared_f32(u32 address) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(address));
  return v;
}

CATENARY_DEVICE u16 ld_shared_u16(u32 address) {
  u16 v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address));
  return v;
}

CATENARY_DEVICE u32 ld_shared_u32(u32 address) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address));
  return v;
}

CATENARY_DEVICE U32x2 ld_shared_v2(u32 address) {
  U32x2 v;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address));
  return v;
}

CATENARY_DEVICE U32x4 ld_shared_v4(u32 address) {
  U32x4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address));
  return v;
}

CATENARY_DEVICE void st_shared_u16(u32 address, u16 v) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(v) : "memory");
}

CATENARY_DEVICE void st_shared_u32(u32 address, u32 v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(v) : "memory");
}

CATENARY_DEVICE void st_shared_f32(u32 address, float v) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(v) : "memory");
}

CATENARY_DEVICE void st_shared_f32x2(u32 address, float a, float b) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(a), "f"(b) : "memory");
}

CATENARY_DEVICE void st_shared_v2(u32 address, U32x2 v) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(address), "r"(v.x), "r"(v.y) : "memory");
}

CATENARY_DEVICE void st_shared_v4(u32 address, U32x4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}

}  // namespace catenary
