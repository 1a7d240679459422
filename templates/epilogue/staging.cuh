// SPDX-License-Identifier: Apache-2.0
// Shared memory of the epilogues. Subtiles of 16-bit elements: subtile_chunk. The staged epilogue
// transposes wgmma accumulators through shared memory: a warp writes a subtile of 16 rows and 64
// columns of f32 into its staging buffer and reads it back as vectors of adjacent columns.
//
//   staging   16 rows of 16 chunks of 16 bytes; chunk c of row r is at c ^ (c / 8) ^ s(r), with
//             s(r) = 2 (r % 4) + r % 2
//
// No access hits a bank twice. Half a warp writes 8 bytes a lane: 4 rows of 4 lanes, in 4 different
// groups of 32 bytes. A quarter warp reads 16 bytes a lane: every other chunk of one row (8 columns
// a lane) or of two (64 columns are two GEMMs' 32), or 8 adjacent chunks (4 columns a lane).
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/convert.cuh"
#include "ptx/shared.cuh"

namespace catenary {

// The address of a 16-byte chunk in a subtile of 16-bit elements, rows of 64 or 128 bytes: chunk c
// of row r is at c ^ (r % 8), or at c ^ (r / 2 % 4) where two rows share 128 bytes, as tensor maps
// swizzle them. Neither the eight rows that stmatrix and ldmatrix access at once nor the
// 128 bytes of a quarter warp hit a bank twice.
template <u32 kChunks>
CATENARY_DEVICE u32 subtile_chunk(u32 subtile, u32 row, u32 chunk) {
  static_assert(kChunks == 4 || kChunks == 8, "rows of 64 or 128 bytes");
  const u32 swizzle = kChunks == 8 ? row % 8 : row / 2 % 4;
  return subtile + (row * kChunks + (chunk ^ swizzle)) * 16;
}

// The same of a subtile whose columns are contiguous, of 16 rows each: chunk h (8 rows) of column c
// is at h ^ (c / 4 % 2), as tensor maps swizzle rows of 32 bytes.
CATENARY_DEVICE u32 subtile_column_chunk(u32 subtile, u32 column, u32 chunk) {
  return subtile + (column * 2 + (chunk ^ (column / 4 % 2))) * 16;
}

CATENARY_DEVICE u32 staged_chunk(u32 staging, u32 row, u32 chunk) {
  const u32 swizzled = chunk ^ (chunk >> 3) ^ ((row & 3) << 1) ^ (row & 1);
  return staging + row * 256 + (swizzled << 4);
}

// This lane's address in chunk 0 or 1, for stage_columns.
CATENARY_DEVICE u32 staged_address(u32 staging) {
  const u32 lane = threadIdx.x % 32;
  return staged_chunk(staging, lane / 4, lane % 4 / 2) + lane % 2 * 8;
}

// Writes kCount columns of a fragment, from `first` (a constant once inlined) on, to the columns
// from `to` on. Even chunks differ from chunk 0 by a constant XOR; row 8 is 2048 bytes further.
template <int kCount, int kRegisters>
CATENARY_DEVICE void stage_columns(u32 lane_address, const float (&d)[kRegisters], u32 first,
                                   u32 to) {
#pragma unroll
  for (u32 i = 0; i < kCount / 8; ++i) {
    const u32 chunk = to / 4 + 2 * i;
    const u32 address = lane_address ^ ((chunk ^ (chunk >> 3)) << 4);
    const u32 r = first / 2 + 4 * i;
    st_shared_f32x2(address, d[r], d[r + 1]);
    st_shared_f32x2(address + 2048, d[r + 2], d[r + 3]);
  }
}

// Writes one subtile: 64 / kAccumulators columns of each GEMM, side by side. Register indices must
// be constants, so each subtile has code of its own.
template <int kAccumulators, int kFragments, int kRegisters>
CATENARY_DEVICE void stage_subtile(u32 staging,
                                   const float (&d)[kFragments][kAccumulators][kRegisters],
                                   u32 subtile) {
  constexpr u32 kSubtileN = 64 / kAccumulators;
  constexpr u32 kSubtiles = 2 * kRegisters / kSubtileN;
  const u32 lane_address = staged_address(staging);
#pragma unroll
  for (u32 i = 0; i < kFragments * kSubtiles; ++i) {
    if (i != subtile) continue;
#pragma unroll
    for (u32 s = 0; s < kAccumulators; ++s) {
      stage_columns<kSubtileN>(lane_address, d[i / kSubtiles][s], i % kSubtiles * kSubtileN,
                               s * kSubtileN);
    }
  }
}

// Reads V accumulators of a row, from column `column` on.
template <int V>
CATENARY_DEVICE Vec<V> staged_vec(u32 staging, u32 row, u32 column) {
  static_assert(V % 4 == 0, "whole chunks");
  Vec<V> out;
#pragma unroll
  for (u32 i = 0; i < V / 4; ++i) {
    const U32x4 w = ld_shared_v4(staged_chunk(staging, row, column / 4 + i));
    out.v[4 * i] = bits_to_f32(w.x), out.v[4 * i + 1] = bits_to_f32(w.y);
    out.v[4 * i + 2] = bits_to_f32(w.z), out.v[4 * i + 3] = bits_to_f32(w.w);
  }
  return out;
}

}  // namespace catenary
