// SPDX-License-Identifier: Apache-2.0
// The cluster split-K schedule of `gemm_sm90`: a CTA has one tile, or one k-slice of it; the CTAs
// of a cluster reduce their partials.
#pragma once

#include "epilogue/cluster_split_k.cuh"
#include "kernels/gemm_sm90_load.cuh"
#include "kernels/gemm_sm90_mainloop.cuh"
#include "kernels/gemm_sm90_squares.cuh"
#include "ptx/cluster.cuh"
#include "ptx/shared.cuh"

namespace catenary {

// An mma warpgroup of a one-tile CTA: its k-slice of the tile. Sends the partials of the rows that
// other CTAs reduce. Returns whether the CTA has a tile.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE bool mma_one_tile(const P& params, const CtaRange& ctas, u32 smem, u32 warpgroup,
                                  u32 row, typename GemmSm90Traits<kConfig>::Accumulators& d,
                                  TileSquares<kConfig>& squares) {
  static_assert(!kConfig.schedule.ping_pong && kConfig.schedule.cluster_m == 1 &&
                    kConfig.schedule.cluster_n == 1,
                "one tile, cooperative, no multicast");
  static_assert(kConfig.ragged.kind == Ragged::kNone,
                "reduce_and_store() finds its tile by number");
  typename GemmSm90Traits<kConfig>::State state;
  // The partials barriers of the other CTAs exist before anything is sent to them.
  if constexpr (kConfig.schedule.cluster_k > 1) cluster_wait();
  griddepcontrol_wait();
  bool has_tile = false;
  for_each_tile<kConfig>(params, ctas, [&](const WorkTile& work, const KTileRange& range) {
    has_tile = true;
    const TileScales<kConfig> scales(params, work, work.m0 + row);
    mainloop<kConfig>(d, smem, warpgroup, range, state, scales, squares, [&] { squares.finish(); });
    if constexpr (kConfig.schedule.cluster_k > 1) {
      send_partials<kClusterSplitKOf<kConfig>>(smem, d, row);
      squares.send(smem);
    }
  });
  return has_tile;
}

// A CTA with one tile, or one k-slice of it. All threads run the epilogue, so registers do not move
// between warpgroups.
template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void run_one_tile(const P& params, const CtaRange& ctas, u32 smem, u32 warp) {
  typename GemmSm90Traits<kConfig>::Accumulators d;
  const u32 mma_warpgroup = warp / 4 - 1;  // not of warps 0 to 3, which load
  const u32 row = mma_warpgroup * kConfig.warpgroup_m() + warp % 4 * 16;
  const WorkTile work = find_work_tile<kConfig>(params, ctas.index / kConfig.schedule.cluster_k);
  ClusterEpilogue<kClusterSplitKOf<kConfig>, Epilogue> epilogue;
  // Load warps issue their loads before they prefetch.
  constexpr u32 kLoadWarps = GemmSm90Traits<kConfig>::kLoadWarps;
  if (warp >= kLoadWarps) epilogue.prefetch(params, work);
  bool has_partials = false;
  TileSquares<kConfig> squares(row);
  if (warp < 4) {
    run_load_warpgroup<kConfig>(params, ctas, smem, 0, warp);
    if (warp < kLoadWarps) epilogue.prefetch(params, work);
    if constexpr (kConfig.schedule.cluster_k > 1) cluster_wait();
  } else {
    has_partials = mma_one_tile<kConfig>(params, ctas, smem, mma_warpgroup, row, d, squares);
  }
  // After this barrier no load or MMA uses the stages. A wait for wgmma covers only the MMAs of the
  // executing warp (PTX ISA 9.7.15.7): every warp arrives after its own.
  cta_barrier();
  if (has_partials) {
    store_own_partials<kClusterSplitKOf<kConfig>>(smem, d, row);
    squares.store(smem);
  }
  reduce_and_store<kClusterSplitKOf<kConfig>, Epilogue>(params, smem, work, epilogue);
}

template <const GemmSm90Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void gemm_sm90_split(const P& params, const CtaRange& ctas) {
  using T = GemmSm90Traits<kConfig>;
  const u32 smem = dynamic_smem();
  const u32 warp = warp_index();
  constexpr u32 kSmallGrid = 64;
  if (!T::kTriggersLate || (T::kFitsPipeline && gridDim.x <= kSmallGrid))
    griddepcontrol_launch_dependents();
  if (threadIdx.x == 0) init_barriers<kConfig>(params, smem);
  // No thread uses a barrier before it exists; the mma warpgroups wait for those of the other CTAs
  // before they send partials. Relaxed: fence.mbarrier_init releases the barriers (PTX ISA
  // 9.7.13.4).
  if constexpr (kConfig.schedule.cluster_k > 1) cluster_arrive_relaxed();
  cta_barrier();
  run_one_tile<kConfig, Epilogue>(params, ctas, smem, warp);
}

}  // namespace catenary
