// SPDX-License-Identifier: Apache-2.0
// Accumulators of wgmma -> rows of floats, by way of shared memory: a warp writes 16 rows of 64
// sums into an area of its own and reads them back as vectors of adjacent columns.
//
//   area: 16 rows of 16 chunks of 16 bytes; chunk c of row r lies at c ^ (c / 8) ^ s(r), with
//   s(r) = 2 (r % 4) + r % 2
//
// Half a warp writes 8 bytes a lane: 4 rows of 4 lanes, in 4 different groups of 32 bytes. A
// quarter reads 16 bytes a lane, every other chunk of a row (8 columns a lane) or of two (64
// columns are two sums of 32) or 8 neighbours (4 columns a lane). None of these meets a bank twice.
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/convert.cuh"
#include "ptx/shared.cuh"

namespace catenary {

CATENARY_DEVICE u32 staged_chunk(u32 area, u32 row, u32 chunk) {
  const u32 swizzled = chunk ^ (chunk >> 3) ^ ((row & 3) << 1) ^ (row & 1);
  return area + row * 256 + (swizzled << 4);
}

// This lane's place in chunk 0 or 1 of the area, for staged_columns.
CATENARY_DEVICE u32 staged_address(u32 area) {
  const u32 lane = threadIdx.x % 32;
  return staged_chunk(area, lane / 4, lane % 4 / 2) + lane % 2 * 8;
}

// kCount columns of a fragment, from `first` (a constant once inlined) on, to those of the area
// from `to` on. Even chunks differ from chunk 0 by a constant XOR, and row 8 is 2048 bytes on.
template <int kCount, int kRegisters>
CATENARY_DEVICE void stage_columns(u32 place, const float (&d)[kRegisters], u32 first, u32 to) {
#pragma unroll
  for (u32 i = 0; i < kCount / 8; ++i) {
    const u32 chunk = to / 4 + 2 * i;
    const u32 at = place ^ ((chunk ^ (chunk >> 3)) << 4);
    const u32 r = first / 2 + 4 * i;
    st_shared_f32x2(at, d[r], d[r + 1]);
    st_shared_f32x2(at + 2048, d[r + 2], d[r + 3]);
  }
}

// Piece `piece` of the fragments: 64 / kSums columns of each sum, side by side in the area.
// Register numbers are constants, so that each piece has its own text.
template <int kSums, int kFragments, int kRegisters>
CATENARY_DEVICE void stage_subtile(u32 area, const float (&d)[kSums][kFragments][kRegisters],
                                   u32 piece) {
  constexpr u32 kColumns = 64 / kSums;
  constexpr u32 kPieces = 2 * kRegisters / kColumns;
  const u32 place = staged_address(area);
#pragma unroll
  for (u32 i = 0; i < kFragments * kPieces; ++i) {
    if (i != piece) continue;
#pragma unroll
    for (u32 s = 0; s < kSums; ++s) {
      stage_columns<kColumns>(place, d[s][i / kPieces], i % kPieces * kColumns, s * kColumns);
    }
  }
}

// V sums of a row, from column `column` on.
template <int V>
CATENARY_DEVICE Vec<V> staged_vec(u32 area, u32 row, u32 column) {
  static_assert(V % 4 == 0, "whole chunks");
  Vec<V> out;
#pragma unroll
  for (u32 i = 0; i < V / 4; ++i) {
    const U32x4 w = ld_shared_v4(staged_chunk(area, row, column / 4 + i));
    out.v[4 * i] = bits_to_f32(w.x), out.v[4 * i + 1] = bits_to_f32(w.y);
    out.v[4 * i + 2] = bits_to_f32(w.z), out.v[4 * i + 3] = bits_to_f32(w.w);
  }
  return out;
}

}  // namespace catenary
