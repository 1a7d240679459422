// SPDX-License-Identifier: Apache-2.0
// The sums of squares of the rows of A in one-tile CTAs of `gemm_sm90`, for a norm inside
// (row_squares). The four warps of an mma warpgroup load a k-tile when its MMAs are issued, and add
// its squares between the MMAs of the next k-tile. Each warp takes all rows of the warpgroup and a
// quarter of the k-tile's columns. `skinny` multiplies rows with themselves by MMAs; here these
// would wait for wgmma in the tensor cores (RESULTS sm90-157, sm90-158).
#pragma once

#include "epilogue/cluster_split_k.cuh"
#include "kernels/gemm_sm90_traits.cuh"
#include "ptx/convert.cuh"
#include "ptx/math.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"

namespace catenary {

// The kernel has no norm inside.
template <const GemmSm90Config& kConfig, bool kUsed = kConfig.row_squares>
struct TileSquares {
  explicit CATENARY_DEVICE TileSquares(u32) {}
  CATENARY_DEVICE void add(u32) {}
  CATENARY_DEVICE void load(u32) {}
  CATENARY_DEVICE void finish() {}
  CATENARY_DEVICE void send(u32) const {}
  CATENARY_DEVICE void store(u32) const {}
};

template <const GemmSm90Config& kConfig>
struct TileSquares<kConfig, true> {
  static constexpr u32 kRows = kConfig.a_box_rows();  // of a stage
  static constexpr u32 kPasses = ((kRows < 64 ? kRows : 64) + 15) / 16;
  static_assert(kConfig.a.k_major && kConfig.schedule.cluster_k != 0 &&
                    kConfig.warpgroup_m() == 64 && !kConfig.adds_partials() &&
                    GemmSm90Config::kRowBytes == 128,
                "lines of A are rows, and a warp has two of their eight chunks of 16 bytes");

  u32 row;                      // the warpgroup's first row of the tile
  u32 from;                     // byte offset in a stage of the lane's first 16 bytes
  U32x4 words[kPasses] = {};    // of the k-tile before; zeros before the first one
  float sums[kPasses][2] = {};  // of this lane, in turns

  // row: of D, the warp's first one.
  explicit CATENARY_DEVICE TileSquares(u32 row) : row(row / 64 * 64) {
    const u32 lane = threadIdx.x % 32;
    // Eight lanes read eight lines at a time, each another chunk: different banks.
    const u32 chunk = (threadIdx.x / 32 % 4 * 2 + lane / 8 % 2) ^ (lane % 8);
    // A shuffle of nothing: without it ptxas computes the offset again in every k-tile.
    from = shuffle_xor(lane_row(0) * GemmSm90Config::kRowBytes + chunk * 16, 0);
  }

  // After the MMAs of k-block i: adds the squares of word i, 0 to 3, of the k-tile before. A warp
  // waits between two MMAs, and the additions take this time.
  CATENARY_DEVICE void add(u32 i) {
#pragma unroll
    for (u32 pass = 0; pass < kPasses; ++pass) {
      const U32x4& v = words[pass];
      const u32 word = i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
      const float low = lower(word), high = upper(word);
      float& sum = sums[pass][i % 2];
      sum = fma_rn(high, high, fma_rn(low, low, sum));
    }
  }

  // Loads the lane's elements of the k-tile at shared address `stage`, whose MMAs are issued. Lines
  // past K and past M are zeros. The last pass may read lines past the stage's rows, which are
  // bytes of B: their sums are not kept.
  CATENARY_DEVICE void load(u32 stage) {
    // All lanes arrive, after their reads of the stage before, which lane 0 releases next.
    warp_barrier();
#pragma unroll
    for (u32 pass = 0; pass < kPasses; ++pass)
      words[pass] = ld_shared_v4(stage + from + pass * 16 * GemmSm90Config::kRowBytes);
  }

  // After the last k-tile. All lanes of the warp: the two lanes of a row have the warp's sum.
  CATENARY_DEVICE void finish() {
#pragma unroll
    for (u32 i = 0; i < 4; ++i) add(i);
    // All lanes arrive, after their reads of the last stage, which lane 0 releases next.
    warp_barrier();
#pragma unroll
    for (u32 pass = 0; pass < kPasses; ++pass) {
      const float sum = sums[pass][0] + sums[pass][1];
      sums[pass][0] = sum + bits_to_f32(shuffle_xor(f32_to_bits(sum), 8));
    }
  }

  // Sends the sums of the rows that other CTAs of the cluster reduce. Their partials barriers must
  // exist.
  CATENARY_DEVICE void send(u32 smem) const {
    for_each_row([&](u32 r, u32 part, float sum) {
      send_row_square<kClusterSplitKOf<kConfig>>(smem, r, part, sum);
    });
  }

  // Stores those of the rows that this CTA reduces. The pipeline stages must be free.
  CATENARY_DEVICE void store(u32 smem) const {
    for_each_row([&](u32 r, u32 part, float sum) {
      store_own_row_square<kClusterSplitKOf<kConfig>>(smem, r, part, sum);
    });
  }

 private:
  // This lane's row of the tile in a pass over 16 rows.
  CATENARY_DEVICE u32 lane_row(u32 pass) const {
    const u32 lane = threadIdx.x % 32;
    return row + pass * 16 + lane / 16 * 8 + lane % 8;
  }

  // Calls visit(row, the warp's part of K, sum) in one lane for each row of the stage.
  template <class Visit>
  CATENARY_DEVICE void for_each_row(Visit visit) const {
#pragma unroll
    for (u32 pass = 0; pass < kPasses; ++pass) {
      if (threadIdx.x / 8 % 2 == 0 && lane_row(pass) < kRows)
        visit(lane_row(pass), threadIdx.x / 32 % 4, sums[pass][0]);
    }
  }

  // The 16-bit elements of a word.
  static CATENARY_DEVICE float lower(u32 word) {
    if constexpr (kConfig.space.math == MathMode::kBF16) return bits_to_f32(word << 16);
    return f16_to_f32(static_cast<u16>(word));
  }
  static CATENARY_DEVICE float upper(u32 word) {
    if constexpr (kConfig.space.math == MathMode::kBF16) return bits_to_f32(word & 0xffff0000u);
    return f16_to_f32(static_cast<u16>(word >> 16));
  }
};

}  // namespace catenary
