// SPDX-License-Identifier: Apache-2.0
// The work of a CTA of `gemm_dequant`, its barriers, and the load warp: runs of q by bulk loads, X
// by TMA.
#pragma once

#include "ptx/bulk.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "scheduler/beside.cuh"
#include "scheduler/grouped.cuh"
#include "shared/gemm_dequant_config.h"

namespace catenary {

struct GemmDequantWork {
  u32 batch[kMaxDims] = {};  // right-aligned
  u32 group = 0;             // M-grouped; num_groups: rows past the last end, without a weight
  i64 m0 = 0;                // first index of D's m
  i32 columns = 0;           // of D's m from m0 on
  i64 tile0 = 0;             // first row tile
  i32 tiles = 0;             // row tiles
  i64 block0 = 0;            // first K block
  i32 blocks = 0;            // K blocks
  i32 k_tiles = 0;           // the same in k-tiles, the last one not always whole
};

// Where a CTA's rows are: column tile `tile` of D^T. No columns: there is no such tile. All lanes
// call it, converged. M-grouped: after the dependency wait.
template <const GemmDequantConfig& kConfig, class P>
CATENARY_DEVICE void find_columns(const P& params, u32 tile, i64 m, GemmDequantWork& work) {
  constexpr i32 kColumns = kConfig.tile.columns;
  i64 end = m;
  if constexpr (kConfig.has_groups()) {
    const GroupRows rows = find_group_tile<kConfig.ragged.num_groups, kColumns>(
        static_cast<const u8*>(params.ptr[kConfig.ragged.group_ends_slot]), tile,
        static_cast<i32>(m));
    work.group = rows.group;
    work.m0 = rows.begin;
    end = rows.end;
  } else {
    work.m0 = i64{tile} * kColumns;
  }
  work.columns = end - work.m0 < kColumns ? static_cast<i32>(end - work.m0) : kColumns;
}

// The CTAs that divide K are neighbours, then those of one slice of N: they read its q at one time.
template <const GemmDequantConfig& kConfig, class P>
CATENARY_DEVICE GemmDequantWork find_gemm_dequant_work(const P& params, u32 index, i64 m) {
  constexpr i64 kSlices = kConfig.schedule.n_slices;
  constexpr u32 kCtas = kConfig.k_slices();
  const u32 column_tiles =
      static_cast<u32>(ceil_div(m, i64{kConfig.tile.columns}) +
                       (kConfig.has_groups() ? kConfig.ragged.num_groups + 1 : 0));
  GemmDequantWork work;
  const u32 k_slice = index % kCtas;
  index /= kCtas;
  find_columns<kConfig>(params, index % column_tiles, m, work);
  index /= column_tiles;
  const i64 n_slice = index % kSlices;
  index /= static_cast<u32>(kSlices);
#pragma unroll
  for (int d = kMaxDims - 1; d >= kMaxDims - kConfig.space.batch_rank; --d) {
    const u32 size = static_cast<u32>(kConfig.space.batch.at[d].size);
    work.batch[d] = index % size;
    index /= size;
  }
  work.tile0 = kConfig.n_tiles() * n_slice / kSlices;
  work.tiles = static_cast<i32>(kConfig.n_tiles() * (n_slice + 1) / kSlices - work.tile0);
  const i64 first = kConfig.k_tiles() * k_slice / kCtas;
  work.k_tiles = static_cast<i32>(kConfig.k_tiles() * (k_slice + 1) / kCtas - first);
  work.block0 = first * kConfig.loads.stage_blocks;
  const i64 blocks = i64{work.k_tiles} * kConfig.loads.stage_blocks;
  const i64 blocks_left = kConfig.k_blocks() - work.block0;
  work.blocks = static_cast<i32>(blocks_left < blocks ? blocks_left : blocks);
  if (kConfig.has_groups() && work.group >= kConfig.ragged.num_groups) work.k_tiles = 0;
  return work;
}

// Elements from the start of a tensor to its part for the batch entry and the group.
template <const GemmDequantConfig& kConfig, Dims kBatch, i64 kGroup>
CATENARY_DEVICE i64 weight_offset(const GemmDequantWork& work) {
  i64 offset = 0;
  if constexpr (kConfig.has_groups()) offset = static_cast<i64>(work.group) * kGroup;
#pragma unroll
  for (int d = kMaxDims - kConfig.space.batch_rank; d < kMaxDims; ++d) {
    if (kBatch.at[d] != 0) offset += static_cast<i64>(work.batch[d]) * kBatch.at[d];
  }
  return offset;
}

// Shared addresses of the stage of k-tile `i` and of its barriers; the phase bit.
template <const GemmDequantConfig& kConfig>
struct GemmDequantStages {
  static constexpr i32 kStages = kConfig.loads.stages;

  static CATENARY_DEVICE u32 stage(i32 i) {
    return dynamic_smem() + static_cast<u32>(i % kStages * kConfig.stage_bytes());
  }
  static CATENARY_DEVICE u32 full(i32 i) {
    return dynamic_smem() + static_cast<u32>(kConfig.barrier_offset() + i % kStages * 8);
  }
  static CATENARY_DEVICE u32 empty(i32 i) { return full(i) + kStages * 8; }
  static CATENARY_DEVICE u32 phase(i32 i) { return static_cast<u32>(i / kStages % 2); }
  static CATENARY_DEVICE u32 partials_barrier() {
    return dynamic_smem() + static_cast<u32>(kConfig.barrier_offset() + 2 * kStages * 8);
  }

  // One thread; a CTA barrier must follow.
  //   full      1 arrival, of lane 0 of the load warp, which expects the bytes of q and X
  //   empty     an arrival of each mma thread
  //   partials  1 arrival, of this thread, which expects what other CTAs send; phase 0 only
  static CATENARY_DEVICE void init(u32 partial_bytes) {
#pragma unroll 1
    for (i32 i = 0; i < kStages; ++i) {
      mbarrier_init(full(i), 1);
      mbarrier_init(empty(i), kConfig.mma_warps() * 32);
    }
    if constexpr (kConfig.schedule.cluster_k > 1) {
      mbarrier_init(partials_barrier(), 1);
      mbarrier_arrive_expect_tx(partials_barrier(), partial_bytes);
    }
    fence_mbarrier_init();
  }
};

// The load warp. All lanes call every function.
template <const GemmDequantConfig& kConfig>
struct GemmDequantLoader {
  using Stages = GemmDequantStages<kConfig>;
  const GemmDequantWork& work;
  i32 lane;
  bool has_run;  // lane r loads run r of a stage
  const u8* q;   // at the first K block

  template <class P>
  CATENARY_DEVICE GemmDequantLoader(const P& params, const GemmDequantWork& cta_work)
      : work(cta_work), lane(static_cast<i32>(threadIdx.x % 32)) {
    has_run = lane < kConfig.runs() && lane % kConfig.tile.row_tiles < work.tiles;
    q = tile_address<kConfig.w>(params, lane);
    if constexpr (kConfig.dual) {
      if (lane >= kConfig.tile.row_tiles)
        q = tile_address<kConfig.w2>(params, lane - kConfig.tile.row_tiles);
    }
  }

  // Row tile `t` of the CTA's slice of a weight, at the first K block.
  template <DequantOperand kWeight, class P>
  CATENARY_DEVICE const u8* tile_address(const P& params, i32 t) const {
    constexpr i64 kTile = kPackedRows * kPackedColumns;
    const i64 first =
        weight_offset<kConfig, kWeight.stride_batch, kWeight.stride_group>(work) / kTile;
    return static_cast<const u8*>(params.ptr[kWeight.slot]) +
           (first + (work.tile0 + t) * kConfig.k_blocks() + work.block0) * kConfig.tile_bytes();
  }

  // K blocks of k-tile i.
  CATENARY_DEVICE i32 blocks(i32 i) const {
    const i32 left = work.blocks - i * kConfig.loads.stage_blocks;
    return left < kConfig.loads.stage_blocks ? left : kConfig.loads.stage_blocks;
  }

  // Expects k-tile i and loads its q. Each byte of q is read once by the CTAs of a column tile:
  // evict_first keeps X in L2.
  CATENARY_DEVICE void load_q(i32 i) const {
    const u32 bytes = static_cast<u32>(blocks(i) * kConfig.tile_bytes());
    if (lane == 0) {
      const u32 runs = static_cast<u32>(work.tiles * kConfig.num_accumulators());
      mbarrier_arrive_expect_tx(Stages::full(i), kConfig.x_bytes() + runs * bytes);
    }
    if (!has_run) return;
    bulk_load(Stages::stage(i) + static_cast<u32>(kConfig.x_bytes() + lane * kConfig.run_bytes()),
              q + i64{i} * kConfig.run_bytes(), bytes, Stages::full(i), kEvictFirst);
  }

  // Loads X of k-tile i. Boxes are whole: rows past m and columns past K are zeros.
  template <class P>
  CATENARY_DEVICE void load_x(const P& params, i32 i) const {
    if (lane != 0) return;
    constexpr Sm90Operand kX = kConfig.x;
    i32 coord[kX.rank()];
    coord[1] = static_cast<i32>(work.m0);
    if constexpr (kX.rank() > 2) coord[2] = static_cast<i32>(work.batch[kX.coord2]);
    if constexpr (kX.rank() > 3) coord[3] = static_cast<i32>(work.batch[kX.coord3]);
    if constexpr (kX.rank() > 4) coord[4] = static_cast<i32>(work.batch[kX.coord4]);
#pragma unroll
    for (i32 b = 0; b < kConfig.loads.stage_blocks; ++b) {
      coord[0] =
          static_cast<i32>((work.block0 + i * kConfig.loads.stage_blocks + b) * kPackedColumns);
      tma_load(Stages::stage(i) + static_cast<u32>(b * kConfig.box_bytes()), params.map[kX.map],
               coord, Stages::full(i));
    }
  }

  // All loads of the CTA, those of the first stages of q before the dependency wait.
  template <class P>
  CATENARY_DEVICE void run(const P& params) const {
    const i32 first = work.k_tiles < kConfig.loads.stages ? work.k_tiles : kConfig.loads.stages;
    if constexpr (!kConfig.loads.w_is_weight) griddepcontrol_wait();
    if (lane == 0) tma_prefetch_descriptor(params.map[kConfig.x.map]);
#pragma unroll 1
    for (i32 i = 0; i < first; ++i) load_q(i);
    if constexpr (kConfig.loads.w_is_weight) griddepcontrol_wait();
#pragma unroll 1
    for (i32 i = 0; i < first; ++i) load_x(params, i);
#pragma unroll 1
    for (i32 i = first; i < work.k_tiles; ++i) {
      // The fill before has been read: phase i / stages - 1.
      mbarrier_wait(Stages::empty(i), Stages::phase(i) ^ 1);
      // All lanes arrive: none waits for this phase after the next one has completed.
      warp_barrier();
      load_q(i);
      load_x(params, i);
    }
  }
};

}  // namespace catenary
