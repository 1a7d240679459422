// SPDX-License-Identifier: Apache-2.0
// D[m, n] = sum over k of A[m, k] B[n, k] in bf16 with f32 accumulators on sm_90a: persistent CTAs,
// one producer warp, two consumer warpgroups, TMA loads and stores.
//
//   warpgroup 0, warp 0: produce()   TMA loads of a tile of A and one of B per stage
//   warpgroups 1 and 2:  consume()   64 rows of the CTA's tile each: wgmma, rounding to bf16, TMA
//                                    stores from an output buffer per warpgroup
//
// Barriers (per stage s; the phase flips when the stage wraps, which happens inside tiles):
//   barrier     arrivals                                 waited for by          first phase
//   full[s]     1: the CTA's producer, expects bytes     every consumer thread  0
//   empty[s]    8 per CTA of the cluster: consumer warps the producer           1 (falls through)
//   named 1, 2  the 128 threads of consumer warpgroup 1, 2
//
// In a cluster of two the CTAs have tiles of the same columns and neighbouring rows. Each loads
// half of B's tile for both: full[s] counts A, the CTA's own half of B and the other CTA's half.
#include "pipeline/descriptor.cuh"
#include "ptx/atomic.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cluster.cuh"
#include "ptx/convert.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/mma.cuh"
#include "ptx/registers.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/tma.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;

// Boxes of the maps (innermost first), all with the 128-byte swizzle: A 64 x 128, B 64 x (128 /
// cluster), D 64 x 64.
struct P {
  TensorMap a, b, d;
  Params<3, 0> args;
};

struct Gemm {
  i32 m, n, k;
  u32 cluster;  // CTAs: 1 or 2
};

constexpr u32 kBlockM = 128;
constexpr u32 kBlockN = 128;
constexpr u32 kBlockK = 64;  // 128 bytes: one swizzle atom
constexpr u32 kStages = 4;
constexpr u32 kConsumerWarps = 8;

// Shared memory: stages, output buffers of the consumers, mbarriers.
constexpr u32 kRowBytes = kBlockK * 2;
constexpr u32 kTileA = kBlockM * kRowBytes;
constexpr u32 kStageBytes = kTileA + kBlockN * kRowBytes;
constexpr u32 kBoxD = 64 * 128;                 // 64 rows of 64 columns
constexpr u32 kBufferD = kBoxD * kBlockN / 64;  // of one warpgroup
constexpr u32 kOutput = kStages * kStageBytes;
constexpr u32 kFull = kOutput + 2 * kBufferD;
constexpr u32 kEmpty = kFull + 8 * kStages;

// The stage and phase of a role; kept from tile to tile.
struct PipelineState {
  u32 stage = 0;
  u32 phase = 0;  // of the stage's next full barrier
  CATENARY_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};

// Tiles are assigned to clusters round-robin. All CTAs of a cluster have equally many: rows past
// the last tile are a tile too, whose loads give zeros and whose stores are dropped.
template <Gemm kGemm>
struct Tiles {
  static constexpr u32 kColumns = (kGemm.n + kBlockN - 1) / kBlockN;
  static constexpr u32 kRowGroups =
      (kGemm.m + kBlockM * kGemm.cluster - 1) / (kBlockM * kGemm.cluster);
  static constexpr u32 kCount = kColumns * kRowGroups;  // per CTA of a cluster
  static constexpr u32 kKTiles = (kGemm.k + kBlockK - 1) / kBlockK;

  static CATENARY_DEVICE u32 first() { return blockIdx.x / kGemm.cluster; }
  static CATENARY_DEVICE u32 stride() { return gridDim.x / kGemm.cluster; }
  static CATENARY_DEVICE i32 row(u32 tile, u32 rank) {
    return static_cast<i32>((tile / kColumns * kGemm.cluster + rank) * kBlockM);
  }
  static CATENARY_DEVICE i32 column(u32 tile) {
    return static_cast<i32>(tile % kColumns * kBlockN);
  }
};

// One thread. A stage is loaded when all its readers, here and in the other CTA, have released it.
template <Gemm kGemm>
CATENARY_DEVICE void produce(const P& p, u32 smem, u32 rank) {
  using Work = Tiles<kGemm>;
  constexpr u32 kRowsB = kBlockN / kGemm.cluster;
  PipelineState state;
  for (u32 tile = Work::first(); tile < Work::kCount; tile += Work::stride()) {
    const i32 row = Work::row(tile, rank);
    const i32 column = Work::column(tile);
    for (u32 k_tile = 0; k_tile < Work::kKTiles; ++k_tile, state.advance()) {
      const u32 full = smem + kFull + 8 * state.stage;
      const u32 empty = smem + kEmpty + 8 * state.stage;
      const u32 a = smem + state.stage * kStageBytes;
      const u32 b = a + kTileA;
      const i32 k = static_cast<i32>(k_tile * kBlockK);
      if constexpr (kGemm.cluster == 1) {
        mbarrier_wait(empty, state.phase ^ 1);
        mbarrier_arrive_expect_tx(full, kStageBytes);
        tma_load(a, p.a, {k, row}, full);
        tma_load(b, p.b, {k, column}, full, kEvictLast);
      } else {
        mbarrier_wait_cluster(empty, state.phase ^ 1);
        // The other CTA's half may complete before this line: the byte count is then negative, and
        // the pending arrival keeps the phase open.
        mbarrier_arrive_expect_tx(full, kStageBytes);
        tma_load(a, p.a, {k, row}, full);
        tma_load_multicast(b + rank * kRowsB * kRowBytes, p.b,
                           {k, column + static_cast<i32>(rank * kRowsB)}, full, 3, kEvictLast);
      }
    }
  }
}

// This warp has read the stage: one arrival here and one in the other CTA, which loads half of B.
template <Gemm kGemm>
CATENARY_DEVICE void release(u32 smem, u32 stage) {
  const u32 lane = threadIdx.x % 32;
  const u32 empty = smem + kEmpty + 8 * stage;
  if constexpr (kGemm.cluster == 1) {
    if (lane == 0) mbarrier_arrive(empty);
  } else {
    if (lane < kGemm.cluster) mbarrier_release_remote(map_shared(empty, lane));
  }
}

// All k-tiles of one tile. One wgmma group stays in flight: a stage is released when the MMAs of
// the next stage have been issued and its own have completed.
template <Gemm kGemm>
CATENARY_DEVICE void mainloop(float (&d)[kBlockN / 2], u32 smem, u32 warpgroup,
                              PipelineState& state) {
  u32 previous = 0;
  for (u32 k_tile = 0; k_tile < Tiles<kGemm>::kKTiles; ++k_tile) {
    const u32 a = smem + state.stage * kStageBytes + warpgroup * 64 * kRowBytes;
    const u32 b = smem + state.stage * kStageBytes + kTileA;
    const u64 a_matrix = wgmma_descriptor(a, 0, 8 * kRowBytes, Swizzle::k128);
    const u64 b_matrix = wgmma_descriptor(b, 0, 8 * kRowBytes, Swizzle::k128);
    mbarrier_wait(smem + kFull + 8 * state.stage, state.phase);
    wgmma_fence();
#pragma unroll
    for (u32 i = 0; i < kBlockK / 16; ++i) {
      // The first MMA of a tile overwrites the accumulators of the previous tile.
      wgmma_bf16<kBlockN>(d, advance_descriptor(a_matrix, 32 * i),
                          advance_descriptor(b_matrix, 32 * i), k_tile != 0 || i != 0);
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (k_tile != 0) release<kGemm>(smem, previous);
    previous = state.stage;
    state.advance();
  }
  wgmma_wait<0>();
  wgmma_pin(d);
  release<kGemm>(smem, previous);
}

CATENARY_DEVICE void warpgroup_barrier(u32 warpgroup) {
  if (warpgroup == 0) {
    named_barrier_sync<1>(128);
  } else {
    named_barrier_sync<2>(128);
  }
}

// 64 x 128 accumulators to the warpgroup's output buffer, as two swizzled boxes. A 16 x 16 block is
// one stmatrix: lane l has the address of row l % 16, columns 8 (l / 16) and on.
CATENARY_DEVICE void store_accumulators(const float (&d)[kBlockN / 2], u32 buffer) {
  const u32 row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16;
  const u32 half = threadIdx.x % 32 / 16;
#pragma unroll
  for (u32 j = 0; j < kBlockN / 16; ++j) {
    const u32 chunk = 2 * (j % 4) + half;
    const u32 to = buffer + j / 4 * kBoxD + row * 128 + ((chunk ^ (row & 7)) << 4);
    stmatrix_x4(
        to, {f32_to_bf16x2(d[8 * j], d[8 * j + 1]), f32_to_bf16x2(d[8 * j + 2], d[8 * j + 3]),
             f32_to_bf16x2(d[8 * j + 4], d[8 * j + 5]), f32_to_bf16x2(d[8 * j + 6], d[8 * j + 7])});
  }
}

// One consumer warpgroup: 0 or 1. Its first thread issues and waits for its TMA stores.
template <Gemm kGemm>
CATENARY_DEVICE void consume(const P& p, u32 smem, u32 rank, u32 warpgroup) {
  using Work = Tiles<kGemm>;
  const bool stores = threadIdx.x % 128 == 0;
  const u32 buffer = smem + kOutput + warpgroup * kBufferD;
  PipelineState state;
  for (u32 tile = Work::first(); tile < Work::kCount; tile += Work::stride()) {
    float halves[2][kBlockN / 4];
    auto& d = as_one_array(halves);
    mainloop<kGemm>(d, smem, warpgroup, state);
    // 128 threads arrive: the previous tile's stores have read the buffer.
    if (stores) bulk_wait_read<0>();
    warpgroup_barrier(warpgroup);
    store_accumulators(d, buffer);
    // The fence of every writer, then the barrier, then the TMA store.
    fence_proxy_async_shared();
    warpgroup_barrier(warpgroup);
    if (stores) {
      const i32 row = Work::row(tile, rank) + static_cast<i32>(64 * warpgroup);
      const i32 column = Work::column(tile);
#pragma unroll
      for (i32 i = 0; i < static_cast<i32>(kBlockN / 64); ++i) {
        tma_store(p.d, {column + 64 * i, row}, buffer + i * kBoxD);
      }
      bulk_commit();
    }
  }
  // Shared memory must outlive the reads; the end of the kernel completes the writes.
  if (stores) bulk_wait_read<0>();
}

template <Gemm kGemm>
CATENARY_DEVICE void gemm(const P& p) {
  const u32 smem = dynamic_smem();
  const u32 warp = warp_index();
  const u32 rank = kGemm.cluster == 1 ? 0 : cluster_rank();
  if (threadIdx.x == 0) {
    tma_prefetch_descriptor(p.a);
    tma_prefetch_descriptor(p.b);
    tma_prefetch_descriptor(p.d);
    for (u32 stage = 0; stage < kStages; ++stage) {
      mbarrier_init(smem + kFull + 8 * stage, 1);
      mbarrier_init(smem + kEmpty + 8 * stage, kConsumerWarps * kGemm.cluster);
    }
    fence_mbarrier_init();
  }
  // The mbarriers of all CTAs are initialised before any is used.
  if constexpr (kGemm.cluster == 1) {
    cta_barrier();
  } else {
    cluster_arrive();
    cluster_wait();
  }
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();
  if (warp < 4) {
    set_max_registers_decrease<40>();
    if (warp == 0 && elect_one()) produce<kGemm>(p, smem, rank);
    warp_barrier();
  } else {
    set_max_registers_increase<232>();
    consume<kGemm>(p, smem, rank, warp / 4 - 1);
  }
  // No CTA exits while the other may still write to it or arrive at its mbarriers.
  if constexpr (kGemm.cluster != 1) {
    cluster_arrive();
    cluster_wait();
  }
}
}  // namespace

extern "C" __global__ void __launch_bounds__(384, 1) hopper_gemm(const __grid_constant__ P p) {
  gemm<Gemm{.m = 200, .n = 328, .k = 328, .cluster = 1}>(p);
}

extern "C" __global__ void __launch_bounds__(384, 1)
    hopper_gemm_cluster(const __grid_constant__ P p) {
  gemm<Gemm{.m = 328, .n = 328, .k = 328, .cluster = 2}>(p);
}
