// SPDX-License-Identifier: Apache-2.0
// What `gemm_sm90` derives from its config: the configs of its pipeline and epilogues, and
// constants that several roles share.
#pragma once

#include "epilogue/config.cuh"
#include "pipeline/pipeline.cuh"
#include "shared/gemm_sm90_config.h"

namespace catenary {

constexpr PipelineConfig pipeline_config(const GemmSm90Config& c) {
  const bool k_grouped = c.ragged.kind == Ragged::kKGrouped;
  const bool m_grouped = c.ragged.kind == Ragged::kMGrouped;
  PipelineConfig p;
  p.space = c.space;
  p.ragged = c.ragged;
  p.a = c.a;
  p.b = c.b;
  p.b2 = c.b2;
  p.dual = c.dual;
  p.segments = c.segments;
  for (i32 i = 0; i < kMaxSegments - 1; ++i) p.more[i] = c.more[i];
  p.more_k_tiles = c.more_k_tiles();
  p.uses_cp_async = c.uses_cp_async();
  p.stages = c.tile.stages;
  p.block_k = c.block_k();
  p.tile_m = c.tile.block_m;
  p.a_rows = c.a_box_rows();
  p.b_rows = c.tile.block_n;
  p.box_rows_a = c.box_rows_a();
  p.box_rows_b = c.box_rows_b();
  p.redirects_a = c.redirects_a();
  p.redirects_b = c.redirects_b();
  p.tile_a_bytes = c.tile_a_bytes();
  p.tile_b_bytes = c.tile_b_bytes();
  p.stage_bytes = c.stage_bytes();
  p.tma_bytes = c.tma_bytes();
  p.barrier_offset = c.barrier_offset();
  p.tma_full_offset = c.barrier_offset() + 8 * (2 * c.tile.stages + 2);
  p.full_arrivals = (c.tma_bytes() > 0 ? 1 : 0) + (c.uses_cp_async() ? 4 : 0);
  p.cluster_m = c.schedule.cluster_m;
  p.cluster_n = c.schedule.cluster_n;
  p.empty_arrivals = 4 * (c.schedule.ping_pong ? 1 : c.schedule.consumers) * p.sharing_ctas();
  p.k_slices = c.k_slices();
  p.cluster_k = c.schedule.cluster_k;
  p.zero_fills_k_tails = c.zero_fills_k_tails();
  p.check_m = c.space.m.scale != 0 || m_grouped || c.space.m.size % c.a_box_rows() != 0;
  p.check_n = c.space.n.scale != 0 || c.space.n.size % c.tile.block_n != 0;
  p.check_k = c.space.k.scale != 0 || k_grouped || c.space.k.size % c.block_k() != 0;
  return p;
}

constexpr EpilogueConfig epilogue_config(const GemmSm90Config& c) {
  constexpr i64 kFewKTiles = 16;
  EpilogueConfig e;
  e.num_accumulators = c.num_accumulators();
  e.block_n = c.tile.block_n;
  e.subtile_n = c.subtile_n();
  e.staging_bytes = c.staging_bytes();
  e.stores_pairs = c.stores_pairs();
  e.matrices = c.epilogue.matrices;
  e.vec = c.epilogue.vec;
  e.column_sums = c.epilogue.column_sums;
  e.reduced_columns = c.epilogue.reduced_columns;
  e.m_grouped = c.ragged.kind == Ragged::kMGrouped;
  e.whole_subtiles_n = c.space.n.scale == 0 && c.space.n.size % c.cluster_tile_n() == 0 &&
                       c.tile.block_n % c.subtile_n() == 0;
  e.odd_n = c.space.n.scale == 0 && c.space.n.size % 2 != 0;
  e.scarce_registers = c.accumulator_registers() > 160;
  e.short_mainloop = c.space.k.scale == 0 && c.total_k() <= kFewKTiles * c.block_k();
  e.accumulator_registers = c.mainloop_registers();
  e.max_registers = c.uses_cp_async() ? 136 : c.schedule.consumers == 3 ? 88 : 160;
  e.split_k = c.schedule.split_k;
  e.batch_rank = c.space.batch_rank;
  return e;
}

constexpr ClusterSplitKConfig cluster_split_k_config(const GemmSm90Config& c) {
  ClusterSplitKConfig s;
  if (c.schedule.cluster_k == 0) return s;
  s.num_accumulators = c.num_accumulators();
  s.block_n = c.tile.block_n;
  s.vec = c.epilogue.vec;
  s.threads = c.threads();
  s.cluster_k = c.schedule.cluster_k;
  s.a_rows = c.a_box_rows();
  s.reduce_rows = c.reduce_rows();
  s.row_squares = c.row_squares;
  s.row_bytes = c.partials_row_bytes();
  s.slot_bytes = c.partials_bytes();
  s.slots_offset = c.partials_offset();
  s.barrier_offset = c.barrier_offset() + 8 * (c.barriers() - 1);
  s.accumulator_registers = c.mainloop_registers();
  s.max_registers = c.schedule.ctas_per_sm == 1 ? 160 : 64;
  s.n = c.space.n;
  s.split_k = c.schedule.split_k;
  s.batch_rank = c.space.batch_rank;
  return s;
}

template <const GemmSm90Config& kConfig>
__device__ constexpr PipelineConfig kPipelineOf = pipeline_config(kConfig);
template <const GemmSm90Config& kConfig>
__device__ constexpr EpilogueConfig kEpilogueOf = epilogue_config(kConfig);
template <const GemmSm90Config& kConfig>
__device__ constexpr ClusterSplitKConfig kClusterSplitKOf = cluster_split_k_config(kConfig);

template <const GemmSm90Config& kConfig>
struct GemmSm90Traits {
  static constexpr int kAccumulators = kConfig.num_accumulators();
  static constexpr int kFragments = kConfig.warpgroup_m() / 64;  // of 64 rows
  static constexpr bool kPingPong = kConfig.schedule.ping_pong;
  // NVRTC must see the values of these templates before they become template arguments.
  static_assert(kPipelineOf<kConfig>.stages > 0 && kEpilogueOf<kConfig>.block_n > 0 &&
                kClusterSplitKOf<kConfig>.block_n > 0);
  static_assert(kConfig.warpgroup_m() % 64 == 0, "wgmma has 64 rows");
  static_assert(kConfig.segments == 1 || (!kConfig.dual && !kConfig.uses_cp_async() &&
                                          kConfig.ragged.kind != Ragged::kKGrouped),
                "the K segments of one accumulator, loaded by TMA");
  static_assert(!kPingPong || kConfig.schedule.consumers == 2, "ping-pong has two mma warpgroups");
  using Accumulators = float[kFragments][kAccumulators][kConfig.tile.block_n / 2];
  using State = PipelineState<kConfig.tile.stages>;

  // Empty tiles (a group without k, rows of no group) get one k-tile of zeros (add_zero_k_tile).
  static constexpr bool kAddsZeroKTile = kConfig.ragged.kind != Ragged::kNone &&
                                         kConfig.space.k.scale == 0 && kConfig.space.k.size != 0 &&
                                         kConfig.k_slices() == 1 && !kConfig.uses_cp_async();
  // Other tiles that may have no k-tile start from cleared accumulators. Else the first MMA of a
  // tile overwrites them.
  static constexpr bool kMayHaveNoKTile =
      kConfig.space.k.scale != 0 || kConfig.space.k.size == 0 ||
      (kConfig.ragged.kind != Ragged::kNone && !kAddsZeroKTile) ||
      kConfig.space.k_outer * ((kConfig.space.k.size + kConfig.block_k() - 1) / kConfig.block_k()) +
              kConfig.more_k_tiles() <
          kConfig.k_slices();
  static constexpr bool kLoadsWeightsEarly =
      kConfig.ragged.kind == Ragged::kNone && kConfig.has_weight();

  // Where two CTAs share an SM, the next kernel's weight loads would run before this one's own: it
  // is triggered late. A grid of few CTAs with few k-tiles leaves the next kernel other SMs
  // (RESULTS sm90-2).
  static constexpr bool kTriggersLate = kConfig.schedule.ctas_per_sm > 1;
  static constexpr bool kFitsPipeline =
      kConfig.total_k() <= i64{kConfig.block_k()} * kConfig.tile.stages * kConfig.k_slices();

  // All lanes of a warp find the next tile together (MGroupedScheduler), the load warp's too.
  static constexpr bool kWarpSchedules = kConfig.ragged.kind == Ragged::kMGrouped;

  static constexpr bool kCpAsync = kConfig.uses_cp_async();
  // Load warps: all four; one for weights and one for activations; one. Two only where the second
  // has loads in every k-tile: MMAs do not wait for a warp without loads, and a stage that is
  // released again before that warp looks is in another phase.
  static constexpr u32 kLoadWarps = kCpAsync                                                ? 4
                                    : kLoadsWeightsEarly && kConfig.always_has_activation() ? 2
                                                                                            : 1;
  // The cp.async load warps zero-fill K tails themselves.
  static constexpr bool kZeroFillWarp = kConfig.zero_fills_k_tails() && !kCpAsync;
  static_assert(!kZeroFillWarp || kLoadWarps == 1, "warp 1 is free for zero-fill");
  // Registers after setmaxnreg. Three warpgroups start with 168, 65,536 / 384 threads; four with
  // 128.
  static constexpr bool kThreeConsumers = kConfig.schedule.consumers == 3;
  static_assert(!kThreeConsumers || !kCpAsync, "cp.async load warps take 72 registers");
  static constexpr int kProducerRegisters = kCpAsync ? 72 : kThreeConsumers ? 56 : 40;
  static constexpr int kConsumerRegisters = kCpAsync ? 216 : kThreeConsumers ? 152 : 232;
  // setmaxnreg waits for ever beyond what the CTA started with (PTX ISA 9.7.17.5).
  static_assert(kConfig.schedule.consumers == 1 ||
                    kProducerRegisters + kConfig.schedule.consumers * kConsumerRegisters <=
                        kConfig.threads() / 128 * (65536 / kConfig.threads() / 8 * 8),
                "more registers than the CTA has");
};

}  // namespace catenary
