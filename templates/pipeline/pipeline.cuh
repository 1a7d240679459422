// SPDX-License-Identifier: Apache-2.0
// The pipeline between load warps and mma warpgroups: pipeline state, full and empty barriers,
// acquire and release of a stage, and the layout of its tiles.
//
// Every operand tile has lines of 128 bytes under the 128-byte swizzle, whose atom is 8 lines:
//   K-major    line = one row of the tile, 128 bytes of K
//   MN-major   line = one k, 64 elements of the free dimension; one 64-line block after the other.
//              Only for 16-bit elements: wgmma transposes no other type (PTX ISA 9.7.15.5).
#pragma once

#include "pipeline/config.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"

namespace catenary {

// The stage and the phase that a role is at. It persists from tile to tile; the phase flips where
// the stage index wraps, which may be in the middle of a tile.
template <int kStages>
struct PipelineState {
  u32 stage = 0;
  u32 phase = 0;  // that the full barrier completes next

  CATENARY_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
  // Skips the `count` stages of a tile that the other warpgroup computes.
  CATENARY_DEVICE void advance(u32 count) {
    const u32 next = stage + count;
    const u32 wraps = next / kStages;
    stage = next - wraps * kStages;
    phase ^= wraps & 1;
  }
};

// Shared addresses of a stage's barriers.
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE u32 full_barrier(u32 smem, u32 stage) {
  return smem + kPipeline.barrier_offset + 8 * stage;
}
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE u32 empty_barrier(u32 smem, u32 stage) {
  return smem + kPipeline.barrier_offset + 8 * (kPipeline.stages + stage);
}

// The barrier that the TMA loads of a K tail arrive at (pipeline/k_tail.cuh).
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE u32 tma_full_barrier(u32 smem, u32 stage) {
  return smem + kPipeline.tma_full_offset + 8 * stage;
}

// Waits until the stage is free in every CTA that this CTA loads into. At CTA scope, also where the
// other CTA arrives: the thread only issues loads after it, and reads nothing that other threads
// wrote. A wait at cluster scope invalidates L1 (CCTL.IVALL).
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE void acquire_stage(u32 smem, const PipelineState<kPipeline.stages>& state) {
  mbarrier_wait(empty_barrier<kPipeline>(smem, state.stage), state.phase ^ 1);
}

// Row and column, in its cluster, of the CTA of rank `rank`.
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE u32 cluster_row(u32 rank) {
  return kPipeline.cluster_m == 1 ? 0 : rank % kPipeline.cluster_m;
}
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE u32 cluster_column(u32 rank) {
  return kPipeline.cluster_n == 1 ? 0 : rank / kPipeline.cluster_m;
}

// Whether the CTA of rank `other` loads into this CTA: it has the same row tile or column tile. In
// a cluster of one row or one column all do.
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE bool shares_tile(u32 other) {
  constexpr u32 kCtas = kPipeline.cluster_m * kPipeline.cluster_n;
  if constexpr (kPipeline.cluster_m > 1 && kPipeline.cluster_n > 1) {
    const u32 rank = cluster_rank();
    if (cluster_row<kPipeline>(other) != cluster_row<kPipeline>(rank) &&
        cluster_column<kPipeline>(other) != cluster_column<kPipeline>(rank)) {
      return false;
    }
  }
  return other < kCtas;
}

// Releases a stage that this warp has read: one arrival in each CTA that loads into it.
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE void release_stage(u32 smem, u32 stage) {
  const u32 lane = threadIdx.x % 32;
  const u32 empty = empty_barrier<kPipeline>(smem, stage);
  if constexpr (kPipeline.cluster_m * kPipeline.cluster_n == 1) {
    if (lane == 0) mbarrier_arrive(empty);
  } else {
    if (shares_tile<kPipeline>(lane)) mbarrier_release_remote(map_shared(empty, lane));
  }
}

}  // namespace catenary
