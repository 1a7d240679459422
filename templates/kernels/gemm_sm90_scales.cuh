// SPDX-License-Identifier: Apache-2.0
// Scales per block of fp8 operands in `gemm_sm90`: what the sums of a k-tile are multiplied by as
// they are added to d.
//
// Every thread of an mma warpgroup reads the scales of its own rows and columns from global memory,
// in the order of any strides, one k-tile early. They arrive while MMAs run. No barrier counts
// them, and they take no room in the stages: a k-tile of 128 x 128 has 129 scales, and most are in
// L1 after the first k-tile of a sector.
#pragma once

#include "kernels/gemm_sm90_traits.cuh"
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/math.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// Sums without scales.
template <const GemmSm90Config& kConfig, bool kScaled = kConfig.block_scaled>
struct TileScales {
  struct KTile {};
  struct Factors {};

  template <class P>
  CATENARY_DEVICE TileScales(const P&, const WorkTile&, i64) {}
  CATENARY_DEVICE void load(i64, KTile&) const {}
  static CATENARY_DEVICE Factors factors(const KTile&) { return {}; }
  template <int kRegisters>
  CATENARY_DEVICE void add(float (&sum)[kRegisters], const float (&sums)[kRegisters], u32,
                           const Factors&) const {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) sum[i] += sums[i];
  }
};

template <const GemmSm90Config& kConfig>
struct TileScales<kConfig, true> {
  static constexpr BlockScales kA = kConfig.scale_a;
  static constexpr BlockScales kB = kConfig.scale_b;
  static constexpr BlockScales kB2 = kConfig.scale_b2;
  static constexpr int kAccumulators = GemmSm90Traits<kConfig>::kAccumulators;
  static constexpr int kFragments = GemmSm90Traits<kConfig>::kFragments;
  static constexpr GemmSm90Config::ScaleBlocks kBlocks = kConfig.scale_blocks();
  static constexpr bool kChecksRows = kConfig.ragged.kind != Ragged::kNone ||
                                      kConfig.space.m.scale != 0 ||
                                      kConfig.space.m.size % kConfig.cluster_tile_m() != 0;
  static_assert(kConfig.promotes() && kConfig.segments == 1 && kConfig.space.k_outer == 1,
                "one product, or two over one A, whose sums are promoted");
  static_assert(kBlocks.most <= 2, "columns of two blocks of B");
  static_assert(kA.columns % kConfig.block_k() == 0 && kB.columns % kConfig.block_k() == 0 &&
                    kB2.columns % kConfig.block_k() == 0,
                "the terms of a k-tile have one scale");

  // a[2 f + h] scales the row 64 f + 8 h after the thread's first row. b[s][i] scales block i of
  // the tile in B (s = 0) or B2 (s = 1).
  struct KTile {
    float a[2 * kFragments];
    float b[kAccumulators][kBlocks.most];
  };
  // Their products, by part, row (h) and block.
  struct Factors {
    float of[kFragments * kAccumulators][2][kBlocks.most];
  };

  // `row`: the first one of this warp.
  template <class P>
  CATENARY_DEVICE TileScales(const P& params, const WorkTile& work, i64 row)
      : k_begin_(static_cast<u32>(work.k_begin)) {
    row += threadIdx.x % 32 / 4;
    rows_left_ = static_cast<i32>(work.m_end - row);
    a_ = static_cast<const u8*>(params.ptr[kA.slot]) + row * kA.stride_row * 4;
    i64 block = 0;
    if constexpr (kB.rows != 0) {
      // A tile after the last column stores nothing.
      constexpr i64 kLast = (kConfig.space.n.size - 1) / kB.rows;
      block = work.n0 / kB.rows;
      first_columns_ = static_cast<i32>((block + 1) * kB.rows - work.n0);
      more_ = block < kLast;
      if (block > kLast) block = kLast;
    }
    b_[0] = of_block<kB>(params, work.group, block);
    if constexpr (kConfig.dual) b_[1] = of_block<kB2>(params, work.group, block);
  }

  // The scales of k-tile `k_tile`, in place of those of another one. What is not read keeps its
  // value, which is 0 from the start: scales after the end of K, of a tile without a group, and
  // those of rows that are not stored.
  CATENARY_DEVICE void load(i64 k_tile, KTile& scales) const {
    const u32 k = static_cast<u32>(k_begin_ + k_tile * kConfig.block_k());
    if (GemmSm90Traits<kConfig>::kAddsZeroKTile && k >= kConfig.space.k.size) return;
    const u8* a = a_ + k / static_cast<u32>(kA.columns) * (kA.stride_column * 4);
#pragma unroll
    for (int i = 0; i < 2 * kFragments; ++i) {
      const i32 row = i / 2 * 64 + i % 2 * 8;
      if (!kChecksRows || row < rows_left_)
        scales.a[i] = bits_to_f32(ld_global_u32(a + row * kA.stride_row * 4));
    }
    load_b<kB>(k, b_[0], scales.b[0]);
    if constexpr (kConfig.dual) load_b<kB2>(k, b_[1], scales.b[1]);
  }

  // A round of the mainloop multiplies before it requests the next scales. Those arrive in the same
  // registers. Else ptxas copies them in the round that requests them, which waits for them before
  // its MMAs.
  static CATENARY_DEVICE Factors factors(const KTile& scales) {
    Factors factors;
#pragma unroll
    for (int i = 0; i < 2 * kFragments * kAccumulators * kBlocks.most; ++i) {
      const int block = i % kBlocks.most, h = i / kBlocks.most % 2, part = i / kBlocks.most / 2;
      const int f = part / kAccumulators, s = part % kAccumulators;
      factors.of[part][h][block] = mul_rn(scales.a[2 * f + h], scales.b[s][block]);
    }
    return factors;
  }

  // Adds the sums of part `part` (as in PromotedMainloop) to `sum`. Registers 4 j to 4 j + 3 of a
  // thread are of columns 8 j to 8 j + 7; the first two are of the first of its two rows.
  template <int kRegisters>
  CATENARY_DEVICE void add(float (&sum)[kRegisters], const float (&sums)[kRegisters], u32 part,
                           const Factors& factors) const {
#pragma unroll
    for (int i = 0; i < kRegisters; ++i) {
      const float(&of_row)[kBlocks.most] = factors.of[part][i / 2 % 2];
      const bool second = kBlocks.most == 2 && i / 4 * 8 >= first_columns();
      sum[i] = fma_rn(sums[i], second ? of_row[kBlocks.most - 1] : of_row[0], sum[i]);
    }
  }

 private:
  // Where the scales of block `block` of a group's B begin. Lanes without a row to store read the
  // first block: an address that depends on the lane keeps ptxas from uniform registers. A round
  // that moves its scales to those waits for them before its MMAs (RESULTS fp8-9).
  template <BlockScales kScales, class P>
  CATENARY_DEVICE const u8* of_block(const P& params, u32 group, i64 block) const {
    const u8* const first = static_cast<const u8*>(params.ptr[kScales.slot]);
    return rows_left_ <= 0
               ? first
               : first + (group * kScales.stride_group + block * kScales.stride_row) * 4;
  }

  // Those of the tile's blocks of one B at `k`.
  template <BlockScales kScales>
  CATENARY_DEVICE void load_b(u32 k, const u8* from, float (&b)[kBlocks.most]) const {
    from += k / static_cast<u32>(kScales.columns) * (kScales.stride_column * 4);
    b[0] = bits_to_f32(ld_global_u32(from));
    if constexpr (kBlocks.most == 2)
      b[1] = bits_to_f32(ld_global_u32(from + (more_ ? kScales.stride_row * 4 : 0)));
  }

  // Columns of the tile's first block of B. A choice between two registers where it varies.
  CATENARY_DEVICE i32 first_columns() const {
    if constexpr (kBlocks.first_columns != GemmSm90Config::kVaries) return kBlocks.first_columns;
    return first_columns_;
  }

  u32 k_begin_;
  i32 rows_left_;
  i32 first_columns_ = 0;
  bool more_ = false;  // has B a block after the tile's first one?
  const u8* a_;
  const u8* b_[kAccumulators];
};

}  // namespace catenary
