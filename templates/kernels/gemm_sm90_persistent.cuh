// SPDX-License-Identifier: Apache-2.0
// The persistent schedule of `gemm_sm90`: a CTA computes several tiles, cooperative or ping-pong.
// Contractions side by side have CTAs of their own.
#pragma once

#include "epilogue/registers.cuh"
#include "epilogue/staged.cuh"
#include "kernels/gemm_sm90_load.cuh"
#include "kernels/gemm_sm90_mainloop.cuh"
#include "ptx/cluster.cuh"
#include "ptx/shared.cuh"

namespace catenary {

template <const GemmSm90Config& kConfig, class Epilogue, bool kInRegisters>
struct TileEpilogueOf {
  using Type = StagedEpilogue<kEpilogueOf<kConfig>, Epilogue>;
};
template <const GemmSm90Config& kConfig, class Epilogue>
struct TileEpilogueOf<kConfig, Epilogue, true> {
  using Type = RegisterEpilogue<kEpilogueOf<kConfig>, Epilogue>;
};

// An mma warpgroup of a persistent CTA.
template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void run_mma_warpgroup(const P& params, const CtaRange& ctas, u32 smem, u32 rank,
                                       u32 warpgroup) {
  using T = GemmSm90Traits<kConfig>;
  using TileEpilogue =
      typename TileEpilogueOf<kConfig, Epilogue, kConfig.epilogue.in_registers>::Type;
  const u32 warp = threadIdx.x / 32 - 4;  // among the mma warpgroups
  const u32 staging = smem + kConfig.staging_offset() + warp * kConfig.staging_bytes();
  const u32 row = cluster_row<kPipelineOf<kConfig>>(rank) * kConfig.tile.block_m + warp % 4 * 16 +
                  (T::kPingPong ? 0 : warpgroup * kConfig.warpgroup_m());
  const i64 n = extent_at_launch(kConfig.space.n, params);
  typename T::State state;
  u32 tile_number = 0;
  u32 order_phase = warpgroup ^ 1;
  griddepcontrol_wait();
  for_each_tile<kConfig>(params, ctas, [&](const WorkTile& work, const KTileRange& range) {
    if constexpr (T::kPingPong) {
      const u32 k_tiles = static_cast<u32>(range.end - range.begin);
      if ((tile_number++ & 1) != warpgroup) return state.advance(k_tiles);
    }
    typename TileEpilogue::Prefetched prefetched;
    const auto prefetch = [&] {
      TileEpilogue::prefetch(params, work, work.m0 + row, n, prefetched);
    };
    TileEpilogue::template request<T::kFragments>(params, staging, work, work.m0 + row, n);
    if constexpr (TileEpilogue::kPrefetchTile) prefetch();
    typename T::Accumulators d;
    // To ptxas the first MMA, whose scale-d is no constant, reads D. Without another value, D would
    // be live until then, through the epilogue of the tile before.
    if constexpr (TileEpilogue::kFreesAccumulators && !kConfig.adds_partials())
      clear_accumulators(d);
    if constexpr (T::kPingPong) {
      mbarrier_wait(order_barrier<kConfig>(smem, warpgroup), order_phase);
      order_phase ^= 1;
    }
    NothingBeside nothing;
    const TileScales<kConfig> scales(params, work, work.m0 + row);
    mainloop<kConfig>(d, smem, warpgroup, range, state, scales, nothing, [&] {
      if constexpr (!TileEpilogue::kPrefetchTile) prefetch();
    });
    TileEpilogue::run(params, staging, work, work.m0 + row, n, d, prefetched);
  });
  TileEpilogue::finish();
}

template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void gemm_sm90_persistent(const P& params, const CtaRange& ctas) {
  using T = GemmSm90Traits<kConfig>;
  static_assert(!T::kTriggersLate, "persistent CTAs do not share an SM");
  const u32 smem = dynamic_smem();
  const u32 warp = warp_index();
  const u32 rank = kConfig.cluster_ctas() == 1 ? 0 : cluster_rank();
  if (persistent_pdl_trigger<kConfig>(params, ctas) == PdlTrigger::kStart) {
    griddepcontrol_launch_dependents();
  }
  if (threadIdx.x == 0) init_barriers<kConfig>(params, smem);
  // No thread uses a barrier before it exists in all CTAs. Relaxed: fence.mbarrier_init releases
  // the barriers (PTX ISA 9.7.13.4).
  if constexpr (kConfig.cluster_ctas() == 1) {
    cta_barrier();
  } else {
    cluster_arrive_relaxed();
    cluster_wait();
  }
  // setmaxnreg moves registers of the load warpgroup to the mma warpgroups.
  constexpr bool kMoveRegisters = kConfig.schedule.consumers > 1;
  if (warp < 4) {
    if constexpr (kMoveRegisters) set_max_registers_decrease<T::kProducerRegisters>();
    run_load_warpgroup<kConfig>(params, ctas, smem, rank, warp);
  } else {
    if constexpr (kMoveRegisters) set_max_registers_increase<T::kConsumerRegisters>();
    run_mma_warpgroup<kConfig, Epilogue>(params, ctas, smem, rank, warp / 4 - 1);
  }
  // No CTA exits while another one may still load into it or arrive at its barriers. Relaxed: no
  // data is handed over, and a release waits until the last stores are visible to the whole GPU.
  if constexpr (kConfig.cluster_ctas() != 1) {
    cluster_arrive_relaxed();
    cluster_wait();
  }
}

}  // namespace catenary
