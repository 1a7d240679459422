// SPDX-License-Identifier: Apache-2.0
// The tiles of a CTA of `gemm_sm90`, which every role visits in the same order.
#pragma once

#include "kernels/gemm_sm90_traits.cuh"
#include "pipeline/k_tiles.cuh"
#include "ptx/cluster.cuh"
#include "scheduler/beside.cuh"
#include "scheduler/grouped.cuh"

namespace catenary {

// An upper bound of the tiles of this launch; the tiles of one cluster count once.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE u32 num_tiles(const P& params) {
  const i64 m = extent_at_launch(kConfig.space.m, params);
  const i64 n = extent_at_launch(kConfig.space.n, params);
  i64 count = (m + kConfig.cluster_tile_m() - 1) / kConfig.cluster_tile_m();
  if (kConfig.ragged.kind == Ragged::kMGrouped && m > 0) count += kConfig.ragged.num_groups + 1;
  count *= (n + kConfig.cluster_tile_n() - 1) / kConfig.cluster_tile_n() * kConfig.schedule.split_k;
#pragma unroll
  for (int d = kMaxDims - kConfig.space.batch_rank; d < kMaxDims; ++d) {
    count *= extent_at_launch(kConfig.space.batch.at[d], params);
  }
  return static_cast<u32>(count);
}

// When a persistent CTA triggers the next kernel (RESULTS sm90-143). CTAs of a kernel that is
// triggered before this one's CTAs end take SMs in the order in which these end: neighbouring tiles
// are then not on neighbouring SMs, which share lines on the way from L2. A kernel of few k-tiles
// gains more from an early start; clusters keep their tiles together.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE PdlTrigger persistent_pdl_trigger(const P& params, const CtaRange& ctas) {
  constexpr i64 kFewKTiles = 32;
  const u32 clusters = ctas.count / kConfig.cluster_ctas();
  const u32 tiles = (num_tiles<kConfig>(params) + clusters - 1) / clusters;
  i64 k = extent_at_launch(kConfig.space.k, params) * kConfig.space.k_outer;
  if constexpr (kConfig.segments > 1) k = kConfig.total_k();
  if (tiles * k >= kFewKTiles * kConfig.block_k() * kConfig.k_slices()) return PdlTrigger::kEnd;
  return kConfig.cluster_ctas() > 1 ? PdlTrigger::kStart : PdlTrigger::kLastLoad;
}

// Calls visit(work, range) for each valid tile of this cluster, one of `ctas`, in order: m0 is the
// cluster's corner, n0 this CTA's.
template <const GemmSm90Config& kConfig, class P, class Visit>
CATENARY_DEVICE void for_each_tile(const P& params, const CtaRange& ctas, Visit visit) {
  const u32 count = num_tiles<kConfig>(params);
  const u32 stride = ctas.count / kConfig.cluster_ctas();
  MGroupedScheduler<kConfig> m_groups;
  KGroupedRange<kConfig> k_groups;
#pragma unroll 1
  for (u32 index = ctas.index / kConfig.cluster_ctas(); index < count; index += stride) {
    WorkTile work = find_work_tile<kConfig>(
        params, index, [&](u32 tile, u32 tiles_m, u32 tiles_n, i64 m, WorkTile& found) {
          if constexpr (GemmSm90Traits<kConfig>::kWarpSchedules) {
            m_groups.find(params, tile, tiles_n, m, found);
          } else {
            swizzle_tile<kConfig>(tile, tiles_m, tiles_n, found);
          }
        });
    if (!work.valid) continue;
    if constexpr (kConfig.schedule.cluster_n > 1) {
      work.n0 += cluster_column<kPipelineOf<kConfig>>(cluster_rank()) * kConfig.tile.block_n;
    }
    if constexpr (kConfig.ragged.kind == Ragged::kKGrouped) k_groups.find(params, work);
    if constexpr (GemmSm90Traits<kConfig>::kAddsZeroKTile)
      add_zero_k_tile<kPipelineOf<kConfig>>(work);
    visit(work, k_tile_range<kPipelineOf<kConfig>>(work));
  }
}

}  // namespace catenary
