// SPDX-License-Identifier: Apache-2.0
// The wgmma instructions of a warpgroup for one k-tile (pipeline/pipeline.cuh).
#pragma once

#include "pipeline/descriptor.cuh"
#include "pipeline/pipeline.cuh"
#include "ptx/registers.cuh"
#include "ptx/wgmma.cuh"

namespace catenary {

// The wgmma descriptor of an operand tile from row `row` (a multiple of 64) on.
template <bool kKMajor, u32 kBlockK>
CATENARY_DEVICE u64 tile_descriptor(u32 tile, u32 row) {
  if constexpr (kKMajor) {
    return wgmma_descriptor(tile + row * 128, 0, 1024, Swizzle::k128);
  } else {
    return wgmma_descriptor(tile + row / 64 * kBlockK * 128, kBlockK * 128, 1024, Swizzle::k128);
  }
}

// Bytes from one k-block (32 bytes of K: 16 elements of 16 bits, 8 of tf32, 32 of fp8) to the next:
// within a line where K-major, else two atoms.
template <bool kKMajor>
constexpr u32 kKBlockStride = kKMajor ? 32 : 2048;

template <MathMode kMath, int N, bool kTransA, bool kTransB>
CATENARY_DEVICE void wgmma_k_block(float (&d)[N / 2], u64 a, u64 b, bool scale_d) {
  if constexpr (kMath == MathMode::kBF16) {
    wgmma_bf16<N, kTransA, kTransB>(d, a, b, scale_d);
  } else if constexpr (kMath == MathMode::kF16) {
    wgmma_f16<N, kTransA, kTransB>(d, a, b, scale_d);
  } else {
    static_assert(!kTransA && !kTransB, "operands that do not have 16 bits are K-major");
    if constexpr (kMath == MathMode::kE4M3 || kMath == MathMode::kE4M3Fast) {
      wgmma_e4m3<N>(d, a, b, scale_d);
    } else if constexpr (kMath == MathMode::kE5M2 || kMath == MathMode::kE5M2Fast) {
      wgmma_e5m2<N>(d, a, b, scale_d);
    } else {
      static_assert(kMath == MathMode::kTF32, "no wgmma for this math mode");
      wgmma_tf32<N>(d, a, b, scale_d);
    }
  }
}

// Accumulators: [64-row fragment][GEMM of a dual GEMM][register].
template <int kAccumulators, int kFragments, int kRegisters>
CATENARY_DEVICE void clear_accumulators(float (&d)[kFragments][kAccumulators][kRegisters]) {
#pragma unroll
  for (int f = 0; f < kFragments; ++f)
#pragma unroll
    for (int s = 0; s < kAccumulators; ++s)
#pragma unroll
      for (int i = 0; i < kRegisters; ++i) d[f][s][i] = 0.0f;
}

// Descriptors of the k-tile at shared address `stage`, for the warpgroup's rows of A from `row` on.
struct TileDescriptors {
  u64 a;
  u64 b;
};
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE TileDescriptors tile_descriptors(u32 stage, u32 row) {
  constexpr u32 kBlockK = kPipeline.block_k;
  static_assert(!kPipeline.dual || kPipeline.b2.k_major == kPipeline.b.k_major,
                "B and B2 have one layout");
  static_assert(kPipeline.a.k_major || kBlockK == 64, "64 rows are 64 lines in either layout");
  const u64 b = tile_descriptor<kPipeline.b.k_major, kBlockK>(stage + kPipeline.tile_a_bytes, 0);
  return {tile_descriptor<kPipeline.a.k_major, kBlockK>(stage, row), b};
}

// Issues the MMA of k-block `i` of a k-tile for 64-row fragment `f` of A and the columns of B from
// those of B number `s` on.
template <const PipelineConfig& kPipeline, int kRegisters>
CATENARY_DEVICE void mma_k_block(float (&d)[kRegisters], const TileDescriptors& tile, u32 i, u32 f,
                                 u32 s, bool accumulate) {
  constexpr bool kKMajorA = kPipeline.a.k_major;
  constexpr bool kKMajorB = kPipeline.b.k_major;
  // The next 64 rows: 64 lines further if K-major, else one block of block_k = 64 lines.
  constexpr u32 kFragmentStride = 64 * 128;
  wgmma_k_block<kPipeline.space.math, 2 * kRegisters, !kKMajorA, !kKMajorB>(
      d, advance_descriptor(tile.a, f * kFragmentStride + i * kKBlockStride<kKMajorA>),
      advance_descriptor(tile.b, s * kPipeline.tile_b_bytes + i * kKBlockStride<kKMajorB>),
      accumulate);
}

constexpr u32 kKBlocks = 128 / 32;  // of a k-tile

// Issues all MMAs of a k-tile, and calls between(i) after those of k-block i. The first k-block
// adds to d if `accumulate` is set, and else overwrites it. B2 follows B without a gap, so both are
// one operand: A is read once for both.
template <const PipelineConfig& kPipeline, int kAccumulators, int kFragments, int kRegisters,
          class Between>
CATENARY_DEVICE void mma_k_tile(float (&d)[kFragments][kAccumulators][kRegisters], u32 stage,
                                u32 row, bool accumulate, Between between) {
  static_assert(kAccumulators == 1 || kPipeline.b.k_major || kPipeline.b_rows % 64 == 0,
                "an N-major B is whole blocks of 64 columns");
  const TileDescriptors tile = tile_descriptors<kPipeline>(stage, row);
#pragma unroll
  for (u32 i = 0; i < kKBlocks; ++i) {
#pragma unroll
    for (u32 f = 0; f < kFragments; ++f) {
      mma_k_block<kPipeline>(as_one_array(d[f]), tile, i, f, 0, accumulate || i != 0);
    }
    between(i);
  }
}

// Issues the MMAs of a k-tile for one fragment and one B: p is overwritten by their sum.
template <const PipelineConfig& kPipeline, int kRegisters>
CATENARY_DEVICE void mma_partial(float (&p)[kRegisters], const TileDescriptors& tile, u32 f,
                                 u32 s) {
#pragma unroll
  for (u32 i = 0; i < kKBlocks; ++i) mma_k_block<kPipeline>(p, tile, i, f, s, i != 0);
}

}  // namespace catenary
