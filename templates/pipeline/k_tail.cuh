// SPDX-License-Identifier: Apache-2.0
// K tails of K-grouped contractions. A tail is a k-tile that ends past its group's last k. TMA does
// not stop at the group's end: the k of the next group, or past the last group, must become zero
// before the MMAs read them.
//
// The zero-fill warp, beside the load warp, does this some stages ahead of the MMAs: the loads of a
// tail arrive at tma_full[s] instead of full[s]; the warp waits for that, zero-fills the stage, and
// arrives at full[s] in place of the load warp. The consumers do not see the difference. They could
// zero-fill themselves, but CTAs then drift apart and share less in L2 (RESULTS sm90-3). They could
// skip the k-blocks of a tail, but ptxas adds a warpgroup.arrive where control flow joins with MMAs
// in flight (C7519).
// With cp.async fallback loads the four load warps stop at the group's last k themselves, and
// zero-fill the operand that TMA loads.
//
//   tma_full[s]  1 arrival: the CTA's own load warp, which expects the bytes of a tail; the loads
//                deliver them. Waited for by the threads that zero-fill, phase 0 first; one phase
//                for each tail that stage s has held. The next phase cannot complete before this
//                one is seen: its producer waits for empty[s], which needs full[s].
#pragma once

#include "pipeline/k_tiles.cuh"
#include "pipeline/pipeline.cuh"
#include "ptx/atomic.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"

namespace catenary {

// The k of a k-tile that belong to the tile's group; block_k() or more: all of them.
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE i64 valid_k(const KTileRange& range, i64 k_tile) {
  i64 outer = 0;
  if constexpr (kPipeline.space.k_outer > 1) outer = k_tile / range.per_outer;
  return range.k_extent - (k_tile - outer * range.per_outer) * kPipeline.block_k;
}

// The barrier that the TMA loads of a k-tile arrive at.
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE u32 load_barrier(u32 smem, u32 stage, const KTileRange& range, i64 k_tile) {
  if constexpr (kPipeline.zero_fills_k_tails) {
    if (valid_k<kPipeline>(range, k_tile) < kPipeline.block_k) {
      return tma_full_barrier<kPipeline>(smem, stage);
    }
  }
  return full_barrier<kPipeline>(smem, stage);
}

// Zero-fills lines [valid, 64) of each 64-line block of MN-major tiles (pipeline/pipeline.cuh), in
// every operand: infinity times zero is NaN. A line is one k, and the swizzle stays within a line.
// kThreads threads, numbered by `thread`; eight of them fill a line.
template <u32 kTileBytes, u32 kThreads>
CATENARY_DEVICE void zero_fill_lines(u32 tile, u32 valid, u32 thread) {
  constexpr u32 kBlockBytes = 64 * 128;
  constexpr u32 kLines = kThreads / 8;  // at a time
  static_assert(kTileBytes % kBlockBytes == 0, "tiles are whole blocks of 64 lines");
#pragma unroll 1
  for (u32 line = valid + thread / 8; line < 64; line += kLines) {
#pragma unroll
    for (u32 block = 0; block < kTileBytes; block += kBlockBytes) {
      st_shared_v4(tile + block + line * 128 + thread % 8 * 16, U32x4{0, 0, 0, 0});
    }
  }
}

// The zero-fill warp's part of one work tile. `tma_full_phases` has a bit for each stage: the phase
// that tma_full completes next.
//
// wgmma reads through the async proxy. The generic writes reach it by each writer's proxy fence and
// the arrival after it (PTX ISA 9.7.15.4, async proxy). The same pair orders them before the next
// load into the stage: its producer waits for the consumers' release.
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE void zero_fill_k_tails(u32 smem, const KTileRange& range,
                                       PipelineState<kPipeline.stages>& state,
                                       u32& tma_full_phases) {
  static_assert(!kPipeline.a.k_major && !kPipeline.b.k_major, "a line is one k");
#pragma unroll 1
  for (i64 k_tile = range.begin; k_tile < range.end; ++k_tile, state.advance()) {
    const i64 valid = valid_k<kPipeline>(range, k_tile);
    if (valid >= kPipeline.block_k) continue;
    mbarrier_wait(tma_full_barrier<kPipeline>(smem, state.stage),
                  tma_full_phases >> state.stage & 1);
    tma_full_phases ^= 1u << state.stage;
    zero_fill_lines<kPipeline.stage_bytes, 32>(smem + state.stage * kPipeline.stage_bytes,
                                               static_cast<u32>(valid), threadIdx.x % 32);
    fence_proxy_async_shared();
    warp_barrier();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(full_barrier<kPipeline>(smem, state.stage));
  }
}

}  // namespace catenary
