// SPDX-License-Identifier: Apache-2.0
// The work of a warp of `skinny_dequant`, and its rings of stages: q and X by bulk loads, from
// global to shared memory. X takes few and long loads, in a ring of its own: a load waits at L2 for
// the requests of q before it (RESULTS dequant-3).
//
//   mbarrier, warp and stage: a lane per row tile of W and W2, or per row of X, loads, expects its
//   own bytes and arrives; phase i / stages: fill i has arrived. M-grouped: a lane per column
//   arrives, also without a row of X, because groups end anywhere
#pragma once

#include "ptx/bulk.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/skinny_dequant_config.h"

namespace catenary {

// The work of a CTA and of this thread's warp.
struct DequantWork {
  u32 batch[kMaxDims] = {};  // right-aligned
  u32 group = 0;             // M-grouped
  u32 ordinal = 0;           // its index among the groups that have rows
  i64 m0 = 0;                // first index of D's m
  i64 tile0 = 0;             // first row tile of the CTA
  i32 tiles = 0;             // row tiles of the CTA
  i64 block0 = 0;            // first K block of the warp
  i32 blocks = 0;            // K blocks of the warp
  i32 chunks = 0;            // the same in chunks, the last one not always whole
};

// The work of the CTA with number `index`.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE DequantWork find_dequant_work(u32 index) {
  constexpr i64 kSlices = kConfig.schedule.n_slices;
  constexpr u32 kWarps = kConfig.tile.warps;
  const u32 k_slice = index % kConfig.k_slices();
  index /= kConfig.k_slices();
  const i64 n_slice = index % kSlices;
  index /= kSlices;
  const u32 warp = threadIdx.x / 32;
  const i64 begin = kConfig.k_chunks() * k_slice / kConfig.k_slices();
  const i64 count = kConfig.k_chunks() * (k_slice + 1) / kConfig.k_slices() - begin;
  const i64 first = begin + count * warp / kWarps;
  DequantWork work;
#pragma unroll
  for (int d = kMaxDims - 1; d >= kMaxDims - kConfig.space.batch_rank; --d) {
    const u32 size = static_cast<u32>(kConfig.space.batch.at[d].size);
    work.batch[d] = index % size;
    index /= size;
  }
  work.ordinal = index;
  work.tile0 = kConfig.n_tiles() * n_slice / kSlices;
  work.tiles = static_cast<i32>(kConfig.n_tiles() * (n_slice + 1) / kSlices - work.tile0);
  work.chunks = static_cast<i32>(begin + count * (warp + 1) / kWarps - first);
  work.block0 = first * kConfig.chunk_blocks();
  const i64 left = kConfig.k_blocks() - work.block0;
  const i64 blocks = i64{work.chunks} * kConfig.chunk_blocks();
  work.blocks = static_cast<i32>(left < blocks ? left : blocks);
  return work;
}

// Elements from the start of a tensor to its part for the batch entry and the group.
template <const SkinnyDequantConfig& kConfig, Dims kBatch, i64 kGroup>
CATENARY_DEVICE i64 matrix_offset(const DequantWork& work) {
  i64 offset = 0;
#pragma unroll
  for (int d = kMaxDims - kConfig.space.batch_rank; d < kMaxDims; ++d) {
    if (kBatch.at[d] != 0) offset += static_cast<i64>(work.batch[d]) * kBatch.at[d];
  }
  if constexpr (kConfig.has_groups()) offset += static_cast<i64>(work.group) * kGroup;
  return offset;
}

// Whether the CTA has row tile `run` of its MMAs. No check where all slices are equal.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE bool has_row_tile(const DequantWork& work, i32 run) {
  return kConfig.has_equal_slices() || run % kConfig.tile.row_tiles < work.tiles;
}

// The rings of a warp, and its rows of X. All lanes of the warp call every function.
template <const SkinnyDequantConfig& kConfig>
struct DequantRing {
  u32 slice;                 // of the warp, in shared memory
  u32 barriers;              // of the warp
  i32 blocks;                // of the warp
  i32 tiles;                 // of the CTA
  i32 x_rows;                // m
  i64 columns;               // from the warp's first one to the end of K
  const u8* q;               // lane t: row tile t of the MMAs at the warp's first K block
  const u8* x;               // lane r: row r at the warp's first column
  const u8* gain = nullptr;  // at the warp's first column
  // M-grouped: fills of q and of X for the rows before.
  i32 fills = 0;
  i32 x_fills = 0;

  template <class P>
  CATENARY_DEVICE DequantRing(const P& params, const DequantWork& work, i64 m)
      : slice(dynamic_smem() + kConfig.barrier_bytes() + threadIdx.x / 32 * kConfig.slice_bytes()),
        barriers(dynamic_smem() + threadIdx.x / 32 * kConfig.warp_barriers() * 8),
        blocks(work.blocks),
        tiles(work.tiles),
        x_rows(static_cast<i32>(m)),
        columns(kConfig.space.k.size - work.block0 * kPackedColumns),
        q(run_address(params, work)),
        x(static_cast<const u8*>(params.ptr[kConfig.x.slot]) +
          (matrix_offset<kConfig, kConfig.x.stride_batch, 0>(work) +
           (work.m0 + threadIdx.x % 32) * kConfig.x.stride_row + work.block0 * kPackedColumns) *
              2) {
    if constexpr (kConfig.gain.used)
      gain =
          static_cast<const u8*>(params.ptr[kConfig.gain.slot]) + work.block0 * kPackedColumns * 2;
  }

  template <class P>
  static CATENARY_DEVICE const u8* run_address(const P& params, const DequantWork& work) {
    const u32 run = threadIdx.x % 32;
    if constexpr (kConfig.dual) {
      constexpr u32 kRowTiles = kConfig.tile.row_tiles;
      if (run >= kRowTiles) return tile_address<kConfig.w2>(params, work, run - kRowTiles);
    }
    return tile_address<kConfig.w>(params, work, run);
  }

  // Row tile `t` of the CTA's slice of a weight, at the warp's first K block.
  template <DequantOperand kWeight, class P>
  static CATENARY_DEVICE const u8* tile_address(const P& params, const DequantWork& work, u32 t) {
    constexpr i64 kTile = kPackedRows * kPackedColumns;
    const i64 first =
        matrix_offset<kConfig, kWeight.stride_batch, kWeight.stride_group>(work) / kTile;
    return static_cast<const u8*>(params.ptr[kWeight.slot]) +
           (first + (work.tile0 + t) * kConfig.k_blocks() + work.block0) * kConfig.tile_bytes();
  }

  // Whether this lane loads a run of q.
  CATENARY_DEVICE bool loads_run(i32 lane) const {
    if constexpr (!kConfig.dual) return lane < tiles;
    return lane < kConfig.runs() && lane % kConfig.tile.row_tiles < tiles;
  }

  // Lanes that arrive at an mbarrier of X.
  CATENARY_DEVICE i32 x_arrivals() const {
    return kConfig.has_groups() ? kConfig.tile.columns : x_rows;
  }

  // The number of fill i of these rows of X among all fills of the warp.
  CATENARY_DEVICE i32 fill(i32 i) const { return kConfig.has_groups() ? fills + i : i; }
  CATENARY_DEVICE i32 x_fill(i32 i) const { return kConfig.has_groups() ? x_fills + i : i; }

  // Shared address of fill i; its mbarrier.
  CATENARY_DEVICE u32 stage(i32 i) const {
    return slice + fill(i) % kConfig.loads.stages * kConfig.stage_bytes();
  }
  CATENARY_DEVICE u32 barrier(i32 i) const { return barriers + fill(i) % kConfig.loads.stages * 8; }
  CATENARY_DEVICE u32 x_stage(i32 i) const {
    return slice + kConfig.x_offset() +
           x_fill(i) % kConfig.loads.x_stages * kConfig.x_stage_bytes();
  }
  CATENARY_DEVICE u32 x_barrier(i32 i) const {
    return barriers + (kConfig.loads.stages + x_fill(i) % kConfig.loads.x_stages) * 8;
  }

  CATENARY_DEVICE void init() const {
    const i32 lane = static_cast<i32>(threadIdx.x % 32);
    if (lane < kConfig.warp_barriers()) {
      mbarrier_init(barriers + lane * 8, static_cast<u32>(lane < kConfig.loads.stages
                                                              ? tiles * kConfig.num_accumulators()
                                                              : x_arrivals()));
      // The async proxy must see the initialised mbarrier (PTX ISA 9.7.13.4).
      fence_mbarrier_init();
    }
    // All lanes arrive: the mbarriers of all stages are initialised.
    warp_barrier();
  }

  // Expects and loads fill i of q, if there is one: lane t the run of row tile t. Each byte is read
  // once, or at once again for a group's next rows: evict_first keeps X in L2.
  CATENARY_DEVICE void load(i32 i) const {
    const i32 lane = static_cast<i32>(threadIdx.x % 32);
    const i32 first = i * kConfig.stage_blocks();
    if (first >= blocks || !loads_run(lane)) return;
    const i32 left = blocks - first;
    const i32 count = left < kConfig.stage_blocks() ? left : kConfig.stage_blocks();
    const u32 bytes = static_cast<u32>(count * kConfig.tile_bytes());
    mbarrier_arrive_expect_tx(barrier(i), bytes);
    bulk_load(stage(i) + lane * kConfig.run_bytes(), q + i64{first} * kConfig.tile_bytes(), bytes,
              barrier(i), kEvictFirst);
  }

  // Expects and loads fill i of X, if there is one: lane r row r, and lane 0 the gain too, up to
  // the end of K.
  CATENARY_DEVICE void load_x(i32 i) const {
    const i32 lane = static_cast<i32>(threadIdx.x % 32);
    const i32 first = i * kConfig.x_columns();
    if (first >= blocks * kPackedColumns || lane >= x_arrivals()) return;
    if (kConfig.has_groups() && lane >= x_rows) return mbarrier_arrive(x_barrier(i));
    const i64 left = columns - first;
    const u32 bytes = static_cast<u32>(left < kConfig.x_columns() ? left : kConfig.x_columns()) * 2;
    const bool with_gain = kConfig.gain.used && lane == 0;
    mbarrier_arrive_expect_tx(x_barrier(i), with_gain ? 2 * bytes : bytes);
    bulk_load(x_stage(i) + lane * kConfig.x_pitch(), x + i64{first} * 2, bytes, x_barrier(i));
    if (with_gain)
      bulk_load(x_stage(i) + kConfig.gain_offset(), gain + i64{first} * 2, bytes, x_barrier(i));
  }

  CATENARY_DEVICE void load_all_q() const {
#pragma unroll
    for (i32 i = 0; i < kConfig.loads.stages; ++i) load(i);
  }

  CATENARY_DEVICE void load_all_x() const {
#pragma unroll
    for (i32 i = 0; i < kConfig.loads.x_stages; ++i) load_x(i);
  }

  // M-grouped: the next `m` rows of X, after the warp's `chunks` chunks have been read. Fills go on
  // where those of the rows before ended.
  CATENARY_DEVICE void next_rows(i32 chunks, i64 m) {
    fills += (chunks + kConfig.loads.stage_chunks - 1) / kConfig.loads.stage_chunks;
    x_fills += (chunks + kConfig.loads.x_chunks - 1) / kConfig.loads.x_chunks;
    x += kConfig.tile.columns * kConfig.x.stride_row * 2;
    x_rows = static_cast<i32>(m);
  }

  // Before chunk `chunk` is read: its stages have arrived.
  CATENARY_DEVICE void acquire(i32 chunk) const {
    if (chunk % kConfig.loads.stage_chunks == 0) {
      const i32 i = chunk / kConfig.loads.stage_chunks;
      // Phase i / stages of the stage's mbarrier.
      mbarrier_wait(barrier(i), static_cast<u32>(fill(i) / kConfig.loads.stages % 2));
    }
    if (chunk % kConfig.loads.x_chunks == 0) {
      const i32 i = chunk / kConfig.loads.x_chunks;
      // The same for X.
      mbarrier_wait(x_barrier(i), static_cast<u32>(x_fill(i) / kConfig.loads.x_stages % 2));
    }
  }

  // After chunk `chunk` has been read: stages that end with it are filled again.
  CATENARY_DEVICE void release(i32 chunk) const {
    const bool q_ends = (chunk + 1) % kConfig.loads.stage_chunks == 0;
    const bool x_ends = (chunk + 1) % kConfig.loads.x_chunks == 0;
    if (!q_ends && !x_ends) return;
    // All lanes arrive: they have read the stages.
    warp_barrier();
    if (x_ends) load_x(chunk / kConfig.loads.x_chunks + kConfig.loads.x_stages);
    if (q_ends) load(chunk / kConfig.loads.stage_chunks + kConfig.loads.stages);
  }
};

}  // namespace catenary
