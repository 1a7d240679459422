// SPDX-License-Identifier: Apache-2.0
// `gemm_sm90`: the contraction kernel of sm_90a. Persistent CTAs; one thread loads, warpgroups
// multiply; operands that no tensor map describes are copied by all threads of warpgroup 0, in the
// same layout (pipeline/cp_async_load.cuh):
//
//   warpgroup 0, warp 0: produce()   a ring of stages, each a tile of A and one or two of B
//   its warp 1: zero_fill_k_tails()        ragged terms alone: zeros behind a group's last term
//   the other warpgroups: consume()  cooperative ones take 64 or 128 rows of one tile each,
//                                    ping-pong ones a tile each, in turns
//
// The ring goes on from tile to tile, so that the loads of the next tile run while the epilogue of
// this one does; with ping-pong so do its products.
//
// With cluster_k a CTA has one tile, of which a cluster shares K. When its products are done the
// warpgroups send each other CTA the sums of its share of the rows, leave those of their own where
// the ring was, and all threads add them over the cluster (epilogue/cluster_split_k.cuh). Small
// ones are two to an SM: those of the next kernel load their weights while these end. Large ones,
// one to an SM, are for long streams of weights.
//
// Barriers (s: a stage; parities as the ring's position says):
//   full[s]   1 arrival: the CTA's own producer, which expects a stage's bytes; the copies deliver
//             them. With copies by threads 4 more, one of each warp that copies, when its own have
//             landed and its proxy fence is done; and not that one if there are no others. Where
//             foreign terms are cleared, the producer's arrival is that of those who clear
//             (landed[s], pipeline/k_tail.cuh). Waited for by every thread that multiplies the
//             stage, parity 0 first.
//   empty[s]  4 arrivals, one a warp, of each warpgroup that multiplies the stage, in each CTA that
//             this CTA's copies write to. Waited for by the producer, parity 1 first, which falls
//             through.
//   turn[w]   ping-pong: 4 arrivals, one of each warp of the other warpgroup when it has issued its
//             last product. Waited for by warpgroup w before a tile; the first turn of warpgroup 0
//             falls through. So a warpgroup meets full[s] only when the phase before the one that
//             it waits for is complete.
//   sums      clusters along K: 1 arrival, thread 0's, which expects what the other CTAs send.
//             Waited for by all threads before they add, phase 0.
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
struct GemmSm90Types {
  static constexpr int kBlockK = kConfig.block_k();
  static constexpr int kSums = kConfig.num_accumulators();
  static constexpr int kFragM = kConfig.warpgroup_m() / 64;
  static constexpr int kFragN = kConfig.block_n;
  static constexpr bool kPingPong = kConfig.ping_pong;
  static_assert(kConfig.warpgroup_m() % 64 == 0, "a warpgroup multiplies fragments of 64 rows");
  static_assert(!kPingPong || kConfig.consumers == 2, "two warpgroups take turns");
  // Ragged groups without terms and rows of no group take steps of zeros (`zero_k_tile`).
  static constexpr bool kZeroKTiles = kConfig.ragged != Ragged::kNone && kConfig.k.scale == 0 &&
                                      kConfig.k.size != 0 && kConfig.k_slices() == 1 &&
                                      !kConfig.uses_cp_async();
  // Other sums that may be empty start from zeros; else the first product overwrites.
  static constexpr bool kMayHaveNoKTile =
      kConfig.k.scale != 0 || kConfig.k.size == 0 ||
      (kConfig.ragged != Ragged::kNone && !kZeroKTiles) ||
      kConfig.k_outer * ((kConfig.k.size + kBlockK - 1) / kBlockK) < kConfig.k_slices();
  static constexpr bool kLoadsWeightsEarly =
      kConfig.ragged == Ragged::kNone &&
      (kConfig.a.weight || kConfig.b.weight || (kConfig.dual && kConfig.b2.weight));

  // Two CTAs share an SM: the next kernel's find their places when this one's wait ends, and their
  // weights would stand before this one's copies. Few CTAs with few steps leave the next kernel's
  // SMs of their own (512x512, 32 rows, 32 CTAs: 2.1 us, let in late 2.8).
  static constexpr bool kTriggersLate = kConfig.ctas_per_sm > 1;
  static constexpr bool kFitsPipeline =
      kConfig.k.size * kConfig.k_outer <= i64{kBlockK} * kConfig.stages * kConfig.k_slices();
  static constexpr u32 kSmallGrid = 64;

  // Which tile is next takes all lanes of a warp, the producer's too.
  static constexpr bool kWarpSchedules = kConfig.ragged == Ragged::kMGrouped;

  // Registers that the producer's threads keep. An SM's 65,536 over 384 threads are 168 each.
  static constexpr bool kCpAsync = kConfig.uses_cp_async();
  // Warps that load: all; one for stationary operands and one for the others; one.
  static constexpr u32 kLoadWarps = kCpAsync ? 4 : kLoadsWeightsEarly ? 2 : 1;
  // Warps that copy clear what tensor copies bring beside theirs.
  static constexpr bool kZeroFillWarp = kConfig.zero_fills_k_tails() && !kCpAsync;
  static_assert(!kZeroFillWarp || kLoadWarps == 1, "warp 1 is free to clear");
  static constexpr int kProducerRegisters = kCpAsync ? 72 : 40;
  static constexpr int kConsumerRegisters = kCpAsync ? 216 : 232;

  using Position = PipelineState<kConfig.stages>;
  using Accumulators = float[kSums][kFragM][kFragN / 2];
};

// What makes results of a tile's sums: where they lie, or turned into rows.
template <const GemmSm90Config& kConfig, class Epilogue, bool kInRegisters>
struct EpilogueOf {
  using Type = StagedEpilogue<kConfig, Epilogue>;
};
template <const GemmSm90Config& kConfig, class Epilogue>
struct EpilogueOf<kConfig, Epilogue, true> {
  using Type = RegisterEpilogue<kConfig, Epilogue>;
};

template <const GemmSm90Config& kConfig>
CATENARY_DEVICE u32 order_barrier(u32 smem, u32 warpgroup) {
  return smem + kConfig.barrier_offset() + 8 * (2 * kConfig.stages + warpgroup);
}

// How many tiles this launch has room for, those of one cluster counted once.
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

// The live tiles of this cluster, one after the other: `act` gets each with its steps.
template <const GemmSm90Config& kConfig, class P, class Act>
CATENARY_DEVICE void for_each_tile(const P& params, Act act) {
  const u32 count = num_tiles<kConfig>(params);
  const u32 stride = gridDim.x / kConfig.cluster_ctas();
  MGroupedScheduler<kConfig> walk;
  KGroupedRange<kConfig> terms;
#pragma unroll 1
  for (u32 index = blockIdx.x / kConfig.cluster_ctas(); index < count; index += stride) {
    WorkTile work = find_work_tile<kConfig>(
        params, index, [&](u32 tile, u32 tiles_m, u32 tiles_n, i64 m, WorkTile& found) {
          if constexpr (GemmSm90Types<kConfig>::kWarpSchedules) {
            walk.find(params, tile, tiles_n, m, found);
          } else {
            swizzle_tile<kConfig>(tile, tiles_m, tiles_n, found);
          }
        });
    if (!work.live) continue;
    if constexpr (kConfig.ragged == Ragged::kKGrouped) terms.find(params, work);
    if constexpr (GemmSm90Types<kConfig>::kZeroKTiles) zero_k_tile<kConfig>(work);
    act(work, k_tile_range<kConfig>(work));
  }
}

template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void load_k_tile(const P& params, const WorkTile& work, const KTileRange& steps,
                                 i64 step, u32 smem, u32 rank, u32 stage, u32 arrival,
                                 Copies copies) {
  constexpr i32 kBlockK = kConfig.block_k();
  const auto [k, o] = k_tile_coord<kConfig>(work, steps, step);
  const i32 m = static_cast<i32>(work.m0 + rank * kConfig.block_m);
  const i32 n = static_cast<i32>(work.n0);
  const u32 a = smem + stage * kConfig.stage_bytes();
  const u32 b = a + kConfig.tile_a_bytes();
  if constexpr (!kConfig.a.by_cp_async) {
    if (copies.of(kConfig.a.weight)) {
      tma_load_tile<kConfig.a, kConfig.block_m, kBlockK, 1>(params, work, 0, m, k, o, a, arrival);
    }
  }
  if constexpr (!kConfig.b.by_cp_async) {
    if (copies.of(kConfig.b.weight)) {
      tma_load_tile<kConfig.b, kConfig.block_n, kBlockK, kConfig.cluster_m>(params, work, rank, n,
                                                                            k, o, b, arrival);
    }
  }
  if constexpr (kConfig.dual && !kConfig.b2.by_cp_async) {
    if (copies.of(kConfig.b2.weight)) {
      tma_load_tile<kConfig.b2, kConfig.block_n, kBlockK, kConfig.cluster_m>(
          params, work, rank, n, k, o, b + kConfig.tile_b_bytes(), arrival);
    }
  }
}

// The stage is free, here and in the other CTA, and `arrival` expects its bytes. Copies of another
// thread or of the other CTA may land before that: the count is then below zero for a while, and
// the phase stays open for want of this arrival.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE void acquire_stage(u32 smem, const typename GemmSm90Types<kConfig>::Position& at,
                                   u32 arrival, bool expects) {
  const u32 empty = empty_barrier<kConfig>(smem, at.stage);
  // Of this CTA's scope, also where the other CTA arrives: this thread goes on to copies alone, it
  // reads nothing that others wrote. At cluster scope each wait would empty L1 (CCTL.IVALL).
  mbarrier_wait(empty, at.parity ^ 1);
  if constexpr (kConfig.tma_bytes() > 0) {
    if (!expects || (kConfig.uses_cp_async() && threadIdx.x != 0)) return;
    mbarrier_arrive_expect_tx(arrival, kConfig.tma_bytes());
  }
}

// One thread loads, or where an operand is stationary two: its copies wait for no kernel, and those
// of the others for the dependency alone, not behind a ring of W that all SMs ask for.
//
// Where threads copy, all of the warpgroup do, and thread 0 starts the tensor copies: those of
// stationary operands for the first stages before the dependency wait, the others behind it: the
// first tile takes `early` rounds more than it has steps. One text for all rounds compiles faster.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void produce(const P& params, u32 smem, u32 rank, Copies mine) {
  using T = GemmSm90Types<kConfig>;
  constexpr bool kEarlyRounds = T::kLoadsWeightsEarly && T::kCpAsync;
  typename T::Position at;
  CpAsyncLoader<kConfig> copied;
  bool waited = !kEarlyRounds && mine.others;
  if (waited) griddepcontrol_wait();
  for_each_tile<kConfig>(params, [&](const WorkTile& work, const KTileRange& steps) {
    if (T::kWarpSchedules && !T::kCpAsync && threadIdx.x != 0) return;
    const i64 count = steps.end - steps.begin;
    i64 early = 0;
    if (kEarlyRounds && !waited) early = count < kConfig.stages ? count : kConfig.stages;
#pragma unroll 1
    for (i64 round = 0; round < count + early; ++round) {
      const Copies copies{mine.w_is_weight && (round < early || round >= 2 * early),
                          mine.others && round >= early};
      if (kEarlyRounds && !waited && copies.others) {
        griddepcontrol_wait();
        waited = true;
      }
      const i64 step = round < early ? round : round - early;
      // The first tile that has steps begins with stage 0.
      const bool opens = !kEarlyRounds || copies.w_is_weight;
      const u32 stage = opens ? at.stage : static_cast<u32>(step);
      const u32 arrival = load_barrier<kConfig>(smem, stage, steps, steps.begin + step);
      if (opens) {
        acquire_stage<kConfig>(smem, at, arrival, copies.w_is_weight);
        at.advance();
      }
      if (!T::kCpAsync || threadIdx.x == 0)
        load_k_tile<kConfig>(params, work, steps, steps.begin + step, smem, rank, stage, arrival,
                             copies);
      copied.start(params, work, steps, steps.begin + step, smem, stage, copies);
      if constexpr (T::kTriggersLate) {
        const bool last = round + 1 == count + early && copies.others;
        if (last && pdl_trigger<kConfig>(count) == PdlTrigger::kLastLoad)
          griddepcontrol_launch_dependents();
      }
    }
  });
  copied.finish_all(smem);
  if (!waited) griddepcontrol_wait();
}

// This warp has read the stage: one arrival here, and one in the other CTA, which wrote a part.
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

// All steps of one tile. One group of products stays in flight: a stage is released when the next
// one's products have been issued and its own have been waited for.
// `meanwhile` runs beside the last products.
template <const GemmSm90Config& kConfig, class Meanwhile>
CATENARY_DEVICE void multiply(typename GemmSm90Types<kConfig>::Accumulators& d, u32 smem,
                              u32 warpgroup, const KTileRange& range,
                              typename GemmSm90Types<kConfig>::Position& at, Meanwhile meanwhile) {
  using T = GemmSm90Types<kConfig>;
  const u32 steps = static_cast<u32>(range.end - range.begin);
  const u32 row = T::kPingPong ? 0 : warpgroup * kConfig.warpgroup_m();
  // Behind the products, for empty sums alone, it would be cheaper, but tiles spill (48 to 900
  // bytes).
  if constexpr (T::kMayHaveNoKTile) clear_accumulators(d);
  u32 previous = 0;
#pragma unroll 1
  for (u32 step = 0; step < steps; ++step) {
    const u32 stage = smem + at.stage * kConfig.stage_bytes();
    mbarrier_wait(full_barrier<kConfig>(smem, at.stage), at.parity);
    if constexpr (T::kTriggersLate) {
      if (step + 1 == kConfig.stages && pdl_trigger<kConfig>(steps) == PdlTrigger::kLanded) {
        griddepcontrol_launch_dependents();
      }
    }
    wgmma_fence();
    mma_k_tile<kConfig>(d, stage, row, T::kMayHaveNoKTile || step != 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (step != 0) release_stage<kConfig>(smem, previous);
    previous = at.stage;
    at.advance();
  }
  if constexpr (T::kPingPong) {
    // Without a step nothing has brought the lanes together since they waited for this turn: one
    // left behind would meet that phase's parity again when two more turns have been given.
    if constexpr (T::kMayHaveNoKTile) warp_barrier();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(order_barrier<kConfig>(smem, warpgroup ^ 1));
  }
  meanwhile();
  wgmma_wait<0>();
#pragma unroll
  for (int s = 0; s < T::kSums; ++s) {
#pragma unroll
    for (int f = 0; f < T::kFragM; ++f) wgmma_pin(d[s][f]);
  }
  if (!T::kMayHaveNoKTile || steps != 0) release_stage<kConfig>(smem, previous);
}

// One consumer warpgroup of persistent CTAs.
template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void consume(const P& params, u32 smem, u32 rank, u32 warpgroup) {
  using T = GemmSm90Types<kConfig>;
  using OnSums = typename EpilogueOf<kConfig, Epilogue, kConfig.register_epilogue>::Type;
  const u32 warp = threadIdx.x / 32 - 4;  // among the consumers
  const u32 area = smem + kConfig.staging_offset() + warp * kConfig.staging_bytes();
  const u32 row = rank * kConfig.block_m + warp % 4 * 16 +
                  (T::kPingPong ? 0 : warpgroup * kConfig.warpgroup_m());
  const i64 n = extent_at_launch(kConfig.n, params);
  typename T::Position at;
  u32 number = 0;            // of the tile
  u32 turn = warpgroup ^ 1;  // parity of the next turn's phase
  griddepcontrol_wait();
  for_each_tile<kConfig>(params, [&](const WorkTile& work, const KTileRange& range) {
    if constexpr (T::kPingPong) {
      const u32 steps = static_cast<u32>(range.end - range.begin);
      if ((number++ & 1) != warpgroup) return at.skip(steps);
    }
    typename OnSums::Ahead ahead;
    if constexpr (OnSums::kPrefetchTile) OnSums::prefetch(params, work, n, ahead);
    if constexpr (T::kPingPong) {
      mbarrier_wait(order_barrier<kConfig>(smem, warpgroup), turn);
      turn ^= 1;
    }
    typename T::Accumulators d;
    multiply<kConfig>(d, smem, warpgroup, range, at, [&] {
      if constexpr (!OnSums::kPrefetchTile) OnSums::prefetch(params, work, n, ahead);
    });
    OnSums::run(params, area, work, work.m0 + row, n, d, ahead);
  });
  OnSums::finish();
}

// One consumer warpgroup of a cluster along K: its part of the tile's sums; those of other CTAs'
// rows are sent to them. False: there is no tile.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE bool mma_one_tile(const P& params, u32 smem, u32 warpgroup, u32 row,
                                  typename GemmSm90Types<kConfig>::Accumulators& d) {
  static_assert(!kConfig.ping_pong && kConfig.cluster_m == 1, "one tile, its cluster along K");
  static_assert(kConfig.ragged == Ragged::kNone, "reduce_and_store() finds its tile by number");
  typename GemmSm90Types<kConfig>::Position at;
  // The other CTAs' barriers exist before anything is sent to them.
  if constexpr (kConfig.cluster_k > 1) cluster_wait();
  griddepcontrol_wait();
  bool live = false;
  for_each_tile<kConfig>(params, [&](const WorkTile&, const KTileRange& range) {
    live = true;
    multiply<kConfig>(d, smem, warpgroup, range, at, [] {});
    if constexpr (kConfig.cluster_k > 1) send_partials<kConfig>(smem, d, row);
  });
  return live;
}

template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void init_barriers(const P& params, u32 smem) {
  constexpr u32 kReaders = kConfig.ping_pong ? 1 : kConfig.consumers;
  constexpr u32 kLoadWarps = (kConfig.tma_bytes() > 0 ? 1 : 0) + (kConfig.uses_cp_async() ? 4 : 0);
#pragma unroll 1
  for (u32 stage = 0; stage < kConfig.stages; ++stage) {
    mbarrier_init(full_barrier<kConfig>(smem, stage), kLoadWarps);
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
  // Without tiles or terms a map may be empty.
  if (num_tiles<kConfig>(params) > 0 && extent_at_launch(kConfig.k, params) > 0) {
    prefetch_descriptors<kConfig>(params);
  }
}

// The warp beside the producer, behind the dependency wait: a group's ends are read.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void zero_fill_tiles(const P& params, u32 smem) {
  typename GemmSm90Types<kConfig>::Position at;
  u32 parities = 0;
  for_each_tile<kConfig>(params, [&](const WorkTile&, const KTileRange& range) {
    zero_fill_k_tails<kConfig>(smem, range, at, parities);
  });
}

// Warpgroup 0 of a CTA.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void run_producer(const P& params, u32 smem, u32 rank, u32 warp) {
  using T = GemmSm90Types<kConfig>;
  if (warp < T::kLoadWarps && (T::kCpAsync || T::kWarpSchedules || elect_one())) {
    constexpr bool kAll = T::kLoadWarps != 2;
    produce<kConfig>(params, smem, rank, {kAll || warp == 0, kAll || warp == 1});
  } else {
    griddepcontrol_wait();
    if constexpr (T::kZeroFillWarp) {
      if (warp == 1) zero_fill_tiles<kConfig>(params, smem);
    }
  }
  warp_barrier();
}

// A CTA with one tile, or a part of its K: all threads work on the epilogue, so that no registers
// move.
template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void run_one_tile(const P& params, u32 smem, u32 warp) {
  using End = ClusterEpilogue<kConfig, Epilogue>;
  typename GemmSm90Types<kConfig>::Accumulators d;
  const u32 warpgroup = warp / 4 - 1;
  const u32 row = warpgroup * kConfig.warpgroup_m() + warp % 4 * 16;
  const WorkTile work = find_work_tile<kConfig>(params, blockIdx.x / kConfig.cluster_k);
  End end;
  // Warps that start copies read their part when those are under way.
  constexpr u32 kLoadWarps = GemmSm90Types<kConfig>::kLoadWarps;
  if (warp >= kLoadWarps) end.begin(params, work);
  bool live = false;
  if (warp < 4) {
    run_producer<kConfig>(params, smem, 0, warp);
    if (warp < kLoadWarps) end.begin(params, work);
    if constexpr (kConfig.cluster_k > 1) cluster_wait();
  } else {
    live = mma_one_tile<kConfig>(params, smem, warpgroup, row, d);
  }
  // No copy is on its way. A wait for products is one for those of the executing threads alone (PTX
  // ISA 9.7.15.7): all warps of the CTA arrive, the consumers' when theirs have ended.
  cta_barrier();
  if (live) store_partials<kConfig>(smem, d, row);
  reduce_and_store<kConfig, Epilogue>(params, smem, work, end);
}

template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void gemm_sm90(const P& params) {
  using T = GemmSm90Types<kConfig>;
  const u32 smem = dynamic_smem();
  const u32 warp = warp_index();
  const u32 rank = kConfig.cluster_m == 1 ? 0 : cluster_rank();
  if (!T::kTriggersLate || (T::kFitsPipeline && gridDim.x <= T::kSmallGrid))
    griddepcontrol_launch_dependents();
  if (threadIdx.x == 0) init_barriers<kConfig>(params, smem);
  // The barriers exist, in all CTAs, before anybody uses them; along K the consumers wait for that
  // later. Relaxed: fence.mbarrier_init releases all that there is (PTX ISA 9.7.13.4).
  if constexpr (kConfig.cluster_ctas() > 1) cluster_arrive_relaxed();
  if constexpr (kConfig.cluster_m == 1) {
    cta_barrier();
  } else {
    cluster_wait();
  }
  if constexpr (kConfig.cluster_k != 0) {
    run_one_tile<kConfig, Epilogue>(params, smem, warp);
  } else {
    // The producer's registers go to the consumers.
    constexpr bool kMoveRegisters = kConfig.consumers == 2;
    if (warp < 4) {
      if constexpr (kMoveRegisters) set_max_registers_decrease<T::kProducerRegisters>();
      run_producer<kConfig>(params, smem, rank, warp);
    } else {
      if constexpr (kMoveRegisters) set_max_registers_increase<T::kConsumerRegisters>();
      consume<kConfig, Epilogue>(params, smem, rank, warp / 4 - 1);
    }
  }
  // No CTA leaves while the other may still write to it or arrive at its barriers. Relaxed: nothing
  // is handed over, and a release would wait for the last stores to reach the whole GPU.
  if constexpr (kConfig.cluster_m != 1) {
    cluster_arrive_relaxed();
    cluster_wait();
  }
}

}  // namespace catenary
