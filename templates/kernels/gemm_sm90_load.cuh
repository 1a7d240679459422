// SPDX-License-Identifier: Apache-2.0
// Warpgroup 0 of `gemm_sm90`: the load warps and the zero-fill warp.
#pragma once

#include "kernels/gemm_sm90_tiles.cuh"
#include "pipeline/cp_async_loader.cuh"
#include "pipeline/k_tail.cuh"
#include "pipeline/tma_loader.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"

namespace catenary {

template <const PipelineConfig& kPipeline, bool kCpAsync = kPipeline.uses_cp_async>
struct LoaderOf {
  using Type = TmaLoader<kPipeline>;
};
template <const PipelineConfig& kPipeline>
struct LoaderOf<kPipeline, true> {
  using Type = CpAsyncLoader<kPipeline>;
};

// Triggers the next kernel where that is due after the last load of a tile with `k_tiles`.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE void trigger_after_last_load(i64 k_tiles, bool last) {
  if constexpr (GemmSm90Traits<kConfig>::kTriggersLate) {
    if (last && pdl_trigger<kPipelineOf<kConfig>>(k_tiles) == PdlTrigger::kLastLoad)
      griddepcontrol_launch_dependents();
  }
}

// A load warp. TmaLoader: one thread loads the operands of `loads`. If an operand is a weight there
// are two load warps: the loads of weights do not wait for the previous kernel, and the loads of
// activations do not queue after a whole pipeline of weight loads (RESULTS sm90-8).
//
// CpAsyncLoader: all threads of the four warps load. The weights of the first `early` stages are
// loaded before the dependency wait, their activations after it: the first tile takes `early` more
// iterations than it has k-tiles. One loop for both compiles faster.
template <const GemmSm90Config& kConfig, class Loader, class P>
CATENARY_DEVICE void run_load_warp(const P& params, const CtaRange& ctas, u32 smem, u32 rank,
                                   LoadMask loads) {
  using T = GemmSm90Traits<kConfig>;
  constexpr bool kEarlyWeights = T::kLoadsWeightsEarly && T::kCpAsync;
  typename T::State state;
  Loader loader;
  bool waited = !kEarlyWeights && loads.activations;
  if (waited) griddepcontrol_wait();
  for_each_tile<kConfig>(params, ctas, [&](const WorkTile& work, const KTileRange& range) {
    if (T::kWarpSchedules && !T::kCpAsync && threadIdx.x != 0) return;
    const i64 count = range.end - range.begin;
    i64 early = 0;
    if (kEarlyWeights && !waited) early = count < kConfig.tile.stages ? count : kConfig.tile.stages;
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
      const u32 barrier =
          load_barrier<kPipelineOf<kConfig>>(smem, stage, range, range.begin + k_tile);
      if (acquires) {
        Loader::acquire(smem, state, barrier, mask.weights);
        state.advance();
      }
      if (Loader::issues_tma()) {
        tma_load_k_tile<kPipelineOf<kConfig>>(params, work, range, range.begin + k_tile, smem, rank,
                                              stage, barrier, mask);
      }
      loader.cp_async_k_tile(params, work, range, range.begin + k_tile, smem, stage, mask);
      trigger_after_last_load<kConfig>(count, i + 1 == count + early && mask.activations);
    }
  });
  loader.drain(smem);
  if (!waited) griddepcontrol_wait();
  if constexpr (kConfig.schedule.cluster_k == 0) {
    if (persistent_pdl_trigger<kConfig>(params, ctas) == PdlTrigger::kLastLoad) {
      griddepcontrol_launch_dependents();
    }
  }
}

// The zero-fill warp. The dependency wait comes before it: group ends are read from device memory.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void run_zero_fill_warp(const P& params, const CtaRange& ctas, u32 smem) {
  typename GemmSm90Traits<kConfig>::State state;
  u32 tma_full_phases = 0;
  for_each_tile<kConfig>(params, ctas, [&](const WorkTile&, const KTileRange& range) {
    zero_fill_k_tails<kPipelineOf<kConfig>>(smem, range, state, tma_full_phases);
  });
}

// Warpgroup 0: the load warps, and the zero-fill warp.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void run_load_warpgroup(const P& params, const CtaRange& ctas, u32 smem, u32 rank,
                                        u32 warp) {
  using T = GemmSm90Traits<kConfig>;
  if (warp < T::kLoadWarps && (T::kCpAsync || T::kWarpSchedules || elect_one())) {
    constexpr bool kAll = T::kLoadWarps != 2;
    run_load_warp<kConfig, typename LoaderOf<kPipelineOf<kConfig>>::Type>(
        params, ctas, smem, rank, {kAll || warp == 0, kAll || warp == 1});
  } else {
    griddepcontrol_wait();
    if constexpr (T::kZeroFillWarp) {
      if (warp == 1) run_zero_fill_warp<kConfig>(params, ctas, smem);
    }
  }
  warp_barrier();
}

}  // namespace catenary
