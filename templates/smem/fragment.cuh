// SPDX-License-Identifier: Apache-2.0
// Shared-memory tiles -> mma.sync fragments. A k-block is K = 16 of 16-bit elements or K = 8 of
// tf32: 32 bytes of a K-major line for both. Fragment layouts are in ptx/mma.cuh.
#pragma once

#include "ptx/convert.cuh"
#include "ptx/half2.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared.cuh"
#include "smem/cp_async_tile.cuh"

namespace catenary {

// The four registers of a 16 x K fragment of A (kA), or two 8-column fragments of B: 16 rows of the
// tile from `row` on. Register order: a0 (rows 0-7, low k), a1 (rows 8-15, low k), a2, a3 (high k);
// b0 (rows 0-7, low k), b1 (rows 0-7, high k), then b0, b1 of rows 8-15.
template <class Copy, MathMode kMath, bool kA>
CATENARY_DEVICE U32x4 load_fragment(u32 tile, u32 row, u32 k_block) {
  using Layout = typename Copy::Layout;
  const u32 lane = threadIdx.x % 32;
  const u32 in = lane % 8;
  const u32 row_half = kA ? (lane / 8) % 2 : lane / 16;
  const u32 k_half = kA ? lane / 16 : (lane / 8) % 2;
  if constexpr (Copy::kKMajor) {
    const u32 address = tile + Layout::offset(row + row_half * 8 + in, k_block * 2 + k_half);
    return ldmatrix_x4(address);
  } else if constexpr (is_16bit(kMath)) {
    const u32 address = tile + Layout::offset(k_block * 16 + k_half * 8 + in, row / 8 + row_half);
    return ldmatrix_x4_trans(address);
  } else {
    static_assert(math_info(kMath).operand_bytes == 4, "no fragment loads for this math mode");
    // ldmatrix.trans moves 16-bit elements (PTX ISA 9.7.14): four scalar loads. g, t as in
    // ptx/mma.cuh.
    const u32 g = lane / 4;
    const u32 t = lane % 4;
    u32 value[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 upper_row = kA ? i % 2 : i / 2;
      const u32 upper_k = kA ? i / 2 : i % 2;
      const u32 free = row + upper_row * 8 + g;
      const u32 line = k_block * 8 + upper_k * 4 + t;
      value[i] = f32_to_bits(ld_shared_f32(tile + Layout::offset(line, free / 4) + free % 4 * 4));
    }
    return {value[0], value[1], value[2], value[3]};
  }
}

// Element (row, k) of a tile of f32.
template <class Copy>
CATENARY_DEVICE float read_f32(u32 tile, u32 row, u32 k) {
  const u32 line = Copy::kKMajor ? row : k;
  const u32 element = Copy::kKMajor ? k : row;
  return ld_shared_f32(tile + Copy::Layout::offset(line, element / 4) + element % 4 * 4);
}

// Rounds f32 operands to tf32 before the MMA.
template <MathMode kMath>
CATENARY_DEVICE void round_fragment(U32x4& f) {
  if constexpr (kMath == MathMode::kTF32) {
    f = {f32_to_tf32(f.x), f32_to_tf32(f.y), f32_to_tf32(f.z), f32_to_tf32(f.w)};
  } else {
    static_assert(kMath == MathMode::kBF16 || kMath == MathMode::kF16, "unknown math mode");
  }
}

template <MathMode kMath>
CATENARY_DEVICE void mma_sync(float (&d)[4], const U32x4& a, u32 b0, u32 b1) {
  if constexpr (kMath == MathMode::kBF16) {
    mma_bf16(d, a, b0, b1);
  } else if constexpr (kMath == MathMode::kF16) {
    mma_f16(d, a, b0, b1);
  } else {
    static_assert(kMath == MathMode::kTF32, "no mma.sync for this math mode");
    mma_tf32(d, a, b0, b1);
  }
}

// The products of two registers of 16-bit elements, each rounded.
template <MathMode kMath>
CATENARY_DEVICE u32 mul_pair(u32 a, u32 b) {
  static_assert(kMath == MathMode::kBF16 || kMath == MathMode::kF16);
  if constexpr (kMath == MathMode::kBF16) return mul_bf16x2(a, b);
  return mul_f16x2(a, b);
}

}  // namespace catenary
