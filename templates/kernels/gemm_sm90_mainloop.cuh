// SPDX-License-Identifier: Apache-2.0
// The mainloop of the mma warpgroups of `gemm_sm90`.
#pragma once

#include "kernels/gemm_sm90_barriers.cuh"
#include "kernels/gemm_sm90_traits.cuh"
#include "pipeline/k_tiles.cuh"
#include "pipeline/mma.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"
#include "ptx/wgmma.cuh"

namespace catenary {

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
    mbarrier_wait(full_barrier<kPipelineOf<kConfig>>(smem, state.stage), state.phase);
    if constexpr (T::kTriggersLate) {
      if (k_tile + 1 == kConfig.tile.stages &&
          pdl_trigger<kPipelineOf<kConfig>>(k_tiles) == PdlTrigger::kFirstRoundArrived) {
        griddepcontrol_launch_dependents();
      }
    }
    wgmma_fence();
    mma_k_tile<kPipelineOf<kConfig>>(d, stage, row, T::kMayHaveNoKTile || k_tile != 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (k_tile != 0) release_stage<kPipelineOf<kConfig>>(smem, previous);
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
  if (!T::kMayHaveNoKTile || k_tiles != 0) release_stage<kPipelineOf<kConfig>>(smem, previous);
}

}  // namespace catenary
