// SPDX-License-Identifier: Apache-2.0
// Shared-memory tiles -> mma fragments. One step of the mainloop is 16 k of 16-bit elements or 8 k
// of tf32: 32 bytes of a K-major line in both cases, so one piece of code serves both. Fragment
// layouts are in ptx/mma.cuh.
#pragma once

#include "ptx/convert.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared.cuh"
#include "smem/cp_async_tile.cuh"

namespace catenary {

constexpr bool is_16bit(MathMode math) { return math == MathMode::kBF16 || math == MathMode::kF16; }

// k of one mma step.
constexpr int mma_k(MathMode math) { return is_16bit(math) ? 16 : 8; }

// Two 16-row (A) or 8-row (B) halves by two k halves: the four registers of an A fragment, or the
// fragments of two neighbouring B columns. kA decides which half the odd matrices are: for A, rows
// first (a0 a1 | a2 a3); for B, k first (b0 b1 of the first eight columns, then of the next).
template <class Copy, MathMode kMath, bool kA>
CATENARY_DEVICE U32x4 load_fragment(u32 tile, u32 row, u32 step) {
  using Layout = typename Copy::Layout;
  const u32 lane = threadIdx.x % 32;
  const u32 in = lane % 8;
  const u32 row_half = kA ? (lane / 8) % 2 : lane / 16;
  const u32 k_half = kA ? lane / 16 : (lane / 8) % 2;
  if constexpr (Copy::kKMajor) {
    const u32 address = tile + Layout::offset(row + row_half * 8 + in, step * 2 + k_half);
    return ldmatrix_x4(address);
  } else if constexpr (is_16bit(kMath)) {
    const u32 address = tile + Layout::offset(step * 16 + k_half * 8 + in, row / 8 + row_half);
    return ldmatrix_x4_trans(address);
  } else {
    // 32-bit elements cannot be transposed by ldmatrix: four scalar reads. g, t as in ptx/mma.cuh.
    const u32 g = lane / 4;
    const u32 t = lane % 4;
    u32 value[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 upper_row = kA ? i % 2 : i / 2;
      const u32 upper_k = kA ? i / 2 : i % 2;
      const u32 free = row + upper_row * 8 + g;
      const u32 line = step * 8 + upper_k * 4 + t;
      value[i] = f32_to_bits(ld_shared_f32(tile + Layout::offset(line, free / 4) + free % 4 * 4));
    }
    return {value[0], value[1], value[2], value[3]};
  }
}

// Element (row, k) of a 32-bit tile.
template <class Copy>
CATENARY_DEVICE float read_f32(u32 tile, u32 row, u32 k) {
  const u32 line = Copy::kKMajor ? row : k;
  const u32 element = Copy::kKMajor ? k : row;
  return ld_shared_f32(tile + Copy::Layout::offset(line, element / 4) + element % 4 * 4);
}

template <MathMode kMath>
CATENARY_DEVICE void round_fragment(U32x4& f) {
  if constexpr (kMath == MathMode::kTF32) {
    f = {f32_to_tf32(f.x), f32_to_tf32(f.y), f32_to_tf32(f.z), f32_to_tf32(f.w)};
  }
}

template <MathMode kMath>
CATENARY_DEVICE void mma_sync(float (&d)[4], const U32x4& a, u32 b0, u32 b1) {
  if constexpr (kMath == MathMode::kBF16) mma_bf16(d, a, b0, b1);
  if constexpr (kMath == MathMode::kF16) mma_f16(d, a, b0, b1);
  if constexpr (kMath == MathMode::kTF32) mma_tf32(d, a, b0, b1);
}

}  // namespace catenary
