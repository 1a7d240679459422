// SPDX-License-Identifier: Apache-2.0
// The ring of a producer that loads by tensor maps and of consumers that multiply by wgmma: where a
// role stands in it, where its barriers are, the copies that fill a stage, the descriptors of what
// lies there.
//
//   tile of an operand: lines of 128 bytes under the 128-byte swizzle, atoms of 8 lines
//   K-major    line = row of the tile, 128 bytes of K
//   MN-major   line = one k, 64 elements of the free dimension; a block of 64 k after the other.
//              Elements of 16 bits alone: wgmma transposes no others (PTX ISA 9.7.15.5).
#pragma once

#include "pipeline/descriptor.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// Where a role stands; it lives on from tile to tile. Parities flip where the ring wraps, which it
// does in the middle of tiles.
template <int kStages>
struct PipelineState {
  u32 stage = 0;
  u32 parity = 0;  // of the stage's next full phase

  CATENARY_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
  // Past `steps` stages that another warpgroup takes.
  CATENARY_DEVICE void skip(u32 steps) {
    const u32 to = stage + steps;
    const u32 wraps = to / kStages;
    stage = to - wraps * kStages;
    parity ^= wraps & 1;
  }
};

// Shared addresses.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE u32 full_barrier(u32 smem, u32 stage) {
  return smem + kConfig.barrier_offset() + 8 * stage;
}
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE u32 empty_barrier(u32 smem, u32 stage) {
  return smem + kConfig.barrier_offset() + 8 * (kConfig.stages + stage);
}

// The coordinate along a map's dimension.
template <i32 kWalk>
CATENARY_DEVICE i32 map_coordinate(const WorkTile& work, i32 outer) {
  if constexpr (kWalk == kCoordOuterK) return outer;
  if constexpr (kWalk == kCoordGroup) return static_cast<i32>(work.group);
  if constexpr (kWalk >= 0 && kWalk < kMaxDims) return static_cast<i32>(work.batch[kWalk]);
  return 0;
}

// One box to shared address `to`, here or (kMulticast) in both CTAs of a cluster.
template <Sm90Operand kMatrix, bool kMulticast, class P>
CATENARY_DEVICE void tma_load_box(const P& params, const WorkTile& work, i32 row, i32 k, i32 outer,
                                  u32 to, u32 full) {
  constexpr i32 kRank = kMatrix.rank();
  i32 place[kRank];
  place[0] = kMatrix.k_major ? k : row;
  place[1] = kMatrix.k_major ? row : k;
  if constexpr (kRank > 2) place[2] = map_coordinate<kMatrix.coord2>(work, outer);
  if constexpr (kRank > 3) place[3] = map_coordinate<kMatrix.coord3>(work, outer);
  if constexpr (kRank > 4) place[4] = map_coordinate<kMatrix.coord4>(work, outer);
  if constexpr (kMulticast) {
    tma_load_multicast(to, params.map[kMatrix.map], place, full, 3);
  } else {
    tma_load(to, params.map[kMatrix.map], place, full);
  }
}

// kRows rows of an operand, from `row` on, and one step of K. With a cluster each of its CTAs loads
// its part for both.
template <Sm90Operand kMatrix, i32 kRows, i32 kBlockK, i32 kCluster, class P>
CATENARY_DEVICE void tma_load_tile(const P& params, const WorkTile& work, u32 rank, i32 row, i32 k,
                                   i32 outer, u32 to, u32 full) {
  constexpr bool kMulticast = kCluster > 1;
  constexpr u32 kLineBytes = 128;
  if constexpr (kMatrix.k_major) {
    constexpr i32 kPart = kRows / kCluster;
    const i32 first = static_cast<i32>(rank) * kPart;
    tma_load_box<kMatrix, kMulticast>(params, work, row + first, k, outer,
                                      to + static_cast<u32>(first) * kLineBytes, full);
  } else {
    constexpr i32 kSpan = 64;  // elements of the free dimension in a line
    static_assert(kRows % (kSpan * kCluster) == 0, "whole boxes for each CTA");
#pragma unroll
    for (i32 i = 0; i < kRows / kSpan / kCluster; ++i) {
      const i32 box = i * kCluster + static_cast<i32>(rank);
      tma_load_box<kMatrix, kMulticast>(params, work, row + box * kSpan, k, outer,
                                        to + static_cast<u32>(box) * kBlockK * kLineBytes, full);
    }
  }
}

// The maps of a kernel whose problem is not empty, before their first use.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void prefetch_descriptors(const P& params) {
  if constexpr (!kConfig.a.by_cp_async) tma_prefetch_descriptor(params.map[kConfig.a.map]);
  if constexpr (!kConfig.b.by_cp_async) tma_prefetch_descriptor(params.map[kConfig.b.map]);
  if constexpr (kConfig.dual && !kConfig.b2.by_cp_async) {
    tma_prefetch_descriptor(params.map[kConfig.b2.map]);
  }
}

// The descriptor of an operand's tile from row `row` (a multiple of 64) on, and what a step of 32
// bytes of K adds to its address.
template <bool kKMajor, u32 kBlockK>
CATENARY_DEVICE u64 tile_descriptor(u32 tile, u32 row) {
  if constexpr (kKMajor) {
    return wgmma_descriptor(tile + row * 128, 0, 1024, Swizzle::k128);
  } else {
    return wgmma_descriptor(tile + row / 64 * kBlockK * 128, kBlockK * 128, 1024, Swizzle::k128);
  }
}

// Bytes to the next product's K (16 elements of 16 bits or 8 of tf32): within a line, or two atoms
// further.
template <bool kKMajor>
constexpr u32 kNextKBlock = kKMajor ? 32 : 2048;

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
