// SPDX-License-Identifier: Apache-2.0
// The work of a CTA of `gemm_dequant`, its barriers, and its loads: runs of q by bulk loads, X by
// TMA.
#pragma once

#include "ptx/bulk.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "scheduler/beside.cuh"
#include "shared/gemm_dequant_config.h"

namespace catenary {

struct GemmDequantWork {
  u32 batch[kMaxDims] = {};  // right-aligned
  i64 m0 = 0;                // first index of D's m
  i32 columns = 0;           // of D's m from m0 on
  i64 tile0 = 0;             // first row tile
  i32 tiles = 0;             // row tiles
  i64 block0 = 0;            // first K block
  i32 blocks = 0;            // K blocks
  i32 k_tiles = 0;           // the same in k-tiles, the last one not always whole
};

// The CTAs that divide K are neighbours, then those of one slice of N: they read its q at one time.
template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE GemmDequantWork find_gemm_dequant_work(u32 index, i64 m) {
  constexpr i64 kSlices = kConfig.schedule.n_slices;
  constexpr u32 kCtas = kConfig.k_slices();
  const u32 column_tiles = static_cast<u32>(ceil_div(m, i64{kConfig.tile.columns}));
  GemmDequantWork work;
  const u32 k_slice = index % kCtas;
  index /= kCtas;
  work.m0 = i64{index % column_tiles} * kConfig.tile.columns;
  index /= column_tiles;
  const i64 n_slice = index % kSlices;
  index /= static_cast<u32>(kSlices);
#pragma unroll
  for (int d = kMaxDims - 1; d >= kMaxDims - kConfig.space.batch_rank; --d) {
    const u32 size = static_cast<u32>(kConfig.space.batch.at[d].size);
    work.batch[d] = index % size;
    index /= size;
  }
  const i64 left = m - work.m0;
  work.columns = left < kConfig.tile.columns ? static_cast<i32>(left) : kConfig.tile.columns;
  work.tile0 = kConfig.n_tiles() * n_slice / kSlices;
  work.tiles = static_cast<i32>(kConfig.n_tiles() * (n_slice + 1) / kSlices - work.tile0);
  const i64 first = kConfig.k_tiles() * k_slice / kCtas;
  work.k_tiles = static_cast<i32>(kConfig.k_tiles() * (k_slice + 1) / kCtas - first);
  work.block0 = first * kConfig.loads.stage_blocks;
  const i64 blocks = i64{work.k_tiles} * kConfig.loads.stage_blocks;
  const i64 blocks_left = kConfig.k_blocks() - work.block0;
  work.blocks = static_cast<i32>(blocks_left < blocks ? blocks_left : blocks);
  return work;
}

// Elements from the start of a tensor to its part for the batch entry.
template <const GemmDequantConfig& kConfig, Dims kBatch>
CATENARY_DEVICE i64 batch_offset(const GemmDequantWork& work) {
  i64 offset = 0;
#pragma unroll
  for (int d = kMaxDims - kConfig.space.batch_rank; d < kMaxDims; ++d) {
    if (kBatch.at[d] != 0) offset += static_cast<i64>(work.batch[d]) * kBatch.at[d];
  }
  return offset;
}

// A stage of a pipeline of kStages, and the phase of its barriers.
template <i32 kStages>
struct DequantStage {
  u32 index = 0;
  u32 phase = 0;
  CATENARY_DEVICE void advance() {
    if (++index == kStages) {
      index = 0;
      phase ^= 1;
    }
  }
};

// The shared addresses of a CTA.
template <const GemmDequantConfig& kConfig>
struct GemmDequantSmem {
  static constexpr i32 kXStages = kConfig.loads.x_stages;
  static constexpr i32 kXBarriers =
      kConfig.barrier_offset() + kConfig.warps() * kConfig.loads.stages * 8;

  static CATENARY_DEVICE u32 x(u32 stage) { return dynamic_smem() + stage * kConfig.x_bytes(); }
  static CATENARY_DEVICE u32 x_full(u32 stage) { return dynamic_smem() + kXBarriers + stage * 8; }
  static CATENARY_DEVICE u32 x_empty(u32 stage) { return x_full(stage) + kXStages * 8; }
  static CATENARY_DEVICE u32 partials_barrier() { return x_full(2 * kXStages); }

  // One thread; a CTA barrier must follow.
  //   x_full    1 arrival, of the thread that loads X, which expects its bytes
  //   x_empty   an arrival of each warp
  //   partials  1 arrival, of this thread, which expects what other CTAs send; phase 0 only
  static CATENARY_DEVICE void init(u32 partial_bytes) {
#pragma unroll 1
    for (u32 stage = 0; stage < kXStages; ++stage) {
      mbarrier_init(x_full(stage), 1);
      mbarrier_init(x_empty(stage), kConfig.warps());
    }
    if constexpr (kConfig.schedule.cluster_k > 1) {
      mbarrier_init(partials_barrier(), 1);
      mbarrier_arrive_expect_tx(partials_barrier(), partial_bytes);
    }
    fence_mbarrier_init();
  }
};

// Which row tiles a warp has: those of one weight, every weight_warpgroups() x 4th.
template <const GemmDequantConfig& kConfig>
struct GemmDequantRows {
  i32 weight;  // 0: W, 1: W2
  i32 first;   // row tile of fragment 0
  i32 tiles;   // of the CTA

  CATENARY_DEVICE GemmDequantRows(const GemmDequantWork& work, u32 warp) : tiles(work.tiles) {
    const i32 warpgroup = static_cast<i32>(warp / 4);
    weight = kConfig.dual ? warpgroup / kConfig.weight_warpgroups() : 0;
    first = warpgroup % kConfig.weight_warpgroups() * 4 + static_cast<i32>(warp % 4);
  }
  CATENARY_DEVICE i32 row_tile(int fragment) const {
    return first + fragment * 4 * kConfig.weight_warpgroups();
  }
  // The same in all lanes.
  CATENARY_DEVICE bool has(int fragment) const { return row_tile(fragment) < tiles; }
  // Its fragments, one after the other from the first.
  CATENARY_DEVICE i32 fragments() const {
    i32 count = 0;
#pragma unroll
    for (int f = 0; f < kConfig.fragments(); ++f) count += has(f) ? 1 : 0;
    return count;
  }
  // Rows before those of fragment `fragment` in the sums of a column.
  CATENARY_DEVICE i32 sum_row(int fragment) const {
    return (weight * kConfig.tile.row_tiles + row_tile(fragment)) * 16;
  }
};

// The ring of q of a warp: no other warp reads its rows. All lanes call every function; lane f
// loads the run of fragment f.
//   full of a stage: an arrival of each lane that loads, which expects its bytes
template <const GemmDequantConfig& kConfig>
struct GemmDequantRing {
  static constexpr i32 kStages = kConfig.loads.stages;
  u32 ring;
  u32 barriers;
  bool has_run;
  i32 left;     // K blocks that are not loaded yet
  const u8* q;  // at the first of them

  template <class P>
  CATENARY_DEVICE GemmDequantRing(const P& params, const GemmDequantWork& work,
                                  const GemmDequantRows<kConfig>& rows, u32 warp)
      : ring(dynamic_smem() + kConfig.ring_offset() + warp * kConfig.ring_bytes()),
        barriers(dynamic_smem() + kConfig.barrier_offset() + warp * kStages * 8),
        left(work.blocks) {
    const i32 lane = static_cast<i32>(threadIdx.x % 32);
    has_run = lane < kConfig.fragments() && rows.has(lane);
    const i32 t = rows.row_tile(lane);
    q = tile_address<kConfig.w>(params, work, t);
    if constexpr (kConfig.dual) {
      if (rows.weight == 1) q = tile_address<kConfig.w2>(params, work, t);
    }
    if (lane < kStages && rows.has(0)) {
      mbarrier_init(barriers + static_cast<u32>(lane) * 8, static_cast<u32>(rows.fragments()));
      // The async proxy must see the initialised mbarrier (PTX ISA 9.7.13.4).
      fence_mbarrier_init();
    }
    // All lanes arrive: the mbarriers are initialised.
    warp_barrier();
  }

  // Row tile `t` of the CTA's slice of a weight, at the first K block.
  template <DequantOperand kWeight, class P>
  static CATENARY_DEVICE const u8* tile_address(const P& params, const GemmDequantWork& work,
                                                i32 t) {
    constexpr i64 kTile = kPackedRows * kPackedColumns;
    const i64 first = batch_offset<kConfig, kWeight.stride_batch>(work) / kTile;
    return static_cast<const u8*>(params.ptr[kWeight.slot]) +
           (first + (work.tile0 + t) * kConfig.k_blocks() + work.block0) * kConfig.tile_bytes();
  }

  CATENARY_DEVICE u32 stage(u32 index) const { return ring + index * kConfig.q_bytes(); }

  // Loads the next k-tile, if there is one. Each byte of q is read once by the CTAs of a column
  // tile: evict_first keeps X in L2.
  CATENARY_DEVICE void load(u32 index) {
    constexpr i32 kBlocks = kConfig.loads.stage_blocks;
    if (has_run && left > 0) {
      const i32 count = kConfig.has_whole_k_tiles() || left > kBlocks ? kBlocks : left;
      const u32 bytes = static_cast<u32>(count * kConfig.tile_bytes());
      mbarrier_arrive_expect_tx(barriers + index * 8, bytes);
      bulk_load(stage(index) + threadIdx.x % 32 * kConfig.run_bytes(), q, bytes,
                barriers + index * 8, kEvictFirst);
    }
    q += kConfig.run_bytes();
    left -= kBlocks;
  }

  // The k-tile in a stage has arrived.
  CATENARY_DEVICE void wait(const DequantStage<kStages>& at) const {
    mbarrier_wait(barriers + at.index * 8, at.phase);
  }
};

// The loads of X, by one thread.
template <const GemmDequantConfig& kConfig>
struct GemmDequantX {
  i32 corner[kConfig.x.rank()];
  i32 left;  // k-tiles that are not loaded yet

  CATENARY_DEVICE explicit GemmDequantX(const GemmDequantWork& work) : left(work.k_tiles) {
    constexpr Sm90Operand kX = kConfig.x;
    corner[0] = static_cast<i32>(work.block0) * static_cast<i32>(kPackedColumns);
    corner[1] = static_cast<i32>(work.m0);
    if constexpr (kX.rank() > 2) corner[2] = static_cast<i32>(work.batch[kX.coord2]);
    if constexpr (kX.rank() > 3) corner[3] = static_cast<i32>(work.batch[kX.coord3]);
    if constexpr (kX.rank() > 4) corner[4] = static_cast<i32>(work.batch[kX.coord4]);
  }

  // Loads the next k-tile, which there must be. Boxes are whole: rows past m and columns past K are
  // zeros.
  template <class P>
  CATENARY_DEVICE void load(const P& params, u32 stage) {
    using Smem = GemmDequantSmem<kConfig>;
    mbarrier_arrive_expect_tx(Smem::x_full(stage), kConfig.x_bytes());
#pragma unroll
    for (i32 b = 0; b < kConfig.loads.stage_blocks; ++b) {
      tma_load(Smem::x(stage) + static_cast<u32>(b * kConfig.box_bytes()),
               params.map[kConfig.x.map], corner, Smem::x_full(stage));
      corner[0] += static_cast<i32>(kPackedColumns);
    }
    --left;
  }
};

}  // namespace catenary
