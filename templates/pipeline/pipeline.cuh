// SPDX-License-Identifier: Apache-2.0
// The pipeline between TMA producers and wgmma consumers: pipeline state, full and empty barriers,
// the TMA loads of a stage, and the wgmma descriptors of its tiles.
//
// Every operand tile has lines of 128 bytes under the 128-byte swizzle, whose atom is 8 lines:
//   K-major    line = one row of the tile, 128 bytes of K
//   MN-major   line = one k, 64 elements of the free dimension; one 64-line block after the other.
//              Only for 16-bit elements: wgmma transposes no other type (PTX ISA 9.7.15.5).
#pragma once

#include "pipeline/descriptor.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// The stage and the phase that a role is at. It persists from tile to tile; the phase flips where
// the stage index wraps, which may be in the middle of a tile.
template <int kStages>
struct PipelineState {
  u32 stage = 0;
  u32 phase = 0;  // that the full barrier completes next

  CATENARY_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  // Skips the `count` stages of a tile that the other warpgroup computes.
  CATENARY_DEVICE void advance(u32 count) {
    const u32 next = stage + count;
    const u32 wraps = next / kStages;
    stage = next - wraps * kStages;
    phase ^= wraps & 1;
  }
};

// Shared addresses of a stage's barriers.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE u32 full_barrier(u32 smem, u32 stage) {
  return smem + kConfig.barrier_offset() + 8 * stage;
}
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE u32 empty_barrier(u32 smem, u32 stage) {
  return smem + kConfig.barrier_offset() + 8 * (kConfig.stages + stage);
}

// The coordinate of the work tile along one dimension of a tensor map.
template <i32 kCoord>
CATENARY_DEVICE i32 map_coordinate(const WorkTile& work, i32 outer) {
  if constexpr (kCoord == kCoordOuterK) return outer;
  if constexpr (kCoord == kCoordGroup) return static_cast<i32>(work.group);
  if constexpr (kCoord >= 0 && kCoord < kMaxDims) return static_cast<i32>(work.batch[kCoord]);
  return 0;
}

// Loads one TMA box to shared address `to`, of this CTA or (kMulticast) of both CTAs of a cluster.
template <Sm90Operand kOperand, bool kMulticast, class P>
CATENARY_DEVICE void tma_load_box(const P& params, const WorkTile& work, i32 row, i32 k, i32 outer,
                                  u32 to, u32 barrier) {
  constexpr i32 kRank = kOperand.rank();
  i32 coord[kRank];
  coord[0] = kOperand.k_major ? k : row;
  coord[1] = kOperand.k_major ? row : k;
  if constexpr (kRank > 2) coord[2] = map_coordinate<kOperand.coord2>(work, outer);
  if constexpr (kRank > 3) coord[3] = map_coordinate<kOperand.coord3>(work, outer);
  if constexpr (kRank > 4) coord[4] = map_coordinate<kOperand.coord4>(work, outer);
  if constexpr (kMulticast) {
    tma_load_multicast(to, params.map[kOperand.map], coord, barrier, 3);
  } else {
    tma_load(to, params.map[kOperand.map], coord, barrier);
  }
}

// Loads kRows rows of an operand, from `row` on, for one k-tile. In an M cluster each CTA loads its
// share of the rows for both CTAs.
template <Sm90Operand kOperand, i32 kRows, i32 kBlockK, i32 kCluster, class P>
CATENARY_DEVICE void tma_load_tile(const P& params, const WorkTile& work, u32 rank, i32 row, i32 k,
                                   i32 outer, u32 to, u32 barrier) {
  constexpr bool kMulticast = kCluster > 1;
  constexpr u32 kLineBytes = 128;
  if constexpr (kOperand.k_major) {
    constexpr i32 kRowsPerCta = kRows / kCluster;
    const i32 first = static_cast<i32>(rank) * kRowsPerCta;
    tma_load_box<kOperand, kMulticast>(params, work, row + first, k, outer,
                                       to + static_cast<u32>(first) * kLineBytes, barrier);
  } else {
    constexpr i32 kBoxRows = 64;  // elements of the free dimension in a line
    static_assert(kRows % (kBoxRows * kCluster) == 0, "each CTA loads whole boxes");
#pragma unroll
    for (i32 i = 0; i < kRows / kBoxRows / kCluster; ++i) {
      const i32 box = i * kCluster + static_cast<i32>(rank);
      tma_load_box<kOperand, kMulticast>(params, work, row + box * kBoxRows, k, outer,
                                         to + static_cast<u32>(box) * kBlockK * kLineBytes,
                                         barrier);
    }
  }
}

// Only for a problem that is not empty: a tensor map of an empty operand is not valid.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void prefetch_descriptors(const P& params) {
  if constexpr (!kConfig.a.by_cp_async) tma_prefetch_descriptor(params.map[kConfig.a.map]);
  if constexpr (!kConfig.b.by_cp_async) tma_prefetch_descriptor(params.map[kConfig.b.map]);
  if constexpr (kConfig.dual && !kConfig.b2.by_cp_async) {
    tma_prefetch_descriptor(params.map[kConfig.b2.map]);
  }
}

// The wgmma descriptor of an operand tile from row `row` (a multiple of 64) on.
template <bool kKMajor, u32 kBlockK>
CATENARY_DEVICE u64 tile_descriptor(u32 tile, u32 row) {
  if constexpr (kKMajor) {
    return wgmma_descriptor(tile + row * 128, 0, 1024, Swizzle::k128);
  } else {
    return wgmma_descriptor(tile + row / 64 * kBlockK * 128, kBlockK * 128, 1024, Swizzle::k128);
  }
}

// Bytes from one k-block (32 bytes of K: 16 elements of 16 bits, 8 of tf32) to the next: within a
// line where K-major, else two atoms.
template <bool kKMajor>
constexpr u32 kKBlockStride = kKMajor ? 32 : 2048;

template <MathMode kMath, int N, bool kTransA, bool kTransB>
CATENARY_DEVICE void wgmma_k_block(float (&d)[N / 2], u64 a, u64 b, bool scale_d) {
  if constexpr (kMath == MathMode::kBF16) {
    wgmma_bf16<N, kTransA, kTransB>(d, a, b, scale_d);
  } else if constexpr (kMath == MathMode::kF16) {
    wgmma_f16<N, kTransA, kTransB>(d, a, b, scale_d);
  } else {
    static_assert(kMath == MathMode::kTF32 && !kTransA && !kTransB, "tf32 operands are K-major");
    wgmma_tf32<N>(d, a, b, scale_d);
  }
}

}  // namespace catenary
