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

// Loads one TMA box to shared address `to`, of this CTA or of those whose ranks are bits of `ctas`.
template <Sm90Operand kOperand, bool kMulticast, class P>
CATENARY_DEVICE void tma_load_box(const P& params, const WorkTile& work, i32 row, i32 k, i32 outer,
                                  u32 to, u32 barrier, u16 ctas) {
  constexpr i32 kRank = kOperand.rank();
  i32 coord[kRank];
  coord[0] = kOperand.k_major ? k : row;
  coord[1] = kOperand.k_major ? row : k;
  if constexpr (kRank > 2) coord[2] = map_coordinate<kOperand.coord2>(work, outer);
  if constexpr (kRank > 3) coord[3] = map_coordinate<kOperand.coord3>(work, outer);
  if constexpr (kRank > 4) coord[4] = map_coordinate<kOperand.coord4>(work, outer);
  if constexpr (kMulticast) {
    tma_load_multicast(to, params.map[kOperand.map], coord, barrier, ctas);
  } else {
    tma_load(to, params.map[kOperand.map], coord, barrier);
  }
}

// The first row that a box loads. A box that would begin at `row` past the matrix, which has `size`
// rows, loads rows of the matrix instead: the rows and columns of D that it computes are not
// stored.
template <bool kRedirects>
CATENARY_DEVICE i32 row_in_matrix(i32 row, i32 tile_row, i32 size) {
  if constexpr (!kRedirects) return row;
  if (row < size) return row;
  return tile_row < size ? tile_row : 0;
}

// How the tile of one operand is loaded. It has `rows` rows; each of the `ctas` CTAs that share it
// loads a part for all of them, in boxes of `box_rows` if it is K-major: an equal part, or, where
// that is no whole number of boxes, every `ctas`-th box.
struct TileLoad {
  Sm90Operand operand = {};
  i32 rows = 128;
  i32 box_rows = 128;
  i32 block_k = 64;
  i32 ctas = 1;
  bool redirects = false;
};

// Which part of a tile a CTA loads, and the ranks of the CTAs that share the tile, as bits.
struct TileShare {
  u32 part = 0;
  u16 ctas = 1;
};

// CTAs with one row tile share A, those with one column tile share B.
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE TileShare share_of_a(u32 rank) {
  u32 row = 0;
#pragma unroll
  for (i32 i = 0; i < kPipeline.cluster_n; ++i) row |= 1u << (i * kPipeline.cluster_m);
  return {cluster_column<kPipeline>(rank), static_cast<u16>(row << cluster_row<kPipeline>(rank))};
}
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE TileShare share_of_b(u32 rank) {
  constexpr u32 kColumn = (1u << kPipeline.cluster_m) - 1;
  return {cluster_row<kPipeline>(rank),
          static_cast<u16>(kColumn << (cluster_column<kPipeline>(rank) * kPipeline.cluster_m))};
}

// Loads a CTA's share of a tile that begins at `row` of an operand with `size` rows, for one
// k-tile.
template <TileLoad kLoad, class P>
CATENARY_DEVICE void tma_load_tile(const P& params, const WorkTile& work, TileShare share, i32 row,
                                   i32 size, i32 k, i32 outer, u32 to, u32 barrier) {
  constexpr i32 kCtas = kLoad.ctas;
  constexpr u32 kLineBytes = 128;
  if constexpr (kLoad.operand.k_major && kLoad.rows / kCtas % kLoad.box_rows != 0) {
    constexpr i32 kBoxes = kLoad.rows / kLoad.box_rows;
    static_assert(kLoad.rows % kLoad.box_rows == 0, "a tile is whole boxes");
    // Each CTA expects the bytes of all boxes, whoever loads them.
#pragma unroll
    for (i32 i = 0; i < kBoxes; i += kCtas) {
      const i32 box = i + static_cast<i32>(share.part);
      if (i + kCtas > kBoxes && box >= kBoxes) break;
      const i32 at = row_in_matrix<kLoad.redirects>(row + box * kLoad.box_rows, row, size);
      tma_load_box<kLoad.operand, true>(params, work, at, k, outer,
                                        to + static_cast<u32>(box * kLoad.box_rows) * kLineBytes,
                                        barrier, share.ctas);
    }
  } else if constexpr (kLoad.operand.k_major) {
    const i32 first = static_cast<i32>(share.part) * (kLoad.rows / kCtas);
    // Unrolled: one box after the other in a loop takes longer than a k-tile's MMAs.
#pragma unroll
    for (i32 i = 0; i < kLoad.rows / kCtas; i += kLoad.box_rows) {
      const i32 at = row_in_matrix<kLoad.redirects>(row + first + i, row, size);
      tma_load_box<kLoad.operand, (kCtas > 1)>(params, work, at, k, outer,
                                               to + static_cast<u32>(first + i) * kLineBytes,
                                               barrier, share.ctas);
    }
  } else {
    constexpr i32 kBoxRows = 64;  // elements of the free dimension in a line
    static_assert(kLoad.rows % (kBoxRows * kCtas) == 0, "each CTA loads whole boxes");
#pragma unroll
    for (i32 i = 0; i < kLoad.rows / kBoxRows / kCtas; ++i) {
      const i32 box = i * kCtas + static_cast<i32>(share.part);
      const i32 at = row_in_matrix<kLoad.redirects>(row + box * kBoxRows, row, size);
      tma_load_box<kLoad.operand, (kCtas > 1)>(
          params, work, at, k, outer, to + static_cast<u32>(box) * kLoad.block_k * kLineBytes,
          barrier, share.ctas);
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
  if constexpr (kPipeline.segments > 1) {
#pragma unroll
    for (i32 i = 0; i + 1 < kPipeline.segments; ++i) {
      tma_prefetch_descriptor(params.map[kPipeline.more[i].a.map]);
      tma_prefetch_descriptor(params.map[kPipeline.more[i].b.map]);
    }
  }
}

// The place of a k-tile's loads.
struct StageLoad {
  u32 rank = 0;   // of the CTA in its cluster
  u32 stage = 0;  // shared address
  u32 barrier = 0;
};

// Issues the TMA loads of k-tile `k_tile` of segment kSegment, or of the segments after it where it
// has fewer k-tiles.
template <const PipelineConfig& kPipeline, i32 kSegment, class P>
CATENARY_DEVICE void tma_load_segment(const P& params, const WorkTile& work, i64 k_tile,
                                      StageLoad to, LoadMask mask) {
  constexpr i64 kTiles = segment_k_tiles<kPipeline, kSegment>();
  if constexpr (kSegment + 1 < kPipeline.segments) {
    if (k_tile >= kTiles) {
      return tma_load_segment<kPipeline, kSegment + 1>(params, work, k_tile - kTiles, to, mask);
    }
  }
  constexpr KSegment<Sm90Operand> kParts = kPipeline.more[kSegment - 1];
  constexpr TileLoad kLoadA = {kParts.a,          kPipeline.a_rows,    kPipeline.box_rows_a,
                               kPipeline.block_k, kPipeline.cluster_n, kPipeline.redirects_a};
  constexpr TileLoad kLoadB = {kParts.b,          kPipeline.b_rows,    kPipeline.box_rows_b,
                               kPipeline.block_k, kPipeline.cluster_m, kPipeline.redirects_b};
  const i64 outer = kParts.k_outer > 1 ? k_tile / (kTiles / kParts.k_outer) : 0;
  const i32 k = static_cast<i32>((k_tile - outer * (kTiles / kParts.k_outer)) * kPipeline.block_k);
  const TileShare share_a = share_of_a<kPipeline>(to.rank);
  const TileShare share_b = share_of_b<kPipeline>(to.rank);
  if (mask.includes(kParts.a.weight)) {
    tma_load_tile<kLoadA>(
        params, work, share_a,
        static_cast<i32>(work.m0 + cluster_row<kPipeline>(to.rank) * kPipeline.tile_m),
        static_cast<i32>(extent_at_launch(kPipeline.space.m, params)), k, static_cast<i32>(outer),
        to.stage, to.barrier);
  }
  if (mask.includes(kParts.b.weight)) {
    tma_load_tile<kLoadB>(params, work, share_b, static_cast<i32>(work.n0),
                          static_cast<i32>(extent_at_launch(kPipeline.space.n, params)), k,
                          static_cast<i32>(outer), to.stage + kPipeline.tile_a_bytes, to.barrier);
  }
}

// Issues the TMA loads of one k-tile, by one thread. `barrier` is that of load_barrier().
template <const PipelineConfig& kPipeline, class P>
CATENARY_DEVICE void tma_load_k_tile(const P& params, const WorkTile& work, const KTileRange& range,
                                     i64 k_tile, u32 smem, u32 rank, u32 stage, u32 barrier,
                                     LoadMask mask) {
  constexpr i32 kClusterM = kPipeline.cluster_m;
  constexpr i32 kClusterN = kPipeline.cluster_n;
  if constexpr (kPipeline.segments > 1) {
    constexpr i64 kFirst = segment_k_tiles<kPipeline, 0>();
    const StageLoad to = {rank, smem + stage * kPipeline.stage_bytes, barrier};
    if (k_tile >= kFirst) {
      return tma_load_segment<kPipeline, 1>(params, work, k_tile - kFirst, to, mask);
    }
  }
  const auto [k, o] = k_tile_coord<kPipeline>(work, range, k_tile);
  const TileShare share_a = share_of_a<kPipeline>(rank);
  const TileShare share_b = share_of_b<kPipeline>(rank);
  const i32 m = static_cast<i32>(work.m0 + cluster_row<kPipeline>(rank) * kPipeline.tile_m);
  const i32 n = static_cast<i32>(work.n0);
  const i32 rows_a = static_cast<i32>(extent_at_launch(kPipeline.space.m, params));
  const i32 rows_b = static_cast<i32>(extent_at_launch(kPipeline.space.n, params));
  const u32 a = smem + stage * kPipeline.stage_bytes;
  const u32 b = a + kPipeline.tile_a_bytes;
  if constexpr (!kPipeline.a.by_cp_async) {
    constexpr TileLoad kLoad = {kPipeline.a,       kPipeline.a_rows, kPipeline.box_rows_a,
                                kPipeline.block_k, kClusterN,        kPipeline.redirects_a};
    if (mask.includes(kPipeline.a.weight)) {
      tma_load_tile<kLoad>(params, work, share_a, m, rows_a, k, o, a, barrier);
    }
  }
  if constexpr (!kPipeline.b.by_cp_async) {
    constexpr TileLoad kLoad = {kPipeline.b,       kPipeline.b_rows, kPipeline.box_rows_b,
                                kPipeline.block_k, kClusterM,        kPipeline.redirects_b};
    if (mask.includes(kPipeline.b.weight)) {
      tma_load_tile<kLoad>(params, work, share_b, n, rows_b, k, o, b, barrier);
    }
  }
  if constexpr (kPipeline.dual && !kPipeline.b2.by_cp_async) {
    constexpr TileLoad kLoad = {kPipeline.b2,      kPipeline.b_rows, kPipeline.box_rows_b,
                                kPipeline.block_k, kClusterM,        kPipeline.redirects_b};
    if (mask.includes(kPipeline.b2.weight)) {
      tma_load_tile<kLoad>(params, work, share_b, n, rows_b, k, o, b + kPipeline.tile_b_bytes,
                           barrier);
    }
  }
}

// Load warps that load by TMA only. One thread runs.
template <const PipelineConfig& kPipeline>
struct TmaLoader {
  // Waits for a free stage and, if `expects`, expects the bytes of all its TMA loads. Loads of the
  // other load warp or of other CTAs may arrive before: the transaction count is then negative
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
