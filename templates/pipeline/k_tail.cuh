// SPDX-License-Identifier: Apache-2.0
// Ragged terms: a tail is a step that ends behind its group's last term. Tensor copies do not stop
// there: what they brought of the next group, or of nobody, becomes zeros before it is multiplied.
//
// A warp beside the producer does it, some stages ahead of the products: copies of a tail arrive at
// landed[s] instead of full[s]; the warp waits for that, clears the foreign terms and arrives at
// full[s] in the producer's place. The warpgroups that multiply know nothing of it. (Where they
// cleared the stage themselves, four experts' wgrad took 1 to 2% longer on an H200, with odd groups
// 6 to 12%: CTAs got out of step and found less of each other's lines in L2. To leave products out
// would be shorter: but where texts meet with products under way, ptxas puts a warpgroup.arrive of
// its own (C7519).) Where threads copy one operand, they stop at the last term themselves, and
// clear the other one when its copies have landed.
//
//   landed[s]  1 arrival: the CTA's own producer, which expects a tail's bytes; the copies deliver
//              them. Waited for by those that clear, parity 0 first: a phase for each tail that
//              stage s has held. The next one cannot end before this one was seen: its producers
//              wait for empty[s], behind full[s].
#pragma once

#include "pipeline/k_tiles.cuh"
#include "pipeline/pipeline.cuh"
#include "ptx/atomic.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"

namespace catenary {

// Terms of a step that are the group's own; block_k() and more: all.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE i64 valid_k(const KTileRange& range, i64 step) {
  i64 outer = 0;
  if constexpr (kConfig.k_outer > 1) outer = step / range.per_outer;
  return range.terms - (step - outer * range.per_outer) * kConfig.block_k();
}

template <const GemmSm90Config& kConfig>
CATENARY_DEVICE u32 tma_full_barrier(u32 smem, u32 stage) {
  return smem + kConfig.barrier_offset() + 8 * (2 * kConfig.stages + 2 + stage);
}

// Where the copies of a step arrive.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE u32 load_barrier(u32 smem, u32 stage, const KTileRange& range, i64 step) {
  if constexpr (kConfig.zero_fills_k_tails()) {
    if (valid_k<kConfig>(range, step) < kConfig.block_k()) {
      return tma_full_barrier<kConfig>(smem, stage);
    }
  }
  return full_barrier<kConfig>(smem, stage);
}

// The lines [live, 64) of each block of 64 k of MN-major tiles (pipeline/pipeline.cuh) become
// zeros, in every operand: infinity times zero is NaN. A line is one k, so a swizzle moves nothing
// out of it. kThreads threads, counted by `thread`; eight of them take a line.
template <u32 kTileBytes, u32 kThreads>
CATENARY_DEVICE void zero_fill_lines(u32 tile, u32 live, u32 thread) {
  constexpr u32 kBlockBytes = 64 * 128;
  constexpr u32 kLines = kThreads / 8;  // at once
  static_assert(kTileBytes % kBlockBytes == 0, "tiles are whole blocks of 64 lines");
#pragma unroll 1
  for (u32 line = live + thread / 8; line < 64; line += kLines) {
#pragma unroll
    for (u32 block = 0; block < kTileBytes; block += kBlockBytes) {
      st_shared_v4(tile + block + line * 128 + thread % 8 * 16, U32x4{0, 0, 0, 0});
    }
  }
}

// One warp's part of a tile: its tails, `parities` of landed's next phases, a bit for each stage.
//
// Generic writes reach wgmma, which reads by the asynchronous proxy, by each writer's proxy fence
// and an arrival behind it (PTX ISA 9.7.15.4, async proxy). The same pair orders them before the
// next copy into the stage, whose producer waits for the release of those that multiplied it.
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE void zero_fill_k_tails(u32 smem, const KTileRange& range,
                                       PipelineState<kConfig.stages>& at, u32& parities) {
  static_assert(!kConfig.a.k_major && !kConfig.b.k_major, "a term is a line");
#pragma unroll 1
  for (i64 step = range.begin; step < range.end; ++step, at.advance()) {
    const i64 live = valid_k<kConfig>(range, step);
    if (live >= kConfig.block_k()) continue;
    mbarrier_wait(tma_full_barrier<kConfig>(smem, at.stage), parities >> at.stage & 1);
    parities ^= 1u << at.stage;
    zero_fill_lines<kConfig.stage_bytes(), 32>(smem + at.stage * kConfig.stage_bytes(),
                                               static_cast<u32>(live), threadIdx.x % 32);
    fence_proxy_async_shared();
    warp_barrier();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(full_barrier<kConfig>(smem, at.stage));
  }
}

}  // namespace catenary
