// SPDX-License-Identifier: Apache-2.0
// The work of a warp of `skinny_dequant`, and its rings of stages: q and X by bulk loads, from
// global to shared memory. X takes few and long loads, in a ring of its own: a load waits at L2 for
// the requests of q before it (RESULTS dequant-3).
//
//   mbarrier, warp and stage: a lane per row tile of the CTA, or per row of X, loads, expects its
//   own bytes and arrives; phase i / stages: fill i has arrived
#pragma once

#include "ptx/bulk.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/skinny_dequant_config.h"

namespace catenary {

// The work of this thread's warp.
struct DequantWork {
  i64 tile0 = 0;   // first row tile of the CTA
  i32 tiles = 0;   // row tiles of the CTA
  i64 block0 = 0;  // first K block of the warp
  i32 blocks = 0;  // K blocks of the warp
  i32 chunks = 0;  // the same in chunks, the last one not always whole
};

template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE DequantWork find_dequant_work() {
  constexpr i64 kSlices = kConfig.schedule.n_slices;
  constexpr u32 kWarps = kConfig.tile.warps;
  const i64 n_slice = blockIdx.x / kConfig.k_slices();
  const u32 k_slice = blockIdx.x % kConfig.k_slices();
  const u32 warp = threadIdx.x / 32;
  const i64 begin = kConfig.k_chunks() * k_slice / kConfig.k_slices();
  const i64 count = kConfig.k_chunks() * (k_slice + 1) / kConfig.k_slices() - begin;
  const i64 first = begin + count * warp / kWarps;
  DequantWork work;
  work.tile0 = kConfig.n_tiles() * n_slice / kSlices;
  work.tiles = static_cast<i32>(kConfig.n_tiles() * (n_slice + 1) / kSlices - work.tile0);
  work.chunks = static_cast<i32>(begin + count * (warp + 1) / kWarps - first);
  work.block0 = first * kConfig.chunk_blocks();
  const i64 left = kConfig.k_blocks() - work.block0;
  const i64 blocks = i64{work.chunks} * kConfig.chunk_blocks();
  work.blocks = static_cast<i32>(left < blocks ? left : blocks);
  return work;
}

// Whether the CTA has row tile `t` of its slice. No check where all slices are equal.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE bool has_row_tile(const DequantWork& work, i32 t) {
  return kConfig.has_equal_slices() || t < work.tiles;
}

// The rings of a warp. All lanes of the warp call every function.
template <const SkinnyDequantConfig& kConfig>
struct DequantRing {
  u32 slice;     // of the warp, in shared memory
  u32 barriers;  // of the warp
  i32 blocks;    // of the warp
  i32 tiles;     // of the CTA
  i32 x_rows;    // m
  i64 columns;   // from the warp's first one to the end of K
  const u8* q;   // lane t: row tile t at the warp's first K block
  const u8* x;   // lane r: row r at the warp's first column

  template <class P>
  CATENARY_DEVICE DequantRing(const P& params, const DequantWork& work, i64 m)
      : slice(dynamic_smem() + kConfig.barrier_bytes() + threadIdx.x / 32 * kConfig.slice_bytes()),
        barriers(dynamic_smem() + threadIdx.x / 32 * kConfig.warp_barriers() * 8),
        blocks(work.blocks),
        tiles(work.tiles),
        x_rows(static_cast<i32>(m)),
        columns(kConfig.space.k.size - work.block0 * kPackedColumns),
        q(static_cast<const u8*>(params.ptr[kConfig.w.slot]) +
          ((work.tile0 + threadIdx.x % 32) * kConfig.k_blocks() + work.block0) *
              kConfig.tile_bytes()),
        x(static_cast<const u8*>(params.ptr[kConfig.x.slot]) +
          (threadIdx.x % 32 * kConfig.x.stride_row + work.block0 * kPackedColumns) * 2) {}

  // Shared address of fill i; its mbarrier.
  CATENARY_DEVICE u32 stage(i32 i) const {
    return slice + i % kConfig.loads.stages * kConfig.stage_bytes();
  }
  CATENARY_DEVICE u32 barrier(i32 i) const { return barriers + i % kConfig.loads.stages * 8; }
  CATENARY_DEVICE u32 x_stage(i32 i) const {
    return slice + kConfig.x_offset() + i % kConfig.loads.x_stages * kConfig.x_stage_bytes();
  }
  CATENARY_DEVICE u32 x_barrier(i32 i) const {
    return barriers + (kConfig.loads.stages + i % kConfig.loads.x_stages) * 8;
  }

  CATENARY_DEVICE void init() const {
    const i32 lane = static_cast<i32>(threadIdx.x % 32);
    if (lane < kConfig.warp_barriers()) {
      mbarrier_init(barriers + lane * 8,
                    static_cast<u32>(lane < kConfig.loads.stages ? tiles : x_rows));
      // The async proxy must see the initialised mbarrier (PTX ISA 9.7.13.4).
      fence_mbarrier_init();
    }
    // All lanes arrive: the mbarriers of all stages are initialised.
    warp_barrier();
  }

  // Expects and loads fill i of q, if there is one: lane t the run of row tile t. Each byte is read
  // once: evict_first keeps X in L2.
  CATENARY_DEVICE void load(i32 i) const {
    const i32 lane = static_cast<i32>(threadIdx.x % 32);
    const i32 first = i * kConfig.stage_blocks();
    if (first >= blocks || lane >= tiles) return;
    const i32 left = blocks - first;
    const i32 count = left < kConfig.stage_blocks() ? left : kConfig.stage_blocks();
    const u32 bytes = static_cast<u32>(count * kConfig.tile_bytes());
    mbarrier_arrive_expect_tx(barrier(i), bytes);
    bulk_load(stage(i) + lane * kConfig.run_bytes(), q + i64{first} * kConfig.tile_bytes(), bytes,
              barrier(i), kEvictFirst);
  }

  // Expects and loads fill i of X, if there is one: lane r row r, up to the end of K.
  CATENARY_DEVICE void load_x(i32 i) const {
    const i32 lane = static_cast<i32>(threadIdx.x % 32);
    const i32 first = i * kConfig.x_columns();
    if (first >= blocks * kPackedColumns || lane >= x_rows) return;
    const i64 left = columns - first;
    const u32 bytes = static_cast<u32>(left < kConfig.x_columns() ? left : kConfig.x_columns()) * 2;
    mbarrier_arrive_expect_tx(x_barrier(i), bytes);
    bulk_load(x_stage(i) + lane * kConfig.x_pitch(), x + i64{first} * 2, bytes, x_barrier(i));
  }

  CATENARY_DEVICE void load_all_x() const {
#pragma unroll
    for (i32 i = 0; i < kConfig.loads.x_stages; ++i) load_x(i);
  }

  // Before chunk `chunk` is read: its stages have arrived.
  CATENARY_DEVICE void acquire(i32 chunk) const {
    if (chunk % kConfig.loads.stage_chunks == 0) {
      const i32 i = chunk / kConfig.loads.stage_chunks;
      // Phase i / stages of the stage's mbarrier.
      mbarrier_wait(barrier(i), static_cast<u32>(i / kConfig.loads.stages % 2));
    }
    if (chunk % kConfig.loads.x_chunks == 0) {
      const i32 i = chunk / kConfig.loads.x_chunks;
      // The same for X.
      mbarrier_wait(x_barrier(i), static_cast<u32>(i / kConfig.loads.x_stages % 2));
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
