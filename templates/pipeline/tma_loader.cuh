// SPDX-License-Identifier: Apache-2.0
// Loads the stages of a pipeline by TMA. TmaLoader and CpAsyncLoader (pipeline/cp_async_loader.cuh)
// have one interface: acquire() a stage; where issues_tma(), tma_load_k_tile() into it;
// cp_async_k_tile() into it; drain() at the end.
#pragma once

#include "pipeline/k_tail.cuh"
#include "pipeline/k_tiles.cuh"
#include "pipeline/pipeline.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"

namespace catenary {

// The coordinate of the work tile along one dimension of a tensor map.
template <i32 kCoord>
CATENARY_DEVICE i32 map_coordinate(const WorkTile& work, i32 outer) {
  if constexpr (kCoord == kCoordOuterK) return outer;
  if constexpr (kCoord == kCoordGroup) return static_cast<i32>(work.group);
  if constexpr (kCoord >= 0 && kCoord < kMaxDims) return static_cast<i32>(work.batch[kCoord]);
  return 0;
}

// Loads one TMA box to shared address `to`, of this CTA or of all kCtas of its cluster.
template <Sm90Operand kOperand, i32 kCtas, class P>
CATENARY_DEVICE void tma_load_box(const P& params, const WorkTile& work, i32 row, i32 k, i32 outer,
                                  u32 to, u32 barrier) {
  constexpr i32 kRank = kOperand.rank();
  i32 coord[kRank];
  coord[0] = kOperand.k_major ? k : row;
  coord[1] = kOperand.k_major ? row : k;
  if constexpr (kRank > 2) coord[2] = map_coordinate<kOperand.coord2>(work, outer);
  if constexpr (kRank > 3) coord[3] = map_coordinate<kOperand.coord3>(work, outer);
  if constexpr (kRank > 4) coord[4] = map_coordinate<kOperand.coord4>(work, outer);
  if constexpr (kCtas > 1) {
    constexpr u16 kAll = (1 << kCtas) - 1;
    tma_load_multicast(to, params.map[kOperand.map], coord, barrier, kAll);
  } else {
    tma_load(to, params.map[kOperand.map], coord, barrier);
  }
}

// Loads kRows rows of an operand, from `row` on, for one k-tile. Each of the kCtas CTAs of a
// cluster that share them loads its part of the rows for all.
template <Sm90Operand kOperand, i32 kRows, i32 kBlockK, i32 kCtas, class P>
CATENARY_DEVICE void tma_load_tile(const P& params, const WorkTile& work, u32 share, i32 row, i32 k,
                                   i32 outer, u32 to, u32 barrier) {
  constexpr u32 kLineBytes = 128;
  if constexpr (kOperand.k_major) {
    constexpr i32 kRowsPerCta = kRows / kCtas;
    const i32 first = static_cast<i32>(share) * kRowsPerCta;
    tma_load_box<kOperand, kCtas>(params, work, row + first, k, outer,
                                  to + static_cast<u32>(first) * kLineBytes, barrier);
  } else {
    constexpr i32 kBoxRows = 64;  // elements of the free dimension in a line
    static_assert(kRows % (kBoxRows * kCtas) == 0, "each CTA loads whole boxes");
#pragma unroll
    for (i32 i = 0; i < kRows / kBoxRows / kCtas; ++i) {
      const i32 box = i * kCtas + static_cast<i32>(share);
      tma_load_box<kOperand, kCtas>(params, work, row + box * kBoxRows, k, outer,
                                    to + static_cast<u32>(box) * kBlockK * kLineBytes, barrier);
    }
  }
}

// Only for a problem that is not empty: a tensor map of an empty operand is not valid.
template <const PipelineConfig& kPipeline, class P>
CATENARY_DEVICE void prefetch_descriptors(const P& params) {
  if constexpr (!kPipeline.a.by_cp_async) tma_prefetch_descriptor(params.map[kPipeline.a.map]);
  if constexpr (!kPipeline.b.by_cp_async) tma_prefetch_descriptor(params.map[kPipeline.b.map]);
  if constexpr (kPipeline.dual && !kPipeline.b2.by_cp_async) {
    tma_prefetch_descriptor(params.map[kPipeline.b2.map]);
  }
}

// Issues the TMA loads of one k-tile, by one thread. `barrier` is that of load_barrier().
template <const PipelineConfig& kPipeline, class P>
CATENARY_DEVICE void tma_load_k_tile(const P& params, const WorkTile& work, const KTileRange& range,
                                     i64 k_tile, u32 smem, u32 rank, u32 stage, u32 barrier,
                                     LoadMask mask) {
  constexpr i32 kBlockK = kPipeline.block_k;
  const auto [k, o] = k_tile_coord<kPipeline>(work, range, k_tile);
  constexpr i32 kClusterM = kPipeline.cluster_m;
  constexpr i32 kClusterN = kPipeline.cluster_n;
  const u32 rank_m = kClusterM > 1 ? rank : 0;
  const u32 rank_n = kClusterN > 1 ? rank : 0;
  const i32 m = static_cast<i32>(work.m0 + rank_m * kPipeline.tile_m);
  const i32 n = static_cast<i32>(work.n0);
  const u32 a = smem + stage * kPipeline.stage_bytes;
  const u32 b = a + kPipeline.tile_a_bytes;
  if constexpr (!kPipeline.a.by_cp_async) {
    if (mask.includes(kPipeline.a.weight)) {
      tma_load_tile<kPipeline.a, kPipeline.tile_m, kBlockK, kClusterN>(params, work, rank_n, m, k,
                                                                       o, a, barrier);
    }
  }
  if constexpr (!kPipeline.b.by_cp_async) {
    if (mask.includes(kPipeline.b.weight)) {
      tma_load_tile<kPipeline.b, kPipeline.b_rows, kBlockK, kClusterM>(params, work, rank_m, n, k,
                                                                       o, b, barrier);
    }
  }
  if constexpr (kPipeline.dual && !kPipeline.b2.by_cp_async) {
    if (mask.includes(kPipeline.b2.weight)) {
      tma_load_tile<kPipeline.b2, kPipeline.b_rows, kBlockK, kClusterM>(
          params, work, rank_m, n, k, o, b + kPipeline.tile_b_bytes, barrier);
    }
  }
}

// Load warps that load by TMA only. One thread runs.
template <const PipelineConfig& kPipeline>
struct TmaLoader {
  // Waits for a free stage and, if `expects`, expects the bytes of all its TMA loads. Loads of the
  // other load warp or of the other CTA may arrive before: the transaction count is then negative
  // for a while, and the phase stays open because this arrival is pending.
  static CATENARY_DEVICE void acquire(u32 smem, const PipelineState<kPipeline.stages>& state,
                                      u32 barrier, bool expects) {
    acquire_stage<kPipeline>(smem, state);
    if (expects) mbarrier_arrive_expect_tx(barrier, kPipeline.tma_bytes);
  }

  // Which threads of a load warp issue its TMA loads: the one that runs.
  static CATENARY_DEVICE bool issues_tma() { return true; }

  // There are no cp.async loads.
  template <class P>
  CATENARY_DEVICE void cp_async_k_tile(const P&, const WorkTile&, const KTileRange&, i64, u32, u32,
                                       LoadMask) {}

  // TMA loads complete at their barriers.
  CATENARY_DEVICE void drain(u32) {}
};

}  // namespace catenary
