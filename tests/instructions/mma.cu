// SPDX-License-Identifier: Apache-2.0
// ptx/mma.cuh on one warp: fragment layouts of ldmatrix and stmatrix, and the three MMAs.
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
}  // namespace

// The input's 512 bytes are the 32 rows of four matrices, stored to shared memory in another order.
// The output: 14 registers of 32 lanes each.
extern "C" __global__ void __launch_bounds__(32) mma_ldmatrix(const __grid_constant__ P p) {
  const u32 lane = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  const u32 row = dynamic_smem() + 16 * (5 * lane % 32);
  st_shared_v4(row, ld_global_v4(in + 16 * lane));
  warp_barrier();
  const U32x2 two = ldmatrix_x2(row);
  const U32x2 two_trans = ldmatrix_x2_trans(row);
  const U32x4 four = ldmatrix_x4(row);
  const U32x4 four_trans = ldmatrix_x4_trans(row);
  const u32 words[] = {ldmatrix_x1(row),
                       ldmatrix_x1_trans(row),
                       two.x,
                       two.y,
                       two_trans.x,
                       two_trans.y,
                       four.x,
                       four.y,
                       four.z,
                       four.w,
                       four_trans.x,
                       four_trans.y,
                       four_trans.z,
                       four_trans.w};
#pragma unroll
  for (int i = 0; i < 14; ++i) st_global_u32(out + 4 * (32 * i + lane), words[i]);
}

// The input's 512 bytes are four registers of each lane. The output: the rows that each form
// writes, 8, 8, 16, 16, 32 and 32 of them.
extern "C" __global__ void __launch_bounds__(32) mma_stmatrix(const __grid_constant__ P p) {
  const u32 lane = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  const u32 smem = dynamic_smem();
  const u32 row = smem + 16 * lane;
  const U32x4 v = ld_global_v4(in + 16 * lane);
  stmatrix_x1(row, v.x);
  stmatrix_x1_trans(row + 128, v.x);
  stmatrix_x2(row + 256, {v.x, v.y});
  stmatrix_x2_trans(row + 512, {v.x, v.y});
  stmatrix_x4(row + 768, v);
  stmatrix_x4_trans(row + 1280, v);
  warp_barrier();
  for (u32 i = lane; i < 112; i += 32) st_global_v4(out + 16 * i, ld_shared_v4(smem + 16 * i));
}

// The input: per lane four registers of A, two of B, four of D (sections of words). symbol: 0 bf16,
// 1 f16, 2 tf32. The output: D, twice accumulated.
extern "C" __global__ void __launch_bounds__(32) mma_accumulate(const __grid_constant__ P p) {
  const u32 lane = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  u32 words[10];
#pragma unroll
  for (int i = 0; i < 10; ++i) words[i] = ld_global_u32(in + 4 * (32 * i + lane));
  const U32x4 a = {words[0], words[1], words[2], words[3]};
  float d[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] = bits_to_f32(words[6 + i]);
  for (int i = 0; i < 2; ++i) {
    if (p.symbol == 0) mma_bf16(d, a, words[4], words[5]);
    if (p.symbol == 1) mma_f16(d, a, words[4], words[5]);
    if (p.symbol == 2) mma_tf32(d, a, words[4], words[5]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) st_global_u32(out + 4 * (32 * i + lane), f32_to_bits(d[i]));
}
