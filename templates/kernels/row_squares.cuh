// SPDX-License-Identifier: Apache-2.0
// The sums of squares of the rows of X in small-M kernels, for a norm inside (row_squares). They go
// into the padding after the row's column of accumulators, and are added with those of the warps
// along K. In a cluster they are sent with the partials.
//
//   16-bit X as it is in memory   an MMA of eight rows of X with themselves: its diagonal
//   tf32, or a formed X           a lane adds the squares of what it loads: a quarter of a row
#pragma once

#include "ptx/convert.cuh"
#include "ptx/shared.cuh"
#include "smem/fragment.cuh"

namespace catenary {

// By MMAs, for kColumnTiles x 8 rows. B of an MMA, 16 K of eight rows, has the registers of A's
// rows 0 to 7 (ptx/mma.cuh). Rows 8 to 15 of A are zeros: their sums are not read.
template <MathMode kMath, int kColumnTiles>
struct SquaresByMma {
  // With one column tile, two sums in turns: an MMA waits for the one before the last.
  static constexpr int kTurns = kColumnTiles == 1 ? 2 : 1;
  float sums[kTurns][kColumnTiles][4] = {};

  // Adds the squares of 16 K of column tile `j`, whose B is b0 and b1.
  CATENARY_DEVICE void add(int turn, int j, u32 b0, u32 b1) {
    mma_sync<kMath>(sums[turn % kTurns][j], {b0, 0, b1, 0}, b0, b1);
  }

  // Adds those of a K block of X from column tile `first` on. Chunks past the warp's are zeros.
  template <class LaneBlock, int kTiles>
  CATENARY_DEVICE void add_block(int first, const LaneBlock (&x)[kTiles]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const U32x4& b = x[j].half[half];
        add(0, first + j, b.x, b.y);
        add(1, first + j, b.z, b.w);
      }
    }
  }

  // Stores the sums: that of row i at shared address to + i * pitch. The diagonal's element of row
  // i is d0 or d1 of lane 4 i + i / 2.
  CATENARY_DEVICE void store(u32 to, u32 pitch) const {
    const u32 lane = threadIdx.x % 32;
    const u32 row = lane / 4;
    if (lane % 4 != row / 2) return;
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
      float sum = row % 2 == 0 ? sums[0][j][0] : sums[0][j][1];
      if constexpr (kTurns == 2) sum += row % 2 == 0 ? sums[1][j][0] : sums[1][j][1];
      st_shared_f32(to + (j * 8 + row) * pitch, sum);
    }
  }

  static CATENARY_DEVICE float load(u32 from) { return ld_shared_f32(from); }
};

// By a lane's own additions.
template <MathMode kMath, int kColumnTiles>
struct SquaresByLane {
  float sums[kColumnTiles] = {};

  template <class LaneBlock, int kTiles>
  CATENARY_DEVICE void add_block(int first, const LaneBlock (&x)[kTiles]) {
    static_assert(kMath == MathMode::kTF32, "an MMA adds the squares of 16-bit X");
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const U32x4& words = x[j].half[half];
        const u32 word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[first + j] += bits_to_f32(word[i]) * bits_to_f32(word[i]);
      }
    }
  }

  // Stores the parts of the four lanes of each row i at to + i * pitch.
  CATENARY_DEVICE void store(u32 to, u32 pitch) const {
    const u32 lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j)
      st_shared_f32(to + (j * 8 + lane / 4) * pitch + lane % 4 * 4, sums[j]);
  }

  static CATENARY_DEVICE float load(u32 from) {
    const U32x4 lanes = ld_shared_v4(from);
    return (bits_to_f32(lanes.x) + bits_to_f32(lanes.y)) +
           (bits_to_f32(lanes.z) + bits_to_f32(lanes.w));
  }
};

// The kernel has no norm inside.
struct NoSquares {
  CATENARY_DEVICE void store(u32, u32) const {}
};

template <bool kUsed, bool kByMma, MathMode kMath, int kColumnTiles>
struct RowSquares {
  using Type = NoSquares;
};
template <MathMode kMath, int kColumnTiles>
struct RowSquares<true, true, kMath, kColumnTiles> {
  using Type = SquaresByMma<kMath, kColumnTiles>;
};
template <MathMode kMath, int kColumnTiles>
struct RowSquares<true, false, kMath, kColumnTiles> {
  using Type = SquaresByLane<kMath, kColumnTiles>;
};

// The sum of a row over kWarps warps, in ascending order. from: shared address of warp 0's.
template <class Squares, int kWarps>
CATENARY_DEVICE float reduce_squares(u32 from, i32 slice_bytes) {
  float total = 0;
#pragma unroll
  for (int warp = 0; warp < kWarps; ++warp) total += Squares::load(from + warp * slice_bytes);
  return total;
}

}  // namespace catenary
