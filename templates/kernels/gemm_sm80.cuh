// SPDX-License-Identifier: Apache-2.0
// `gemm_sm80`: D[b, m, n] = epilogue(sum over k of A[b, m, k] B[b, n, k]), for every GPU from sm_80
// on and any label order, stride and size. The sum may have several K segments, each with its own A
// and B. One CTA computes one tile of D (docs/kernels/gemm_sm80.md).
//
//   shared memory in the mainloop             warps of a CTA, each with kWarpM x kWarpN of D
//   stage 0        stage 1        ...         +--------+--------+
//   | A | B | B2 | A | B | B2 |  ...          | warp 0 | warp 1 |   warps_n = 2
//   i-th k-tile of the CTA: stage i % stages  +--------+--------+
//   shared memory in the epilogue             | warp 2 | warp 3 |
//   | staging of warp 0 | of warp 1 | ...     +--------+--------+
//
// All warps load (cp.async) and multiply (ldmatrix, mma.sync); there is no producer warp.
//
//   barrier                  arrivals      meaning
//   cp.async group           own thread    this thread's loads of a k-tile have completed
//   CTA barrier per k-tile   all threads   tile t+1 is visible to all, the stage of tile t is free
//   CTA barrier at the end   all threads   all stages have been read: the next segment's loads or
//   of a segment                           the epilogue overwrite them
//   two warp barriers        32 lanes      the warp's staging has been read; has been written
//
//   timeline of k-tile t   k-block 0                k-block 1  ...  last k-block
//     cp.async             issue tile t+stages-1                    wait for tile t+1, CTA barrier
//     ldmatrix             k-block 1                k-block 2       k-block 0 of tile t+1
//     mma.sync             k-block 0                k-block 1       last k-block
#pragma once

#include "epilogue/column_sums.cuh"
#include "epilogue/operand.cuh"
#include "epilogue/ops.cuh"
#include "kernels/gemm_sm80_mainloop.cuh"
#include "ptx/convert.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "scheduler/beside.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// Fragment row i of the warp's accumulators (16 rows) to rows of floats in its staging.
template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void stage_rows(u32 staging,
                                const typename GemmSm80Types<kConfig>::Accumulators& acc, int i) {
  using T = GemmSm80Types<kConfig>;
  constexpr u32 kRow = kConfig.staging_row() * 4;
  const u32 g = threadIdx.x % 32 / 4;
  const u32 t = threadIdx.x % 4;
#pragma unroll
  for (int s = 0; s < T::kAccumulators; ++s) {
#pragma unroll
    for (int j = 0; j < T::kFragN; ++j) {
      const u32 column = (s * T::kWarpN + j * 8 + t * 2) * 4;
      st_shared_f32x2(staging + g * kRow + column, acc[s][i][j][0], acc[s][i][j][1]);
      st_shared_f32x2(staging + (g + 8) * kRow + column, acc[s][i][j][2], acc[s][i][j][3]);
    }
  }
}

template <int V>
CATENARY_DEVICE Vec<V> read_staged(u32 address) {
  Vec<V> out;
  if constexpr (V % 4 == 0) {
#pragma unroll
    for (int i = 0; i < V; i += 4) {
      const U32x4 w = ld_shared_v4(address + i * 4);
      out.v[i] = bits_to_f32(w.x), out.v[i + 1] = bits_to_f32(w.y);
      out.v[i + 2] = bits_to_f32(w.z), out.v[i + 3] = bits_to_f32(w.w);
    }
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) out.v[i] = ld_shared_f32(address + i * 4);
  }
  return out;
}

template <const GemmSm80Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void run_epilogue(const P& params, u32 smem, const WorkTile& work, i64 n,
                                  const typename GemmSm80Types<kConfig>::Accumulators& acc) {
  using T = GemmSm80Types<kConfig>;
  constexpr int V = kConfig.vec;
  constexpr int kLanesPerRow = T::kWarpN / V;
  constexpr int kRowsPerPass = 32 / kLanesPerRow;
  static_assert(T::kWarpN % V == 0 && 32 % kLanesPerRow == 0 && kRowsPerPass <= 16,
                "a pass of the warp covers whole rows of its staging");
  const u32 warp = threadIdx.x / 32;
  const u32 lane = threadIdx.x % 32;
  const u32 staging = smem + warp * 16 * kConfig.staging_row() * 4;
  const u32 column = lane % kLanesPerRow * V;
  const i64 m_warp = work.m0 + warp / kConfig.tile.warps_n * T::kWarpM;
  const i64 n_lane = work.n0 + warp % kConfig.tile.warps_n * T::kWarpN + column;

  Coord at;
#pragma unroll
  for (int d = 0; d < kMaxDims - 2; ++d) at.dim[d] = work.batch[d + 2];
  if constexpr (kConfig.schedule.split_k > 1)
    at.dim[kMaxDims - 3 - kConfig.space.batch_rank] = work.split;
  if constexpr (kConfig.ragged.kind == Ragged::kMGrouped) at.group = row_group(work);
  at.dim[kMaxDims - 1] = static_cast<u32>(n_lane);
  at.valid = n - n_lane < V ? static_cast<i32>(n - n_lane) : V;

  // Rolled, so that the epilogue's code exists once; only stage_rows, which needs constant register
  // numbers, is unrolled over fragment rows.
#pragma unroll 1
  for (int i = 0; i < T::kFragM; ++i) {
    // All lanes arrive: they have read the previous 16 rows. No other warp uses this staging.
    warp_barrier();
#pragma unroll
    for (int row = 0; row < T::kFragM; ++row) {
      if (row == i) stage_rows<kConfig>(staging, acc, row);
    }
    // All lanes arrive: the 16 rows are written.
    warp_barrier();
    RowSums<V, kConfig.column_sums> sums;
    // Four passes in flight (RESULTS sm80-32).
#pragma unroll 4
    for (int pass = 0; pass < 16 / kRowsPerPass; ++pass) {
      const u32 row = pass * kRowsPerPass + lane / kLanesPerRow;
      const i64 m = m_warp + i * 16 + row;
      at.dim[kMaxDims - 2] = static_cast<u32>(m);
      if (m < work.m_end && at.valid > 0) {
        typename Epilogue::Operands operands;
        Epilogue::load_weights(params, at, operands);
        Epilogue::load(params, at, operands);
        const u32 from = staging + (row * kConfig.staging_row() + column) * 4;
        if constexpr (kConfig.dual) {
          sums.template store<Epilogue>(params, at, operands, read_staged<V>(from),
                                        read_staged<V>(from + T::kWarpN * 4));
        } else {
          sums.template store<Epilogue>(params, at, operands, read_staged<V>(from));
        }
      }
    }
    sums.template finish<Epilogue, kLanesPerRow>(params, at, m_warp + i * 16, work.m_end);
  }
}

// The segment's k-tiles. Rows of no group have no K.
template <const GemmSm80Config& kConfig, int kSegment>
CATENARY_DEVICE i64 tiles_per_outer(const WorkTile& work) {
  using T = GemmSm80Types<kConfig, kSegment>;
  if constexpr (kSegment > 0) {
    return work.k_end > 0 ? ceil_div(T::kK.size, i64{kConfig.tile.block_k}) : 0;
  }
  const i64 k = work.k_end > work.k_begin ? work.k_end - work.k_begin : 0;
  return (k + kConfig.tile.block_k - 1) / kConfig.tile.block_k;
}

template <const GemmSm80Config& kConfig, int kSegment, class P>
CATENARY_DEVICE GemmSm80Source<kConfig, kSegment> source_of(const P& params, const WorkTile& work,
                                                            i64 n) {
  using T = GemmSm80Types<kConfig, kSegment>;
  constexpr int E = T::kElementBytes;
  const i64 m_left = work.m_end - work.m0;
  const i64 n_left = n - work.n0;
  const i32 rows_m =
      static_cast<i32>(m_left < kConfig.tile.block_m ? m_left : kConfig.tile.block_m);
  const i32 rows_n =
      static_cast<i32>(n_left < kConfig.tile.block_n ? n_left : kConfig.tile.block_n);
  GemmSm80Source<kConfig, kSegment> from;
  from.a = T::CopyA::thread(operand_address<kConfig, T::kA, E>(params, work, work.m0), rows_m);
  from.b = T::CopyB::thread(operand_address<kConfig, T::kB, E>(params, work, work.n0), rows_n);
  if constexpr (kConfig.dual) {
    from.b2 =
        T::CopyB2::thread(operand_address<kConfig, kConfig.b2, E>(params, work, work.n0), rows_n);
  }
  from.k_begin = kSegment == 0 ? work.k_begin : 0;
  from.k_end = kSegment == 0 ? work.k_end : T::kK.size;
  from.tiles_per_outer = tiles_per_outer<kConfig, kSegment>(work);
  return from;
}

// Adds the k-tiles [t_begin, t_end) of the segment to the accumulators.
template <const GemmSm80Config& kConfig, int kSegment>
CATENARY_DEVICE void sum_segment(u32 smem, const GemmSm80Source<kConfig, kSegment>& from,
                                 i64 t_begin, i64 t_end,
                                 typename GemmSm80Types<kConfig>::Accumulators& acc) {
  if (t_begin < t_end) {
    if constexpr (kConfig.space.math == MathMode::kF32) {
      mainloop_f32<kConfig, kSegment>(smem, from, t_begin, t_end, acc);
    } else {
      mainloop_mma<kConfig, kSegment>(smem, from, t_begin, t_end, acc);
    }
    // All threads arrive: no load is in flight and all stages have been read. The next segment's
    // loads or the epilogue's staging reuse their memory.
    cp_async_wait<0>();
    cta_barrier();
  }
}

// The segments from kSegment on, one after the other: [t_begin, t_end) are this CTA's k-tiles,
// counted from the first one of kSegment.
template <const GemmSm80Config& kConfig, int kSegment, class P>
CATENARY_DEVICE void sum_more_segments(const P& params, u32 smem, const WorkTile& work, i64 n,
                                       i64 t_begin, i64 t_end,
                                       typename GemmSm80Types<kConfig>::Accumulators& acc) {
  if constexpr (kSegment < kConfig.segments) {
    const auto from = source_of<kConfig, kSegment>(params, work, n);
    const i64 tiles = from.tiles_per_outer * GemmSm80Types<kConfig, kSegment>::kKOuter;
    const i64 begin = t_begin > 0 ? t_begin : 0;
    sum_segment<kConfig, kSegment>(smem, from, begin, t_end < tiles ? t_end : tiles, acc);
    sum_more_segments<kConfig, kSegment + 1>(params, smem, work, n, t_begin - tiles, t_end - tiles,
                                             acc);
  }
}

// All k-tiles of the work tile from segment kSegment on.
template <const GemmSm80Config& kConfig, int kSegment = 0>
CATENARY_DEVICE i64 count_k_tiles(const WorkTile& work) {
  if constexpr (kSegment == kConfig.segments) {
    return 0;
  } else {
    return tiles_per_outer<kConfig, kSegment>(work) * GemmSm80Types<kConfig, kSegment>::kKOuter +
           count_k_tiles<kConfig, kSegment + 1>(work);
  }
}

template <const GemmSm80Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void gemm_sm80(const P& params, const CtaRange& ctas = whole_grid()) {
  using T = GemmSm80Types<kConfig>;
  if constexpr (kConfig.schedule.trigger_early) griddepcontrol_launch_dependents();
  griddepcontrol_wait();

  const WorkTile work = find_work_tile<kConfig>(params, ctas.index);
  if (!work.valid) return;
  const i64 n = extent_at_launch(kConfig.space.n, params);
  const GemmSm80Source<kConfig, 0> from = source_of<kConfig, 0>(params, work, n);
  const i64 first = from.tiles_per_outer * kConfig.space.k_outer;
  const i64 tiles = first + count_k_tiles<kConfig, 1>(work);
  const i64 t_begin = tiles * work.split / kConfig.schedule.split_k;
  const i64 t_end = tiles * (work.split + 1) / kConfig.schedule.split_k;

  typename T::Accumulators acc;
#pragma unroll
  for (int s = 0; s < T::kAccumulators; ++s)
#pragma unroll
    for (int i = 0; i < T::kFragM; ++i)
#pragma unroll
      for (int j = 0; j < T::kFragN; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[s][i][j][e] = 0.0f;

  const u32 smem = dynamic_smem();
  if constexpr (kConfig.segments == 1) {
    sum_segment<kConfig, 0>(smem, from, t_begin, t_end, acc);
  } else {
    sum_segment<kConfig, 0>(smem, from, t_begin, t_end < first ? t_end : first, acc);
    sum_more_segments<kConfig, 1>(params, smem, work, n, t_begin - first, t_end - first, acc);
  }
  // An early trigger is faster only where the next kernel is a split-K reduction (RESULTS sm80-33).
  if constexpr (!kConfig.schedule.trigger_early) griddepcontrol_launch_dependents();
  run_epilogue<kConfig, Epilogue>(params, smem, work, n, acc);
}

}  // namespace catenary
