// SPDX-License-Identifier: Apache-2.0
// The barriers of `gemm_sm90`; kernels/gemm_sm90.cuh has the table.
#pragma once

#include "epilogue/cluster_split_k.cuh"
#include "kernels/gemm_sm90_tiles.cuh"
#include "pipeline/tma_loader.cuh"
#include "ptx/mbarrier.cuh"

namespace catenary {

template <const GemmSm90Config& kConfig>
CATENARY_DEVICE u32 order_barrier(u32 smem, u32 warpgroup) {
  return smem + kConfig.barrier_offset() + 8 * (2 * kConfig.tile.stages + warpgroup);
}

// One thread; a CTA or cluster barrier must follow.
template <const GemmSm90Config& kConfig, class P>
CATENARY_DEVICE void init_barriers(const P& params, u32 smem) {
  constexpr const PipelineConfig& kPipeline = kPipelineOf<kConfig>;
#pragma unroll 1
  for (u32 stage = 0; stage < kPipeline.stages; ++stage) {
    mbarrier_init(full_barrier<kPipeline>(smem, stage), kPipeline.full_arrivals);
    mbarrier_init(empty_barrier<kPipeline>(smem, stage), kPipeline.empty_arrivals);
    if constexpr (kPipeline.zero_fills_k_tails) {
      mbarrier_init(tma_full_barrier<kPipeline>(smem, stage), 1);
    }
  }
  if constexpr (kConfig.schedule.cluster_k > 1) {
    init_partials_barrier<kClusterSplitKOf<kConfig>>(smem);
  } else if constexpr (kConfig.schedule.ping_pong) {
    mbarrier_init(order_barrier<kConfig>(smem, 0), 4);
    mbarrier_init(order_barrier<kConfig>(smem, 1), 4);
  }
  fence_mbarrier_init();
  // The tensor map of an empty operand is not valid.
  if (num_tiles<kConfig>(params) > 0 && extent_at_launch(kConfig.space.k, params) > 0) {
    prefetch_descriptors<kPipeline>(params);
  }
}

}  // namespace catenary
