// SPDX-License-Identifier: Apache-2.0
// `gemm_sm80`: D[b, m, n] = epilogue(sum over k of A[b, m, k] B[b, n, k]), for every GPU from sm_80
// on and any label order, stride and size. One CTA computes one tile of D
// (docs/kernels/gemm_sm80.md).
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
//   CTA barrier at the end   all threads   all stages have been read: the epilogue overwrites them
//   two warp barriers        32 lanes      the warp's staging has been read; has been written
//
//   timeline of k-tile t   k-block 0                k-block 1  ...  last k-block
//     cp.async             issue tile t+stages-1                    wait for tile t+1, CTA barrier
//     ldmatrix             k-block 1                k-block 2       k-block 0 of tile t+1
//     mma.sync             k-block 0                k-block 1       last k-block
#pragma once

#include "epilogue/ops.cuh"
#include "ptx/convert.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/math.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "scheduler/beside.cuh"
#include "scheduler/tile_scheduler.cuh"
#include "shared/gemm_sm80_config.h"
#include "smem/fragment.cuh"

namespace catenary {

template <const GemmSm80Config& kConfig>
struct GemmSm80Types {
  static constexpr int kElementBytes = kConfig.space.element_bytes();
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kWarpM = kConfig.tile.block_m / kConfig.tile.warps_m;
  static constexpr int kWarpN = kConfig.tile.block_n / kConfig.tile.warps_n;
  static constexpr int kFragM = kWarpM / 16;
  static constexpr int kFragN = kWarpN / 8;
  static constexpr int kAccumulators = kConfig.num_accumulators();
  static constexpr int kKBlocks = kConfig.tile.block_k / mma_k(kConfig.space.math);
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0, "a warp's tile is a multiple of 16x16");
  static_assert(kKBlocks >= 2 && kKBlocks % 2 == 0, "fragments alternate between two buffers");

  // Tiles that divide the matrix need no bounds checks; group ends are known at run time only.
  static constexpr bool kCheckM = kConfig.space.m.scale != 0 ||
                                  kConfig.space.m.size % kConfig.tile.block_m != 0 ||
                                  kConfig.ragged.kind == Ragged::kMGrouped;
  static constexpr bool kCheckN =
      kConfig.space.n.scale != 0 || kConfig.space.n.size % kConfig.tile.block_n != 0;
  static constexpr bool kCheckK = kConfig.space.k.scale != 0 ||
                                  kConfig.space.k.size % kConfig.tile.block_k != 0 ||
                                  kConfig.ragged.kind != Ragged::kNone;
  // Lower bound of every CTA's k-tiles.
  static constexpr i64 kMinKTiles =
      kConfig.space.k.scale != 0 || kConfig.ragged.kind == Ragged::kKGrouped
          ? 0
          : kConfig.space.k_outer * ceil_div(kConfig.space.k.size, kConfig.tile.block_k) /
                kConfig.schedule.split_k;
  using CopyA = CpAsyncTile<kConfig.a, kConfig.tile.block_m, kConfig.tile.block_k, kElementBytes,
                            kThreads, kCheckM, kCheckK>;
  using CopyB = CpAsyncTile<kConfig.b, kConfig.tile.block_n, kConfig.tile.block_k, kElementBytes,
                            kThreads, kCheckN, kCheckK>;
  using CopyB2 = CpAsyncTile<kConfig.b2, kConfig.tile.block_n, kConfig.tile.block_k, kElementBytes,
                             kThreads, kCheckN, kCheckK>;

  struct Fragments {
    U32x4 a[kFragM];
    U32x4 b[kAccumulators][kFragN / 2];  // two adjacent 8-column fragments each
  };
  using Accumulators = float[kAccumulators][kFragM][kFragN][4];
};

// Sources of this CTA's loads and its range of K.
template <const GemmSm80Config& kConfig>
struct GemmSm80Source {
  typename GemmSm80Types<kConfig>::CopyA::Thread a;
  typename GemmSm80Types<kConfig>::CopyB::Thread b;
  typename GemmSm80Types<kConfig>::CopyB2::Thread b2;
  i64 k_begin, k_end;
  i64 tiles_per_outer;  // k-tiles per index of the outer K dimension
};

template <MatrixOperand kOperand, int kElementBytes>
CATENARY_DEVICE i64 k_offset(i64 k, i64 outer) {
  return (k * kOperand.stride_k + outer * kOperand.stride_outer) * kElementBytes;
}

// Issues the loads of k-tile t into a stage and commits them as one cp.async group. Past the last
// tile the group is empty, so that every iteration has one group.
template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void load_k_tile(u32 smem, const GemmSm80Source<kConfig>& from, i64 t, i64 t_end,
                                 u32 stage) {
  using T = GemmSm80Types<kConfig>;
  constexpr int E = T::kElementBytes;
  if (t < t_end) {
    i64 k = t * kConfig.tile.block_k;
    i64 outer = 0;
    if constexpr (kConfig.space.k_outer > 1) {
      outer = t / from.tiles_per_outer;
      k = (t - outer * from.tiles_per_outer) * kConfig.tile.block_k;
    }
    k += from.k_begin;
    const i64 left = from.k_end - k;
    const i32 k_left = left < kConfig.tile.block_k ? static_cast<i32>(left) : kConfig.tile.block_k;
    const u32 tile_a = smem + stage * kConfig.stage_bytes();
    const u32 tile_b = tile_a + T::CopyA::Layout::kBytes;
    T::CopyA::start(tile_a, from.a, k_offset<kConfig.a, E>(k, outer), k_left);
    T::CopyB::start(tile_b, from.b, k_offset<kConfig.b, E>(k, outer), k_left);
    if constexpr (kConfig.dual) {
      T::CopyB2::start(tile_b + T::CopyB::Layout::kBytes, from.b2,
                       k_offset<kConfig.b2, E>(k, outer), k_left);
    }
  }
  cp_async_commit();
}

template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void load_fragments(u32 tile_a, u32 k_block, u32 warp_m, u32 warp_n,
                                    typename GemmSm80Types<kConfig>::Fragments& f) {
  using T = GemmSm80Types<kConfig>;
  const u32 tile_b = tile_a + T::CopyA::Layout::kBytes;
#pragma unroll
  for (int i = 0; i < T::kFragM; ++i) {
    f.a[i] = load_fragment<typename T::CopyA, kConfig.space.math, true>(
        tile_a, warp_m * T::kWarpM + i * 16, k_block);
    round_fragment<kConfig.space.math>(f.a[i]);
  }
#pragma unroll
  for (int j = 0; j < T::kFragN / 2; ++j) {
    const u32 row = warp_n * T::kWarpN + j * 16;
    f.b[0][j] = load_fragment<typename T::CopyB, kConfig.space.math, false>(tile_b, row, k_block);
    round_fragment<kConfig.space.math>(f.b[0][j]);
    if constexpr (kConfig.dual) {
      f.b[1][j] = load_fragment<typename T::CopyB2, kConfig.space.math, false>(
          tile_b + T::CopyB::Layout::kBytes, row, k_block);
      round_fragment<kConfig.space.math>(f.b[1][j]);
    }
  }
}

// The MMAs of one k-block. Columns of fragments alternate in direction, so that successive MMAs
// share an operand.
template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void mma_k_block(const typename GemmSm80Types<kConfig>::Fragments& f,
                                 typename GemmSm80Types<kConfig>::Accumulators& acc) {
  using T = GemmSm80Types<kConfig>;
#pragma unroll
  for (int s = 0; s < T::kAccumulators; ++s) {
#pragma unroll
    for (int j = 0; j < T::kFragN; ++j) {
      const U32x4& pair = f.b[s][j / 2];
#pragma unroll
      for (int r = 0; r < T::kFragM; ++r) {
        const int i = j % 2 == 0 ? r : T::kFragM - 1 - r;
        mma_sync<kConfig.space.math>(acc[s][i][j], f.a[i], j % 2 == 0 ? pair.x : pair.z,
                                     j % 2 == 0 ? pair.y : pair.w);
      }
    }
  }
}

// Tensor-core mainloop over k-tiles [t_begin, t_end). On entry to a k-tile stages - 1 cp.async
// groups are in flight; when stages - 2 are left, the next tile's loads of this thread have
// completed. In the CTA barrier after that wait all threads arrive: the next tile is visible to
// all, and all warps have read the stage that the next load_k_tile overwrites.
template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void mainloop_mma(u32 smem, const GemmSm80Source<kConfig>& from, i64 t_begin,
                                  i64 t_end, typename GemmSm80Types<kConfig>::Accumulators& acc) {
  using T = GemmSm80Types<kConfig>;
  constexpr int kStages = kConfig.tile.stages;
  const u32 warp = threadIdx.x / 32;
  const u32 warp_m = warp / kConfig.tile.warps_n;
  const u32 warp_n = warp % kConfig.tile.warps_n;

#pragma unroll 1
  for (int s = 0; s < kStages - 1; ++s) load_k_tile<kConfig>(smem, from, t_begin + s, t_end, s);
  cp_async_wait<kStages - 2>();
  // All threads arrive: the first k-tile is visible to all.
  cta_barrier();

  typename T::Fragments fragments[2];
  u32 read_stage = 0;
  u32 write_stage = kStages - 1;
  if (t_begin < t_end) load_fragments<kConfig>(smem, 0, warp_m, warp_n, fragments[0]);
#pragma unroll 1
  for (i64 t = t_begin; t < t_end; ++t) {
#pragma unroll
    for (int k_block = 0; k_block < T::kKBlocks; ++k_block) {
      if (k_block == T::kKBlocks - 1) {
        cp_async_wait<kStages - 2>();
        cta_barrier();
        // After the last tile the next stage is read ahead and not used. With fewer tiles than
        // stages no load has filled it: the last tile is read again. The test is dropped where it
        // cannot fail (RESULTS sm80-31).
        if (T::kMinKTiles >= kStages || t + 1 < t_end)
          read_stage = read_stage + 1 == kStages ? 0 : read_stage + 1;
      }
      load_fragments<kConfig>(smem + read_stage * kConfig.stage_bytes(),
                              (k_block + 1) % T::kKBlocks, warp_m, warp_n,
                              fragments[(k_block + 1) % 2]);
      if (k_block == 0) {
        load_k_tile<kConfig>(smem, from, t + kStages - 1, t_end, write_stage);
        write_stage = write_stage + 1 == kStages ? 0 : write_stage + 1;
      }
      mma_k_block<kConfig>(fragments[k_block % 2], acc);
    }
  }
}

// One k-tile of MathMode::kF32 on the CUDA cores, with the accumulator layout of mma.sync: a thread
// owns rows g, g+8 and columns 2t, 2t+1 of each 16x8 fragment.
template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void mma_f32(u32 tile_a, u32 warp_m, u32 warp_n,
                             typename GemmSm80Types<kConfig>::Accumulators& acc) {
  using T = GemmSm80Types<kConfig>;
  const u32 g = threadIdx.x % 32 / 4;
  const u32 t = threadIdx.x % 4;
  const u32 tile_b = tile_a + T::CopyA::Layout::kBytes;
#pragma unroll 2
  for (u32 k = 0; k < kConfig.tile.block_k; ++k) {
    float a[T::kFragM][2];
#pragma unroll
    for (int i = 0; i < T::kFragM; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h)
        a[i][h] = read_f32<typename T::CopyA>(tile_a, warp_m * T::kWarpM + i * 16 + h * 8 + g, k);
    }
#pragma unroll
    for (int j = 0; j < T::kFragN; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const u32 column = warp_n * T::kWarpN + j * 8 + t * 2 + h;
        float b[T::kAccumulators];
        b[0] = read_f32<typename T::CopyB>(tile_b, column, k);
        if constexpr (kConfig.dual)
          b[1] = read_f32<typename T::CopyB2>(tile_b + T::CopyB::Layout::kBytes, column, k);
#pragma unroll
        for (int s = 0; s < T::kAccumulators; ++s) {
#pragma unroll
          for (int i = 0; i < T::kFragM; ++i) {
            acc[s][i][j][h] = fma_rn(a[i][0], b[s], acc[s][i][j][h]);
            acc[s][i][j][2 + h] = fma_rn(a[i][1], b[s], acc[s][i][j][2 + h]);
          }
        }
      }
    }
  }
}

template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void mainloop_f32(u32 smem, const GemmSm80Source<kConfig>& from, i64 t_begin,
                                  i64 t_end, typename GemmSm80Types<kConfig>::Accumulators& acc) {
  constexpr int kStages = kConfig.tile.stages;
  const u32 warp = threadIdx.x / 32;
#pragma unroll 1
  for (int s = 0; s < kStages - 1; ++s) load_k_tile<kConfig>(smem, from, t_begin + s, t_end, s);
  u32 read_stage = 0;
  u32 write_stage = kStages - 1;
#pragma unroll 1
  for (i64 t = t_begin; t < t_end; ++t) {
    // All threads arrive: tile t is visible, and all warps have read stage write_stage.
    cp_async_wait<kStages - 2>();
    cta_barrier();
    load_k_tile<kConfig>(smem, from, t + kStages - 1, t_end, write_stage);
    write_stage = write_stage + 1 == kStages ? 0 : write_stage + 1;
    mma_f32<kConfig>(smem + read_stage * kConfig.stage_bytes(), warp / kConfig.tile.warps_n,
                     warp % kConfig.tile.warps_n, acc);
    read_stage = read_stage + 1 == kStages ? 0 : read_stage + 1;
  }
}

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
          Epilogue::store(params, at, operands, read_staged<V>(from),
                          read_staged<V>(from + T::kWarpN * 4));
        } else {
          Epilogue::store(params, at, operands, read_staged<V>(from));
        }
      }
    }
  }
}

template <const GemmSm80Config& kConfig, class Epilogue, class P>
CATENARY_DEVICE void gemm_sm80(const P& params, const CtaRange& ctas = whole_grid()) {
  using T = GemmSm80Types<kConfig>;
  constexpr int E = T::kElementBytes;
  if constexpr (kConfig.schedule.trigger_early) griddepcontrol_launch_dependents();
  griddepcontrol_wait();

  const WorkTile work = find_work_tile<kConfig>(params, ctas.index);
  if (!work.valid) return;
  const i64 n = extent_at_launch(kConfig.space.n, params);

  const i64 m_left = work.m_end - work.m0;
  const i64 n_left = n - work.n0;
  const i32 rows_m =
      static_cast<i32>(m_left < kConfig.tile.block_m ? m_left : kConfig.tile.block_m);
  const i32 rows_n =
      static_cast<i32>(n_left < kConfig.tile.block_n ? n_left : kConfig.tile.block_n);
  GemmSm80Source<kConfig> from;
  from.a = T::CopyA::thread(operand_address<kConfig, kConfig.a, E>(params, work, work.m0), rows_m);
  from.b = T::CopyB::thread(operand_address<kConfig, kConfig.b, E>(params, work, work.n0), rows_n);
  if constexpr (kConfig.dual) {
    from.b2 =
        T::CopyB2::thread(operand_address<kConfig, kConfig.b2, E>(params, work, work.n0), rows_n);
  }
  from.k_begin = work.k_begin;
  from.k_end = work.k_end;
  const i64 k = work.k_end > work.k_begin ? work.k_end - work.k_begin : 0;
  from.tiles_per_outer = (k + kConfig.tile.block_k - 1) / kConfig.tile.block_k;
  const i64 tiles = from.tiles_per_outer * kConfig.space.k_outer;
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
  if (t_begin < t_end) {
    if constexpr (kConfig.space.math == MathMode::kF32) {
      mainloop_f32<kConfig>(smem, from, t_begin, t_end, acc);
    } else {
      mainloop_mma<kConfig>(smem, from, t_begin, t_end, acc);
    }
    // All threads arrive: no load is in flight and all stages have been read. The epilogue's
    // staging reuses their memory.
    cp_async_wait<0>();
    cta_barrier();
  }
  // An early trigger is faster only where the next kernel is a split-K reduction (RESULTS sm80-33).
  if constexpr (!kConfig.schedule.trigger_early) griddepcontrol_launch_dependents();
  run_epilogue<kConfig, Epilogue>(params, smem, work, n, acc);
}

}  // namespace catenary
