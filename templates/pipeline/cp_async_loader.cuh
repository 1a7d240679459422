// SPDX-License-Identifier: Apache-2.0
// Loads the stages of a pipeline where some operand needs cp.async fallback loads
// (pipeline/cp_async_load.cuh): each of the four load warps issues the loads of a k-tile, and
// arrives at the full barrier of an older one when its own loads have arrived. Thread 0 issues the
// TMA loads of the other operands. The interface is that of TmaLoader.
#pragma once

#include "pipeline/cp_async_load.cuh"
#include "pipeline/k_tail.cuh"
#include "pipeline/k_tiles.cuh"
#include "pipeline/pipeline.cuh"
#include "pipeline/tma_loader.cuh"
#include "ptx/atomic.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"

namespace catenary {

template <const PipelineConfig& kPipeline>
struct CpAsyncLoader {
  // k-tiles that a thread keeps in flight before it waits for the oldest one: half of the stages,
  // and at most stages - 2. The consumers release a stage only when they have issued the MMAs of
  // the next k-tile, so a producer that waits for a free stage needs two complete ones.
  static constexpr i32 kInFlightLimit = 8;
  static constexpr i32 kHalf =
      kPipeline.stages / 2 < kInFlightLimit ? kPipeline.stages / 2 : kInFlightLimit;
  static constexpr i32 kMaxInFlight = kHalf < kPipeline.stages - 2 ? kHalf : kPipeline.stages - 2;
  static_assert(kMaxInFlight >= 0, "one stage is read while the next one is loaded");
  static_assert(kPipeline.stages <= 32, "misaligned has a bit for each stage");
  static_assert(kPipeline.cluster_m == 1 && kPipeline.cluster_n == 1,
                "cp.async writes to its own CTA only");

  static constexpr i32 kBytes = kPipeline.space.element_bytes();
  using TileA = FallbackTile<kPipeline.a.memory, kBytes, kPipeline.a_rows, kPipeline.check_m,
                             kPipeline.check_k>;
  using TileB = FallbackTile<kPipeline.b.memory, kBytes, kPipeline.b_rows, kPipeline.check_n,
                             kPipeline.check_k>;
  using TileB2 = FallbackTile<kPipeline.b2.memory, kBytes, kPipeline.b_rows, kPipeline.check_n,
                              kPipeline.check_k>;

  PipelineState<kPipeline.stages> oldest;  // the k-tile that completes next
  i32 in_flight = 0;                       // k-tiles issued and not complete
  u32 misaligned[3] = {0, 0, 0};           // A, B, B2: a bit for each stage
  // K-grouped, per stage: how many of its 64 k belong to the group, in 8 bits (the rest is the K
  // tail); the phase that tma_full completes next, in one bit.
  static_assert(!kPipeline.zero_fills_k_tails || kPipeline.stages <= 8, "8 bits for each stage");
  u64 stage_valid_k = 0;
  u32 tma_full_phases = 0;

  static constexpr u32 tile_offset(u32 operand) {
    return operand == 0 ? 0 : kPipeline.tile_a_bytes + (operand - 1) * kPipeline.tile_b_bytes;
  }

  template <Sm90Operand kOperand, class Tile, class P>
  CATENARY_DEVICE void issue_operand(const P& params, const WorkTile& work, i64 row, i64 row_end,
                                     i64 k, i64 outer, u32 operand, u32 smem, u32 stage) {
    constexpr MatrixOperand kMemory = kOperand.memory;
    typename Tile::Source source;
    source.corner = operand_address<kPipeline, kMemory, kBytes>(params, work, row) +
                    kBytes * (k * kMemory.stride_k + outer * kMemory.stride_outer);
    source.rows_left = static_cast<i32>(row_end - row);
    const i64 k_left = work.k_end - k;
    source.k_left = static_cast<i32>(k_left < kPipeline.block_k ? k_left : kPipeline.block_k);
    const u32 to = smem + stage * kPipeline.stage_bytes + tile_offset(operand);
    const bool is_misaligned = Tile::issue(to, source);
    misaligned[operand] =
        (misaligned[operand] & ~(1u << stage)) | (is_misaligned ? 1u << stage : 0u);
  }

  // Waits for a free stage; thread 0 expects the bytes of its TMA loads if `expects`.
  static CATENARY_DEVICE void acquire(u32 smem, const PipelineState<kPipeline.stages>& state,
                                      u32 barrier, bool expects) {
    acquire_stage<kPipeline>(smem, state);
    if constexpr (kPipeline.tma_bytes > 0) {
      if (!expects || threadIdx.x != 0) return;
      mbarrier_arrive_expect_tx(barrier, kPipeline.tma_bytes);
    }
  }

  static CATENARY_DEVICE bool issues_tma() { return threadIdx.x == 0; }

  // Issues the cp.async loads of a k-tile as one group. The load of the activations is the last one
  // of a k-tile: the k-tile is then in flight.
  template <class P>
  CATENARY_DEVICE void cp_async_k_tile(const P& params, const WorkTile& work,
                                       const KTileRange& range, i64 k_tile, u32 smem, u32 stage,
                                       LoadMask mask) {
    i64 outer = 0;
    if constexpr (kPipeline.space.k_outer > 1) outer = k_tile / range.per_outer;
    const i64 k = work.k_begin + (k_tile - outer * range.per_outer) * kPipeline.block_k;
    const i64 n = extent_at_launch(kPipeline.space.n, params);
    if constexpr (kPipeline.a.by_cp_async) {
      if (mask.includes(kPipeline.a.weight))
        issue_operand<kPipeline.a, TileA>(params, work, work.m0, work.m_end, k, outer, 0, smem,
                                          stage);
    }
    if constexpr (kPipeline.b.by_cp_async) {
      if (mask.includes(kPipeline.b.weight))
        issue_operand<kPipeline.b, TileB>(params, work, work.n0, n, k, outer, 1, smem, stage);
    }
    if constexpr (kPipeline.dual && kPipeline.b2.by_cp_async) {
      if (mask.includes(kPipeline.b2.weight))
        issue_operand<kPipeline.b2, TileB2>(params, work, work.n0, n, k, outer, 2, smem, stage);
    }
    if constexpr (kPipeline.zero_fills_k_tails) {
      const i64 valid = valid_k<kPipeline>(range, k_tile);
      const u64 own = valid < kPipeline.block_k ? valid : kPipeline.block_k;
      stage_valid_k = (stage_valid_k & ~(u64{0xff} << 8 * stage)) | own << 8 * stage;
    }
    cp_async_commit();
    if (!mask.activations || ++in_flight <= kMaxInFlight) return;
    cp_async_wait<kMaxInFlight>();
    complete_oldest(smem);
  }

  // Hands over the oldest k-tile, whose groups this thread has waited for. wgmma reads through the
  // async proxy: each thread fences its own writes (PTX ISA 9.7.15.4); after the warp's barrier one
  // lane arrives for all.
  CATENARY_DEVICE void complete_oldest(u32 smem) {
    const u32 stage = smem + oldest.stage * kPipeline.stage_bytes;
    if constexpr (TileA::kMayMisalign || TileB::kMayMisalign || TileB2::kMayMisalign ||
                  kBytes == 4) {
      // Each lane changes what other lanes of the warp have loaded.
      warp_barrier();
      fix_up<kPipeline.a, TileA>(stage, 0);
      fix_up<kPipeline.b, TileB>(stage, 1);
      if constexpr (kPipeline.dual) fix_up<kPipeline.b2, TileB2>(stage, 2);
    }
    if constexpr (kPipeline.zero_fills_k_tails) zero_fill_tma_operands(smem);
    fence_proxy_async_shared();
    warp_barrier();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(full_barrier<kPipeline>(smem, oldest.stage));
    oldest.advance();
    --in_flight;
  }

  // Completes every k-tile in flight.
  CATENARY_DEVICE void drain(u32 smem) {
    cp_async_wait<0>();
#pragma unroll 1
    while (in_flight > 0) complete_oldest(smem);
  }

 private:
  // Zero-fills the k of other groups in the operands that TMA loads. The TMA loads of a tail arrive
  // at tma_full; thread 0 arrives at full for them.
  CATENARY_DEVICE void zero_fill_tma_operands(u32 smem) {
    const u32 valid = static_cast<u32>(stage_valid_k >> 8 * oldest.stage) & 0xff;
    if (valid >= kPipeline.block_k) return;
    mbarrier_wait(tma_full_barrier<kPipeline>(smem, oldest.stage),
                  tma_full_phases >> oldest.stage & 1);
    tma_full_phases ^= 1u << oldest.stage;
    if (threadIdx.x == 0) mbarrier_arrive(full_barrier<kPipeline>(smem, oldest.stage));
    const u32 a = smem + oldest.stage * kPipeline.stage_bytes;
    const u32 b = a + kPipeline.tile_a_bytes;
    if constexpr (!kPipeline.a.by_cp_async) {
      zero_fill_lines<kPipeline.tile_a_bytes, 128>(a, valid, threadIdx.x);
    }
    if constexpr (!kPipeline.b.by_cp_async) {
      zero_fill_lines<kPipeline.tile_b_bytes, 128>(b, valid, threadIdx.x);
    }
    if constexpr (kPipeline.dual && !kPipeline.b2.by_cp_async) {
      zero_fill_lines<kPipeline.tile_b_bytes, 128>(b + kPipeline.tile_b_bytes, valid, threadIdx.x);
    }
  }

  template <Sm90Operand kOperand, class Tile>
  CATENARY_DEVICE void fix_up(u32 stage, u32 operand) const {
    if constexpr (kOperand.by_cp_async && Tile::kMayMisalign) {
      if ((misaligned[operand] >> oldest.stage & 1) != 0) {
        Tile::rotate_lines(stage + tile_offset(operand));
      }
    }
    if constexpr (kOperand.by_cp_async && Tile::kRoundsToTf32) {
      Tile::round_to_tf32(stage + tile_offset(operand));
    }
  }
};

}  // namespace catenary
