// SPDX-License-Identifier: Apache-2.0
// The wgmma instructions of a warpgroup for one k-tile (pipeline/pipeline.cuh).
#pragma once

#include "pipeline/pipeline.cuh"

namespace catenary {

// Accumulators: [GEMM of a dual GEMM][64-row fragment][register].
template <int kAccumulators, int kFragments, int kRegisters>
CATENARY_DEVICE void clear_accumulators(float (&d)[kAccumulators][kFragments][kRegisters]) {
#pragma unroll
  for (int s = 0; s < kAccumulators; ++s)
#pragma unroll
    for (int f = 0; f < kFragments; ++f)
#pragma unroll
      for (int i = 0; i < kRegisters; ++i) d[s][f][i] = 0.0f;
}

// Issues all MMAs of the k-tile at shared address `stage`, for the warpgroup's rows of A from `row`
// on. The first k-block adds to d if `accumulate` is set, and else overwrites it.
template <const GemmSm90Config& kConfig, int kAccumulators, int kFragments, int kRegisters>
CATENARY_DEVICE void mma_k_tile(float (&d)[kAccumulators][kFragments][kRegisters], u32 stage,
                                u32 row, bool accumulate) {
  constexpr bool kKMajorA = kConfig.a.k_major;
  constexpr bool kKMajorB = kConfig.b.k_major;
  constexpr u32 kBlockK = kConfig.block_k();
  constexpr u32 kKBlocks = kConfig.kRowBytes / 32;
  static_assert(!kConfig.dual || kConfig.b2.k_major == kKMajorB, "B and B2 have one layout");
  static_assert(kKMajorA || kBlockK == 64, "64 rows are 64 lines in either layout");
  const u64 b = tile_descriptor<kKMajorB, kBlockK>(stage + kConfig.tile_a_bytes(), 0);
  const u64 a = tile_descriptor<kKMajorA, kBlockK>(stage, row);
  // The next 64 rows: 64 lines further if K-major, else one block of kBlockK = 64 lines.
  constexpr u32 kFragmentStride = 64 * 128;
#pragma unroll
  for (u32 i = 0; i < kKBlocks; ++i) {
#pragma unroll
    for (u32 f = 0; f < kFragments; ++f) {
#pragma unroll
      for (u32 s = 0; s < kAccumulators; ++s) {
        wgmma_k_block<kConfig.math, kConfig.block_n, !kKMajorA, !kKMajorB>(
            d[s][f], advance_descriptor(a, f * kFragmentStride + i * kKBlockStride<kKMajorA>),
            advance_descriptor(b, s * kConfig.tile_b_bytes() + i * kKBlockStride<kKMajorB>),
            accumulate || i != 0);
      }
    }
  }
}

}  // namespace catenary
