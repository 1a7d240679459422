// SPDX-License-Identifier: Apache-2.0
// What a warp of `skinny_dequant` holds in registers for a chunk of K: X as B of the MMAs, from its
// ring, and the scales and zeros of its rows of q, loaded one chunk ahead.
#pragma once

#include "epilogue/vec.cuh"
#include "kernels/skinny_dequant_ring.cuh"
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/shared.cuh"

namespace catenary {

// X of a chunk: lane 4 g + t has row 8 j + g, columns 8 t to 8 t + 7 of each 32.
template <const SkinnyDequantConfig& kConfig>
struct DequantX {
  static constexpr int kHalves = kConfig.chunk_blocks() * 2;
  static constexpr int kColumnTiles = kConfig.tile.columns / 8;
  U32x4 half[kHalves][kColumnTiles];

  // Rows past m and columns past K are zeros. q has zeros there as well, but a zero of the chain
  // may be subtracted from them.
  CATENARY_DEVICE DequantX(const DequantRing<kConfig>& ring, i32 chunk) {
    constexpr bool kWhole = kConfig.space.k.size % kConfig.chunk_columns() == 0;
    const i32 row = static_cast<i32>(threadIdx.x % 32 / 4);
    const i32 first = chunk % kConfig.loads.x_chunks * kConfig.chunk_columns();
    const u32 from = ring.x_stage(chunk / kConfig.loads.x_chunks) + row * kConfig.x_pitch() +
                     first * 2 + threadIdx.x % 4 * 16;
    const i64 left = ring.columns - i64{chunk} * kConfig.chunk_columns();
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
      for (int h = 0; h < kHalves; ++h) {
        half[h][j] = {0, 0, 0, 0};
        if (row + 8 * j < ring.x_rows && (kWhole || h * 32 < left))
          half[h][j] = ld_shared_v4(from + j * 8 * kConfig.x_pitch() + h * 64);
      }
    }
  }
};

// Where the scales and zeros of this lane's rows are: g and g + 8 of each row tile, lane = 4 g + t.
template <const SkinnyDequantConfig& kConfig>
struct DequantAddresses {
  const u8* scale;  // of the row, at the first column of K
  const u8* zero;
  u32 column;    // of the warp's first chunk
  i32 last_row;  // of N, counted from this lane's first one

  template <class P>
  CATENARY_DEVICE DequantAddresses(const P& params, const DequantWork& work)
      : column(static_cast<u32>(work.block0 * kPackedColumns)) {
    const i64 n = work.tile0 * kPackedRows + threadIdx.x % 32 / 4;
    scale = row_address<kConfig.w.scale>(params, n);
    zero = kConfig.w.has_zero ? row_address<kConfig.w.zero>(params, n) : nullptr;
    last_row = static_cast<i32>(kConfig.space.n.size - 1 - n);
  }

  template <BlockNumbers kNumbers, class P>
  static CATENARY_DEVICE const u8* row_address(const P& params, i64 n) {
    return static_cast<const u8*>(params.ptr[kNumbers.slot]) +
           n * kNumbers.stride_row * dtype_bytes(kNumbers.dtype);
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

// The scales and zeros of a chunk as they are in memory.
template <const SkinnyDequantConfig& kConfig>
struct DequantNumbers {
  static constexpr int kRowTiles = kConfig.tile.row_tiles;
  static constexpr int kParts = kConfig.chunk_columns() / kConfig.scaled_columns();
  u32 scales[kRowTiles][kParts][2];
  u32 zeros[kRowTiles][kParts][2];  // if W has zeros

  CATENARY_DEVICE void load(const DequantAddresses<kConfig>& addresses, const DequantWork& work,
                            i32 chunk) {
    constexpr u32 kLast = static_cast<u32>((kConfig.space.k.size - 1) / kConfig.w.block_columns);
    constexpr bool kWhole = kConfig.space.k.size % kConfig.chunk_columns() == 0;
    const u32 column = addresses.column + static_cast<u32>(chunk * kConfig.chunk_columns());
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const u32 at = (column + part * kConfig.scaled_columns()) / kConfig.w.block_columns;
      const u32 block = kWhole || at < kLast ? at : kLast;
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t) {
        if (!has_row_tile<kConfig>(work, t)) continue;
#pragma unroll
        for (int lower = 0; lower < 2; ++lower) {
          const u8* scale =
              addresses.template number<kConfig.w.scale>(addresses.scale, block, t, lower);
          scales[t][part][lower] =
              kConfig.w.scale.dtype == DType::kF32 ? ld_global_u32(scale) : ld_global_u16(scale);
          if constexpr (kConfig.w.has_zero) {
            zeros[t][part][lower] = ld_global_u8(
                addresses.template number<kConfig.w.zero>(addresses.zero, block, t, lower));
          }
        }
      }
    }
  }

  CATENARY_DEVICE float scale(int t, int part, int lower) const {
    const u32 bits = scales[t][part][lower];
    if constexpr (kConfig.w.scale.dtype == DType::kF32) {
      return bits_to_f32(bits);
    } else {
      return widen_16bit<kConfig.w.scale.dtype>(static_cast<u16>(bits));
    }
  }

  CATENARY_DEVICE i32 zero(int t, int part, int lower) const {
    return kConfig.w.has_zero ? static_cast<i32>(zeros[t][part][lower] ^ 128u) - 128 : 0;
  }
};

}  // namespace catenary
