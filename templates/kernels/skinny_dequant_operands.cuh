// SPDX-License-Identifier: Apache-2.0
// What a warp of `skinny_dequant` holds in registers for a chunk of K: X as B of the MMAs, from its
// ring, and the scales and zeros of its rows of q, loaded one chunk ahead.
#pragma once

#include "epilogue/vec.cuh"
#include "kernels/skinny_dequant_ring.cuh"
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared.cuh"
#include "smem/fragment.cuh"

namespace catenary {

// X of a chunk, as B of the two MMAs of each 32 columns: x and y of the first one, z and w of the
// second. ptx/mma.cuh has the layout, columns j x 8 to j x 8 + 7 of D are rows of X.
template <const SkinnyDequantConfig& kConfig>
struct DequantX {
  static constexpr int kHalves = kConfig.chunk_blocks() * 2;
  static constexpr int kColumnTiles = kConfig.tile.columns / 8;
  U32x4 half[kHalves][kColumnTiles];

  // Columns past K are zeros: q has zeros there as well, but a zero of the chain may be subtracted
  // from them. Rows past m are copies of the last one: their columns of D are not stored.
  CATENARY_DEVICE DequantX(const DequantRing<kConfig>& ring, i32 chunk) {
    constexpr bool kWhole = kConfig.space.k.size % kConfig.chunk_columns() == 0;
    const i32 first = chunk % kConfig.loads.x_chunks * kConfig.chunk_columns();
    const u32 from =
        ring.x_stage(chunk / kConfig.loads.x_chunks) + first * 2 + threadIdx.x % 32 / 8 * 16;
    const i64 left = ring.columns - i64{chunk} * kConfig.chunk_columns();
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
      // ldmatrix: lane l gives the address of row l % 8 of matrix l / 8. Lanes past m give the
      // last row's.
      const i32 given = 8 * j + static_cast<i32>(threadIdx.x % 8);
      const i32 row = given < ring.x_rows ? given : ring.x_rows - 1;
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        // The same in all lanes.
        const bool inside = kWhole || h * 32 < left;
        half[h][j] = inside ? ldmatrix_x4(from + row * kConfig.x_pitch() + h * 64) : U32x4{};
      }
    }
  }

  // Adds the squares of the chunk to `squares`.
  template <class Squares>
  CATENARY_DEVICE void add_squares(Squares& squares) const {
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
        squares.add(0, j, half[h][j].x, half[h][j].y);
        squares.add(1, j, half[h][j].z, half[h][j].w);
      }
    }
  }

  // Multiplies all rows by the gain, which has the registers of a row of B: rounded as the chain's
  // cast of an exact product. Columns past K stay zeros.
  CATENARY_DEVICE void scale(const DequantRing<kConfig>& ring, i32 chunk) {
    constexpr bool kWhole = kConfig.space.k.size % kConfig.chunk_columns() == 0;
    constexpr MathMode kMath = kConfig.space.math;
    const i32 first = chunk % kConfig.loads.x_chunks * kConfig.chunk_columns();
    const u32 from = ring.x_stage(chunk / kConfig.loads.x_chunks) + kConfig.gain_offset() +
                     first * 2 + threadIdx.x % 32 / 8 * 16;
    const i64 left = ring.columns - i64{chunk} * kConfig.chunk_columns();
#pragma unroll
    for (int h = 0; h < kHalves; ++h) {
      // The same in all lanes.
      if (!kWhole && h * 32 >= left) continue;
      // Lanes 8 i to 8 i + 7 give one address: all rows of matrix i are these 8 columns.
      const U32x4 by = ldmatrix_x4(from + h * 64);
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
        U32x4& b = half[h][j];
        b = {mul_pair<kMath>(b.x, by.x), mul_pair<kMath>(b.y, by.y), mul_pair<kMath>(b.z, by.z),
             mul_pair<kMath>(b.w, by.w)};
      }
    }
  }
};

// Where the scales and zeros of this lane's rows are: g and g + 8 of each row tile, lane = 4 g + t.
template <const SkinnyDequantConfig& kConfig>
struct DequantAddresses {
  static constexpr int kWeights = kConfig.num_accumulators();
  const u8* scale[kWeights];  // of the row, at the first column of K
  const u8* zero[kWeights];
  u32 column;    // of the warp's first chunk
  i32 last_row;  // of N, counted from this lane's first one

  template <class P>
  CATENARY_DEVICE DequantAddresses(const P& params, const DequantWork& work)
      : column(static_cast<u32>(work.block0 * kPackedColumns)) {
    const i64 n = work.tile0 * kPackedRows + threadIdx.x % 32 / 4;
    set_weight<0>(params, work, n);
    if constexpr (kConfig.dual) set_weight<1>(params, work, n);
    last_row = static_cast<i32>(kConfig.space.n.size - 1 - n);
  }

  template <int kIndex, class P>
  CATENARY_DEVICE void set_weight(const P& params, const DequantWork& work, i64 n) {
    constexpr DequantOperand kWeight = kConfig.weight(kIndex);
    scale[kIndex] = row_address<kWeight.scale>(params, work, n);
    zero[kIndex] = kWeight.has_zero ? row_address<kWeight.zero>(params, work, n) : nullptr;
  }

  template <BlockNumbers kNumbers, class P>
  static CATENARY_DEVICE const u8* row_address(const P& params, const DequantWork& work, i64 n) {
    const i64 first = matrix_offset<kConfig, kNumbers.stride_batch, kNumbers.stride_group>(work);
    return static_cast<const u8*>(params.ptr[kNumbers.slot]) +
           (first + n * kNumbers.stride_row) * dtype_bytes(kNumbers.dtype);
  }

  // Address of a number of a row tile and a block of columns. Rows past n are clamped to the last
  // one: their results are not stored.
  template <BlockNumbers kNumbers>
  CATENARY_DEVICE const u8* number(const u8* from, u32 block, int t, int lower) const {
    constexpr i64 kRowBytes = kNumbers.stride_row * dtype_bytes(kNumbers.dtype);
    i32 row = t * 16 + lower * 8;
    if (kConfig.space.n.size % kPackedRows != 0 && row > last_row) row = last_row;
    return from + i64{block} * kNumbers.stride_block * dtype_bytes(kNumbers.dtype) +
           i64{row} * kRowBytes;
  }
};

// The scales and zeros of a chunk as they are in memory, for each row tile of the MMAs.
template <const SkinnyDequantConfig& kConfig>
struct DequantNumbers {
  static constexpr int kRuns = kConfig.runs();
  static constexpr int kParts = kConfig.chunk_columns() / kConfig.scaled_columns();
  u32 scales[kRuns][kParts][2];
  u32 zeros[kRuns][kParts][2];  // if W has zeros

  CATENARY_DEVICE void load(const DequantAddresses<kConfig>& addresses, const DequantWork& work,
                            i32 chunk) {
    constexpr u32 kLast = static_cast<u32>((kConfig.space.k.size - 1) / kConfig.w.block_columns);
    constexpr bool kWhole = kConfig.space.k.size % kConfig.chunk_columns() == 0;
    const u32 column = addresses.column + static_cast<u32>(chunk * kConfig.chunk_columns());
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const u32 at = (column + part * kConfig.scaled_columns()) / kConfig.w.block_columns;
      const u32 block = kWhole || at < kLast ? at : kLast;
      load_part<0>(addresses, work, part, block);
      if constexpr (kConfig.dual) load_part<1>(addresses, work, part, block);
    }
  }

  // Those of weight kIndex, W or W2.
  template <int kIndex>
  CATENARY_DEVICE void load_part(const DequantAddresses<kConfig>& addresses,
                                 const DequantWork& work, int part, u32 block) {
    constexpr DequantOperand kWeight = kConfig.weight(kIndex);
#pragma unroll
    for (int t = 0; t < kConfig.tile.row_tiles; ++t) {
      if (!has_row_tile<kConfig>(work, t)) continue;
      const int run = kIndex * kConfig.tile.row_tiles + t;
#pragma unroll
      for (int lower = 0; lower < 2; ++lower) {
        const u8* scale =
            addresses.template number<kWeight.scale>(addresses.scale[kIndex], block, t, lower);
        scales[run][part][lower] =
            kWeight.scale.dtype == DType::kF32 ? ld_global_u32(scale) : ld_global_u16(scale);
        if constexpr (kWeight.has_zero) {
          zeros[run][part][lower] = ld_global_u8(
              addresses.template number<kWeight.zero>(addresses.zero[kIndex], block, t, lower));
        }
      }
    }
  }

  CATENARY_DEVICE float scale(int run, int part, int lower) const {
    const u32 bits = scales[run][part][lower];
    if constexpr (kConfig.w.scale.dtype == DType::kF32) {
      return bits_to_f32(bits);
    } else {
      return widen_16bit<kConfig.w.scale.dtype>(static_cast<u16>(bits));
    }
  }

  CATENARY_DEVICE i32 zero(int run, int part, int lower) const {
    return kConfig.w.has_zero ? static_cast<i32>(zeros[run][part][lower] ^ 128u) - 128 : 0;
  }
};

}  // namespace catenary
