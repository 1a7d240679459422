// SPDX-License-Identifier: Apache-2.0
// Warp-level matrix instructions of sm_80. PTX ISA 9.7.14 (ldmatrix, mma.sync, stmatrix). Fragment
// layouts, with g = lane / 4 and t = lane % 4:
//   D, C m16n8 f32:  d0,d1 -> row g, columns 2t, 2t+1; d2,d3 -> row g+8
//   A m16k16 16-bit: a0 (g, 2t..), a1 (g+8, 2t..), a2 (g, 2t+8..), a3 (g+8, 2t+8..), two elements
//                    per register
//   B n8k16 16-bit:  b0 (k 2t.., n g), b1 (k 2t+8.., n g)
//   A m16k8 tf32:    a0 (g, t), a1 (g+8, t), a2 (g, t+4), a3 (g+8, t+4)
//   B n8k8 tf32:     b0 (k t, n g), b1 (k t+4, n g)
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// Four 8x8 matrices of 16-bit elements; lane l gives the 16-byte aligned address of row l%8 of
// matrix l/8. All 32 lanes execute it convergently.
CATENARY_DEVICE U32x4 ldmatrix_x4(u32 address) {
  U32x4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

CATENARY_DEVICE U32x4 ldmatrix_x4_trans(u32 address) {
  U32x4 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}

// Not volatile: an MMA depends on its registers only and may move among loads.
CATENARY_DEVICE void mma_bf16(float (&d)[4], const U32x4& a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

CATENARY_DEVICE void mma_f16(float (&d)[4], const U32x4& a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

CATENARY_DEVICE void mma_tf32(float (&d)[4], const U32x4& a, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// One and two matrices: row addresses of lanes 0..7 and 0..15; those of other lanes are ignored.
CATENARY_DEVICE u32 ldmatrix_x1(u32 address) {
  u32 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
               : "=r"(v)
               : "r"(address)
               : "memory");
  return v;
}

CATENARY_DEVICE u32 ldmatrix_x1_trans(u32 address) {
  u32 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];"
               : "=r"(v)
               : "r"(address)
               : "memory");
  return v;
}

CATENARY_DEVICE U32x2 ldmatrix_x2(u32 address) {
  U32x2 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "r"(address)
               : "memory");
  return v;
}

CATENARY_DEVICE U32x2 ldmatrix_x2_trans(u32 address) {
  U32x2 v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "r"(address)
               : "memory");
  return v;
}

// stmatrix, sm_90: 8x8 matrices of 16-bit elements to shared memory, with row addresses as in
// ldmatrix. All 32 lanes execute it convergently.
CATENARY_DEVICE void stmatrix_x1(u32 address, u32 v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(address), "r"(v)
               : "memory");
}

CATENARY_DEVICE void stmatrix_x1_trans(u32 address, u32 v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(address), "r"(v)
               : "memory");
}

CATENARY_DEVICE void stmatrix_x2(u32 address, U32x2 v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(v.x),
               "r"(v.y)
               : "memory");
}

CATENARY_DEVICE void stmatrix_x2_trans(u32 address, U32x2 v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address),
               "r"(v.x), "r"(v.y)
               : "memory");
}

CATENARY_DEVICE void stmatrix_x4(u32 address, U32x4 v) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

CATENARY_DEVICE void stmatrix_x4_trans(u32 address, U32x4 v) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
      : "memory");
}

}  // namespace catenary
