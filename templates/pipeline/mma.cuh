// SPDX-License-Identifier: Apache-2.0
// A warpgroup's products of one stage of the ring (pipeline/pipeline.cuh).
#pragma once

#include "pipeline/pipeline.cuh"

namespace catenary {

template <int kSums, int kFragments, int kRegisters>
CATENARY_DEVICE void clear_accumulators(float (&d)[kSums][kFragments][kRegisters]) {
#pragma unroll
  for (int s = 0; s < kSums; ++s)
#pragma unroll
    for (int f = 0; f < kFragments; ++f)
#pragma unroll
      for (int i = 0; i < kRegisters; ++i) d[s][f][i] = 0.0f;
}

// The products of one stage, from the warpgroup's row `row` of its A tile on. `add`: to what d
// holds, else the first product overwrites it.
template <const GemmSm90Config& kConfig, int kSums, int kFragments, int kRegisters>
CATENARY_DEVICE void mma_k_tile(float (&d)[kSums][kFragments][kRegisters], u32 stage, u32 row,
                                bool add) {
  constexpr bool kKMajorA = kConfig.a.k_major;
  constexpr bool kKMajorB = kConfig.b.k_major;
  constexpr u32 kBlockK = kConfig.block_k();
  constexpr u32 kProducts = kConfig.kRowBytes / 32;
  static_assert(!kConfig.dual || kConfig.b2.k_major == kKMajorB, "both B tiles lie alike");
  static_assert(kKMajorA || kBlockK == 64, "a block of 64 rows has 64 lines either way");
  const u64 b = tile_descriptor<kKMajorB, kBlockK>(stage + kConfig.tile_a_bytes(), 0);
  const u64 a = tile_descriptor<kKMajorA, kBlockK>(stage, row);
  // 64 rows further: 64 lines, or a block of kBlockK lines, which are as many.
  constexpr u32 kNextFragment = 64 * 128;
#pragma unroll
  for (u32 i = 0; i < kProducts; ++i) {
#pragma unroll
    for (u32 f = 0; f < kFragments; ++f) {
#pragma unroll
      for (u32 s = 0; s < kSums; ++s) {
        wgmma_k_block<kConfig.math, kConfig.block_n, !kKMajorA, !kKMajorB>(
            d[s][f], advance_descriptor(a, f * kNextFragment + i * kNextKBlock<kKMajorA>),
            advance_descriptor(b, s * kConfig.tile_b_bytes() + i * kNextKBlock<kKMajorB>),
            add || i != 0);
      }
    }
  }
}

}  // namespace catenary
