// SPDX-License-Identifier: Apache-2.0
// `gemm_sm90`: the contraction kernel of sm_90a. Warp-specialised: warpgroup 0 loads, the other one
// or two warpgroups issue wgmma and run the epilogue. docs/kernels/gemm_sm90.md describes it.
//
//   persistent (cluster_k == 0)        a CTA computes several tiles; the pipeline continues from
//                                      tile to tile. Cooperative: the mma warpgroups share the rows
//                                      of a tile. Ping-pong: they take alternate tiles.
//   cluster split-K (cluster_k > 0)    a CTA has one tile, or one k-slice of it; the CTAs of a
//                                      cluster reduce their partials
//                                      (epilogue/cluster_split_k.cuh).
//
// Pipelines (producer -> consumer). s: a stage, w: an mma warpgroup. "First phase": the phase of
// the first wait; a wait for phase 1 of a new barrier falls through.
//
//   barrier      arrivals in a phase                                     waited for by  first phase
//   full[s]      TMA: 1, the load warp's arrive.expect_tx; the loads     mma warpgroups 0
//                deliver the bytes
//                cp.async: 4, one of each load warp after its proxy
//                fence; +1 of thread 0 if TMA loads an operand
//                K tail: the zero-fill warp (cp.async: thread 0)
//                arrives in place of the TMA arrival
//   empty[s]     4 (one of each warp) of each mma warpgroup that reads   load warps     1
//                the stage, in each CTA that this CTA's loads write to
//   tma_full[s]  1, the load warp's arrive.expect_tx; only for K tails   zero-fill warp 0
//                (pipeline/k_tail.cuh)                                   cp.async warps
//   order[w]     ping-pong: 4, one of each warp of the other warpgroup   warpgroup w    w == 0: 1
//                when it has issued the last MMA of its tile                            w == 1: 0
//   partials     cluster split-K: 1, thread 0's arrive.expect_tx;        all threads    0, only
//                st.async of the other CTAs delivers the bytes
//
// order[w] also makes the phases of full[s] unambiguous: a warpgroup waits for a phase only when
// the phase before it is complete.
//
// Per-role timeline (steady state)
//
//   TMA load warp (warp 0; warps 0 and 1 if an operand is a weight: weights, activations)
//     once: dependency wait, unless it loads weights
//     for each k-tile:  acquire empty[s] -> arrive.expect_tx full[s] (warp 0) -> TMA A, B, B2
//   cp.async load warps (warps 0-3, instead of the TMA load warps)
//     once: TMA of weights for the first stages; dependency wait
//     for each k-tile:  acquire empty[s] -> thread 0: expect_tx, TMA of the other operands
//                       -> cp.async, commit -> wait for the oldest k-tile in flight -> rotate or
//                       round it, zero-fill its tail -> proxy fence -> arrive full[oldest]
//   zero-fill warp (warp 1; K-grouped without cp.async)
//     for each K tail:  wait tma_full[s] -> zero-fill -> proxy fence -> arrive full[s]
//   mma warpgroups, cooperative
//     for each k-tile:  wait full[s] -> issue MMAs, commit -> wait until only they are in flight
//                       -> release empty[previous s]
//     for each tile:    wait for the last MMAs, release -> epilogue -> stores
//   mma warpgroup w, ping-pong
//     for each second tile:  wait order[w] -> k-tiles as above -> arrive order[other w] -> wait for
//                            the last MMAs, release -> epilogue -> stores; skip the stages of the
//                            other tile
//   all warps, cluster split-K
//     mma warpgroups: k-tiles as above -> send partials (st.async) -> CTA barrier -> store own
//     partials; all: CTA barrier -> wait partials -> reduce -> epilogue -> stores
#pragma once

#include "epilogue/cluster_split_k.cuh"
#include "epilogue/ops.cuh"
#include "epilogue/registers.cuh"
#include "epilogue/staged.cuh"
#include "pipeline/cp_async_load.cuh"
#include "pipeline/k_tail.cuh"
#include "pipeline/k_tiles.cuh"
#include "pipeline/mma.cuh"
#include "pipeline/pipeline.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"
#include "scheduler/grouped.cuh"

namespace catenary {

template <const GemmSm90Config& kConfig>
struct GemmSm90Traits {
  static constexpr int kBlockK = kConfig.block_k();
  static constexpr int kAccumulators = kConfig.num_accumulators();
  static constexpr int kFragments = kConfig.warpgroup_m() / 64;  // of 64 rows
  static constexpr bool kPingPong = kConfig.ping_pong;
  static_assert(kConfig.warpgroup_m() % 64 == 0, "wgmma has 64 rows");
  static_assert(!kPingPong || kConfig.consumers == 2, "ping-pong has two mma warpgroups");
  using Accumulators = float[kAccumulators][kFragments][kConfig.block_n / 2];
  using State = PipelineState<kConfig.stages>;

  // Empty tiles (a group without k, rows of no group) get one k-tile of zeros (add_zero_k_tile).
  static constexpr bool kAddsZeroKTile = kConfig.ragged != Ragged::kNone && kConfig.k.scale == 0 &&
                                         kConfig.k.size != 0 && kConfig.k_slices() == 1 &&
                                         !kConfig.uses_cp_async();
  // Other tiles that may have no k-tile start from cleared accumulators. Else the first MMA of a
  // tile overwrites them.
  static constexpr bool kMayHaveNoKTile =
      kConfig.k.scale != 0 || kConfig.k.size == 0 ||
      (kConfig.ragged != Ragged::kNone && !kAddsZeroKTile) ||
      kConfig.k_outer * ((kConfig.k.size + kBlockK - 1) / kBlockK) < kConfig.k_slices();
  static constexpr bool kLoadsWeightsEarly =
      kConfig.ragged == Ragged::kNone &&
      (kConfig.a.weight || kConfig.b.weight || (kConfig.dual && kConfig.b2.weight));

  // Where two CTAs share an SM, the next kernel's weight loads would run before this one's own: it
  // is triggered late. A grid of few CTAs with few k-tiles leaves the next kernel other SMs
  // (RESULTS sm90-2).
  static constexpr bool kTriggersLate = kConfig.ctas_per_sm > 1;
  static constexpr bool kFitsPipeline =
      kConfig.k.size * kConfig.k_outer <= i64{kBlockK} * kConfig.stages * kConfig.k_slices();
  static constexpr u32 kSmallGrid = 64;

  // All lanes of a warp find the next tile together (MGroupedScheduler), the load warp's too.
  static constexpr bool kWarpSchedules = kConfig.ragged == Ragged::kMGrouped;

  static constexpr bool kCpAsync = kConfig.uses_cp_async();
  // Load warps: all four; one for weights and one for activations; one.
  static constexpr u32 kLoadWarps = kCpAsync ? 4 : kLoadsWeightsEarly ? 2 : 1;
  // The cp.async load warps zero-fill K tails themselves.
  static constexpr bool kZeroFillWarp = kConfig.zero_fills_k_tails() && !kCpAsync;
  static_assert(!kZeroFillWarp || kLoadWarps == 1, "warp 1 is free for zero-fill");
  // Registers after setmaxnreg. Three warpgroups start with 168: 65,536 / 384 threads.
  static constexpr int kProducerRegisters = kCpAsync ? 72 : 40;
  static constexpr int kConsumerRegisters = kCpAsync ? 216 : 232;
};

template <const GemmSm90Config& kConfig, class Epilogue, bool kInRegisters>
struct TileEpilogueOf {
  using Type = StagedEpilogue<kConfig, Epilogue>;
};
template <const GemmSm90Config& kConfig, class Epilogue>
struct TileEpilogueOf<kConfig, Epilogue, true> {
  using Type = RegisterEpilogue<kConfig, Epilogue>;
};

template <const GemmSm90Config& kConfig>
CATENARY_DEVICE u32 order_barrier(u32 smem, u32 warpgroup) {
  return smem + kConfig.barrier_offset() + 8 * (2 * kConfig.stages + warpgroup);
}

// An upper bound of the tiles of this launch; the tiles of one cluster count once.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE u32 num_tiles(const P& params) {
  const i64 m = extent_at_launch(kConfig.m, params);
  const i64 n = extent_at_launch(kConfig.n, params);
  i64 count = (m + kConfig.cluster_tile_m() - 1) / kConfig.cluster_tile_m();
  if (kConfig.ragged == Ragged::kMGrouped && m > 0) count += kConfig.num_groups + 1;
  count *= (n + kConfig.block_n - 1) / kConfig.block_n * kConfig.split_k;
#pragma unroll
  for (int d = kMaxDims - kConfig.batch_rank; d < kMaxDims; ++d) {
    count *= extent_at_launch(kConfig.batch.at[d], params);
  }
  return static_cast<u32>(count);
}

// Calls visit(work, range) for each valid tile of this cluster, in order.
template <const GemmSm90Config& kConfig, class P, class Visit>
CATENARY_DEVICE void for_each_tile(const P& params, Visit visit) {
  const u32 count = num_tiles<kConfig>(params);
  const u32 stride = gridDim.x / kConfig.cluster_ctas();
  MGroupedScheduler<kConfig> m_groups;
  KGroupedRange<kConfig> k_groups;
#pragma unroll 1
  for (u32 index = blockIdx.x / kConfig.cluster_ctas(); index < count; index += stride) {
    WorkTile work = find_work_tile<kConfig>(
        params, index, [&](u32 tile, u32 tiles_m, u32 tiles_n, i64 m, WorkTile& found) {
          if constexpr (GemmSm90Traits<kConfig>::kWarpSchedules) {
            m_groups.find(params, tile, tiles_n, m, found);
          } else {
            swizzle_tile<kConfig>(tile, tiles_m, tiles_n, found);
          }
        });
    if (!work.valid) continue;
    if constexpr (kConfig.ragged == Ragged::kKGrouped) k_groups.find(params, work);
    if constexpr (GemmSm90Traits<kConfig>::kAddsZeroKTile) add_zero_k_tile<kConfig>(work);
    visit(work, k_tile_range<kConfig>(work));
  }
}

// Issues the TMA loads of one k-tile.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void tma_load_k_tile(const P& params, const WorkTile& work, const KTileRange& range,
                                     i64 k_tile, u32 smem, u32 rank, u32 stage, u32 barrier,
                                     LoadMask mask) {
  constexpr i32 kBlockK = kConfig.block_k();
  const auto [k, o] = k_tile_coord<kConfig>(work, range, k_tile);
  const i32 m = static_cast<i32>(work.m0 + rank * kConfig.block_m);
  const i32 n = static_cast<i32>(work.n0);
  const u32 a = smem + stage * kConfig.stage_bytes();
  const u32 b = a + kConfig.tile_a_bytes();
  if constexpr (!kConfig.a.by_cp_async) {
    if (mask.includes(kConfig.a.weight)) {
      tma_load_tile<kConfig.a, kConfig.block_m, kBlockK, 1>(params, work, 0, m, k, o, a, barrier);
    }
  }
  if constexpr (!kConfig.b.by_cp_async) {
    if (mask.includes(kConfig.b.weight)) {
      tma_load_tile<kConfig.b, kConfig.block_n, kBlockK, kConfig.cluster_m>(params, work, rank, n,
                                                                            k, o, b, barrier);
    }
  }
  if constexpr (kConfig.dual && !kConfig.b2.by_cp_async) {
    if (mask.includes(kConfig.b2.weight)) {
      tma_load_tile<kConfig.b2, kConfig.block_n, kBlockK, kConfig.cluster_m>(
          params, work, rank, n, k, o, b + kConfig.tile_b_bytes(), barrier);
    }
  }
}

// Waits until the stage is free in every CTA that this CTA loads into, and expects its bytes at
// `barrier`. Loads of the other load warp or of the other CTA may arrive before: the transaction
// count is then negative for a while, and the phase stays open because this arrival is pending.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE void acquire_stage(u32 smem, const typename GemmSm90Traits<kConfig>::State& state,
                                   u32 barrier, bool expects) {
  const u32 empty = empty_barrier<kConfig>(smem, state.stage);
  // At CTA scope, also where the other CTA arrives: this thread only issues loads after it, and
  // reads nothing that other threads wrote. A wait at cluster scope invalidates L1 (CCTL.IVALL).
  mbarrier_wait(empty, state.phase ^ 1);
  if constexpr (kConfig.tma_bytes() > 0) {
    if (!expects || (kConfig.uses_cp_async() && threadIdx.x != 0)) return;
    mbarrier_arrive_expect_tx(barrier, kConfig.tma_bytes());
  }
}

// A load warp. TMA: one thread loads. If an operand is a weight there are two load warps: the loads
// of weights do not wait for the previous kernel, and the loads of activations do not queue after
// a whole pipeline of weight loads (RESULTS sm90-8).
//
// cp.async: all threads of the four warps load, and thread 0 issues the TMA loads. The weights of
// the first `early` stages are loaded before the dependency wait, their activations after it: the
// first tile takes `early` more iterations than it has k-tiles. One loop for both compiles faster.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void run_load_warp(const P& params, u32 smem, u32 rank, LoadMask loads) {
  using T = GemmSm90Traits<kConfig>;
  constexpr bool kEarlyWeights = T::kLoadsWeightsEarly && T::kCpAsync;
  typename T::State state;
  CpAsyncLoader<kConfig> cp_async;
  bool waited = !kEarlyWeights && loads.activations;
  if (waited) griddepcontrol_wait();
  for_each_tile<kConfig>(params, [&](const WorkTile& work, const KTileRange& range) {
    if (T::kWarpSchedules && !T::kCpAsync && threadIdx.x != 0) return;
    const i64 count = range.end - range.begin;
    i64 early = 0;
    if (kEarlyWeights && !waited) early = count < kConfig.stages ? count : kConfig.stages;
#pragma unroll 1
    for (i64 i = 0; i < count + early; ++i) {
      const LoadMask mask{loads.weights && (i < early || i >= 2 * early),
                          loads.activations && i >= early};
      if (kEarlyWeights && !waited && mask.activations) {
        griddepcontrol_wait();
        waited = true;
      }
      const i64 k_tile = i < early ? i : i - early;
      // A k-tile whose weights were loaded early has its stage. The first tile that has k-tiles
      // starts at stage 0.
      const bool acquires = !kEarlyWeights || mask.weights;
      const u32 stage = acquires ? state.stage : static_cast<u32>(k_tile);
      const u32 barrier = load_barrier<kConfig>(smem, stage, range, range.begin + k_tile);
      if (acquires) {
        acquire_stage<kConfig>(smem, state, barrier, mask.weights);
        state.advance();
      }
      if (!T::kCpAsync || threadIdx.x == 0)
        tma_load_k_tile<kConfig>(params, work, range, range.begin + k_tile, smem, rank, stage,
                                 barrier, mask);
      cp_async.load_k_tile(params, work, range, range.begin + k_tile, smem, stage, mask);
      if constexpr (T::kTriggersLate) {
        const bool last = i + 1 == count + early && mask.activations;
        if (last && pdl_trigger<kConfig>(count) == PdlTrigger::kLastLoad)
          griddepcontrol_launch_dependents();
      }
    }
  });
  cp_async.drain(smem);
  if (!waited) griddepcontrol_wait();
}

// Releases a stage that this warp has read: one arrival in each CTA of the M cluster, because each
// of them loads into it.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE void release_stage(u32 smem, u32 stage) {
  const u32 lane = threadIdx.x % 32;
  const u32 empty = empty_barrier<kConfig>(smem, stage);
  if constexpr (kConfig.cluster_m == 1) {
    if (lane == 0) mbarrier_arrive(empty);
  } else {
    if (lane < kConfig.cluster_m) mbarrier_release_remote(map_shared(empty, lane));
  }
}

// The mainloop of one tile. The MMAs of one k-tile stay in flight: a stage is released when the
// MMAs of the next k-tile have been issued and its own have completed. overlap() runs beside the
// last MMAs.
template <const GemmSm90Config& kConfig, class Overlap>
CATENARY_DEVICE void mainloop(typename GemmSm90Traits<kConfig>::Accumulators& d, u32 smem,
                              u32 warpgroup, const KTileRange& range,
                              typename GemmSm90Traits<kConfig>::State& state, Overlap overlap) {
  using T = GemmSm90Traits<kConfig>;
  const u32 k_tiles = static_cast<u32>(range.end - range.begin);
  const u32 row = T::kPingPong ? 0 : warpgroup * kConfig.warpgroup_m();
  // After the loop, only for empty tiles, this would be cheaper, but then tiles spill (RESULTS
  // sm90-10).
  if constexpr (T::kMayHaveNoKTile) clear_accumulators(d);
  u32 previous = 0;
#pragma unroll 1
  for (u32 k_tile = 0; k_tile < k_tiles; ++k_tile) {
    const u32 stage = smem + state.stage * kConfig.stage_bytes();
    mbarrier_wait(full_barrier<kConfig>(smem, state.stage), state.phase);
    if constexpr (T::kTriggersLate) {
      if (k_tile + 1 == kConfig.stages &&
          pdl_trigger<kConfig>(k_tiles) == PdlTrigger::kFirstRoundArrived) {
        griddepcontrol_launch_dependents();
      }
    }
    wgmma_fence();
    mma_k_tile<kConfig>(d, stage, row, T::kMayHaveNoKTile || k_tile != 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (k_tile != 0) release_stage<kConfig>(smem, previous);
    previous = state.stage;
    state.advance();
  }
  if constexpr (T::kPingPong) {
    // Without a k-tile the lanes have not converged since they waited for order[warpgroup]. A lane
    // still waiting would miss its phase when the barrier has completed two more.
    if constexpr (T::kMayHaveNoKTile) warp_barrier();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(order_barrier<kConfig>(smem, warpgroup ^ 1));
  }
  overlap();
  wgmma_wait<0>();
#pragma unroll
  for (int s = 0; s < T::kAccumulators; ++s) {
#pragma unroll
    for (int f = 0; f < T::kFragments; ++f) wgmma_pin(d[s][f]);
  }
  if (!T::kMayHaveNoKTile || k_tiles != 0) release_stage<kConfig>(smem, previous);
}

// An mma warpgroup of a persistent CTA.
template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void run_mma_warpgroup(const P& params, u32 smem, u32 rank, u32 warpgroup) {
  using T = GemmSm90Traits<kConfig>;
  using TileEpilogue = typename TileEpilogueOf<kConfig, Epilogue, kConfig.register_epilogue>::Type;
  const u32 warp = threadIdx.x / 32 - 4;  // among the mma warpgroups
  const u32 staging = smem + kConfig.staging_offset() + warp * kConfig.staging_bytes();
  const u32 row = rank * kConfig.block_m + warp % 4 * 16 +
                  (T::kPingPong ? 0 : warpgroup * kConfig.warpgroup_m());
  const i64 n = extent_at_launch(kConfig.n, params);
  typename T::State state;
  u32 tile_number = 0;
  u32 order_phase = warpgroup ^ 1;
  griddepcontrol_wait();
  for_each_tile<kConfig>(params, [&](const WorkTile& work, const KTileRange& range) {
    if constexpr (T::kPingPong) {
      const u32 k_tiles = static_cast<u32>(range.end - range.begin);
      if ((tile_number++ & 1) != warpgroup) return state.advance(k_tiles);
    }
    typename TileEpilogue::PrefetchedColumns prefetched;
    if constexpr (TileEpilogue::kPrefetchTile) TileEpilogue::prefetch(params, work, n, prefetched);
    if constexpr (T::kPingPong) {
      mbarrier_wait(order_barrier<kConfig>(smem, warpgroup), order_phase);
      order_phase ^= 1;
    }
    typename T::Accumulators d;
    mainloop<kConfig>(d, smem, warpgroup, range, state, [&] {
      if constexpr (!TileEpilogue::kPrefetchTile)
        TileEpilogue::prefetch(params, work, n, prefetched);
    });
    TileEpilogue::run(params, staging, work, work.m0 + row, n, d, prefetched);
  });
  TileEpilogue::finish();
}

// An mma warpgroup of a one-tile CTA: its k-slice of the tile. Sends the partials of the rows that
// other CTAs reduce. Returns whether the CTA has a tile.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE bool mma_one_tile(const P& params, u32 smem, u32 warpgroup, u32 row,
                                  typename GemmSm90Traits<kConfig>::Accumulators& d) {
  static_assert(!kConfig.ping_pong && kConfig.cluster_m == 1,
                "one tile, cooperative, no multicast");
  static_assert(kConfig.ragged == Ragged::kNone, "reduce_and_store() finds its tile by number");
  typename GemmSm90Traits<kConfig>::State state;
  // The partials barriers of the other CTAs exist before anything is sent to them.
  if constexpr (kConfig.cluster_k > 1) cluster_wait();
  griddepcontrol_wait();
  bool has_tile = false;
  for_each_tile<kConfig>(params, [&](const WorkTile&, const KTileRange& range) {
    has_tile = true;
    mainloop<kConfig>(d, smem, warpgroup, range, state, [] {});
    if constexpr (kConfig.cluster_k > 1) send_partials<kConfig>(smem, d, row);
  });
  return has_tile;
}

template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void init_barriers(const P& params, u32 smem) {
  constexpr u32 kReaders = kConfig.ping_pong ? 1 : kConfig.consumers;
  constexpr u32 kFullArrivals =
      (kConfig.tma_bytes() > 0 ? 1 : 0) + (kConfig.uses_cp_async() ? 4 : 0);
#pragma unroll 1
  for (u32 stage = 0; stage < kConfig.stages; ++stage) {
    mbarrier_init(full_barrier<kConfig>(smem, stage), kFullArrivals);
    mbarrier_init(empty_barrier<kConfig>(smem, stage), 4 * kReaders * kConfig.cluster_m);
    if constexpr (kConfig.zero_fills_k_tails()) {
      mbarrier_init(tma_full_barrier<kConfig>(smem, stage), 1);
    }
  }
  if constexpr (kConfig.cluster_k > 1) {
    init_partials_barrier<kConfig>(smem);
  } else if constexpr (kConfig.ping_pong) {
    mbarrier_init(order_barrier<kConfig>(smem, 0), 4);
    mbarrier_init(order_barrier<kConfig>(smem, 1), 4);
  }
  fence_mbarrier_init();
  // The tensor map of an empty operand is not valid.
  if (num_tiles<kConfig>(params) > 0 && extent_at_launch(kConfig.k, params) > 0) {
    prefetch_descriptors<kConfig>(params);
  }
}

// The zero-fill warp. The dependency wait comes before it: group ends are read from device memory.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void run_zero_fill_warp(const P& params, u32 smem) {
  typename GemmSm90Traits<kConfig>::State state;
  u32 tma_full_phases = 0;
  for_each_tile<kConfig>(params, [&](const WorkTile&, const KTileRange& range) {
    zero_fill_k_tails<kConfig>(smem, range, state, tma_full_phases);
  });
}

// Warpgroup 0: the load warps, and the zero-fill warp.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void run_load_warpgroup(const P& params, u32 smem, u32 rank, u32 warp) {
  using T = GemmSm90Traits<kConfig>;
  if (warp < T::kLoadWarps && (T::kCpAsync || T::kWarpSchedules || elect_one())) {
    constexpr bool kAll = T::kLoadWarps != 2;
    run_load_warp<kConfig>(params, smem, rank, {kAll || warp == 0, kAll || warp == 1});
  } else {
    griddepcontrol_wait();
    if constexpr (T::kZeroFillWarp) {
      if (warp == 1) run_zero_fill_warp<kConfig>(params, smem);
    }
  }
  warp_barrier();
}

// A CTA with one tile, or one k-slice of it. All threads run the epilogue, so registers do not move
// between warpgroups.
template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void run_one_tile(const P& params, u32 smem, u32 warp) {
  typename GemmSm90Traits<kConfig>::Accumulators d;
  const u32 warpgroup = warp / 4 - 1;
  const u32 row = warpgroup * kConfig.warpgroup_m() + warp % 4 * 16;
  const WorkTile work = find_work_tile<kConfig>(params, blockIdx.x / kConfig.cluster_k);
  ClusterEpilogue<kConfig, Epilogue> epilogue;
  // Load warps issue their loads before they prefetch.
  constexpr u32 kLoadWarps = GemmSm90Traits<kConfig>::kLoadWarps;
  if (warp >= kLoadWarps) epilogue.prefetch(params, work);
  bool has_partials = false;
  if (warp < 4) {
    run_load_warpgroup<kConfig>(params, smem, 0, warp);
    if (warp < kLoadWarps) epilogue.prefetch(params, work);
    if constexpr (kConfig.cluster_k > 1) cluster_wait();
  } else {
    has_partials = mma_one_tile<kConfig>(params, smem, warpgroup, row, d);
  }
  // After this barrier no load or MMA uses the stages. A wait for wgmma covers only the MMAs of the
  // executing warp (PTX ISA 9.7.15.7): every warp arrives after its own.
  cta_barrier();
  if (has_partials) store_own_partials<kConfig>(smem, d, row);
  reduce_and_store<kConfig, Epilogue>(params, smem, work, epilogue);
}

template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void gemm_sm90(const P& params) {
  using T = GemmSm90Traits<kConfig>;
  const u32 smem = dynamic_smem();
  const u32 warp = warp_index();
  const u32 rank = kConfig.cluster_m == 1 ? 0 : cluster_rank();
  if (!T::kTriggersLate || (T::kFitsPipeline && gridDim.x <= T::kSmallGrid))
    griddepcontrol_launch_dependents();
  if (threadIdx.x == 0) init_barriers<kConfig>(params, smem);
  // No thread uses a barrier before it exists in all CTAs; in cluster split-K the mma warpgroups
  // wait for that later. Relaxed: fence.mbarrier_init releases the barriers (PTX ISA 9.7.13.4).
  if constexpr (kConfig.cluster_ctas() > 1) cluster_arrive_relaxed();
  if constexpr (kConfig.cluster_m == 1) {
    cta_barrier();
  } else {
    cluster_wait();
  }
  if constexpr (kConfig.cluster_k != 0) {
    run_one_tile<kConfig, Epilogue>(params, smem, warp);
  } else {
    // setmaxnreg moves registers of the load warpgroup to the mma warpgroups.
    constexpr bool kMoveRegisters = kConfig.consumers == 2;
    if (warp < 4) {
      if constexpr (kMoveRegisters) set_max_registers_decrease<T::kProducerRegisters>();
      run_load_warpgroup<kConfig>(params, smem, rank, warp);
    } else {
      if constexpr (kMoveRegisters) set_max_registers_increase<T::kConsumerRegisters>();
      run_mma_warpgroup<kConfig, Epilogue>(params, smem, rank, warp / 4 - 1);
    }
  }
  // No CTA exits while the other one may still load into it or arrive at its barriers. Relaxed: no
  // data is handed over, and a release waits until the last stores are visible to the whole GPU.
  if constexpr (kConfig.cluster_m != 1) {
    cluster_arrive_relaxed();
    cluster_wait();
  }
}

}  // namespace catenary
