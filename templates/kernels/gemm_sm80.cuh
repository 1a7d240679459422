// SPDX-License-Identifier: Apache-2.0
// `gemm_sm80`: the contraction kernel of every chip from sm_80 on, for any label order, stride and
// size. cp.async fills a ring of `stages` stages; each warp owns a tile of D and feeds mma.sync
// from ldmatrix, fragments double-buffered in registers so that the reads of the next step overlap
// the products of this one. After the last step each warp turns its accumulators around in shared
// memory, 16 rows at a time, so that the epilogue sees rows of `vec` adjacent columns.
//
//   stage:  | A tile | B tile | B2 tile |      slot of k-tile t: t % stages
//   warp w: rows (w / warps_n) * WM .. , columns (w % warps_n) * WN ..
#pragma once

#include "epilogue/ops.cuh"
#include "ptx/convert.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/math.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "scheduler/tile_scheduler.cuh"
#include "smem/fragment.cuh"

namespace catenary {

template <const GemmSm80Config& kConfig>
struct GemmSm80Types {
  static constexpr int kElementBytes = kConfig.element_bytes();
  static constexpr int kThreads = kConfig.threads();
  static constexpr int kWarpM = kConfig.block_m / kConfig.warps_m;
  static constexpr int kWarpN = kConfig.block_n / kConfig.warps_n;
  static constexpr int kFragM = kWarpM / 16;
  static constexpr int kFragN = kWarpN / 8;
  static constexpr int kSums = kConfig.num_accumulators();
  static constexpr int kSteps = kConfig.block_k / mma_k(kConfig.math);
  static_assert(kWarpM % 16 == 0 && kWarpN % 16 == 0, "a warp's tile is a multiple of 16x16");
  static_assert(kSteps >= 2 && kSteps % 2 == 0, "fragments alternate between two buffers");

  // A tile that divides its matrix exactly needs no check; ragged ends are known at run time only.
  static constexpr bool kCheckM = kConfig.m.scale != 0 || kConfig.m.size % kConfig.block_m != 0 ||
                                  kConfig.ragged == Ragged::kMGrouped;
  static constexpr bool kCheckN = kConfig.n.scale != 0 || kConfig.n.size % kConfig.block_n != 0;
  static constexpr bool kCheckK = kConfig.k.scale != 0 || kConfig.k.size % kConfig.block_k != 0 ||
                                  kConfig.ragged != Ragged::kNone;
  // k-tiles that every CTA has at least, as far as is known here.
  static constexpr i64 kMinKTiles =
      kConfig.k.scale != 0 || kConfig.ragged == Ragged::kKGrouped
          ? 0
          : kConfig.k_outer * ceil_div(kConfig.k.size, kConfig.block_k) / kConfig.split_k;
  using CopyA = CpAsyncTile<kConfig.a, kConfig.block_m, kConfig.block_k, kElementBytes, kThreads,
                            kCheckM, kCheckK>;
  using CopyB = CpAsyncTile<kConfig.b, kConfig.block_n, kConfig.block_k, kElementBytes, kThreads,
                            kCheckN, kCheckK>;
  using CopyB2 = CpAsyncTile<kConfig.b2, kConfig.block_n, kConfig.block_k, kElementBytes, kThreads,
                             kCheckN, kCheckK>;

  struct Fragments {
    U32x4 a[kFragM];
    U32x4 b[kSums][kFragN / 2];  // two neighbouring columns each
  };
  using Accumulators = float[kSums][kFragM][kFragN][4];
};

// Where this CTA reads, and how much of K is left to it.
template <const GemmSm80Config& kConfig>
struct GemmSm80Source {
  typename GemmSm80Types<kConfig>::CopyA::Thread a;
  typename GemmSm80Types<kConfig>::CopyB::Thread b;
  typename GemmSm80Types<kConfig>::CopyB2::Thread b2;
  i64 k_begin, k_end;
  i64 tiles_per_outer;  // k-tiles of one outer K step
};

template <MatrixOperand kOperand, int kElementBytes>
CATENARY_DEVICE i64 k_offset(i64 k, i64 outer) {
  return (k * kOperand.stride_k + outer * kOperand.stride_outer) * kElementBytes;
}

// Starts the copies of k-tile `t` into its slot of the ring and commits them as one group; past the
// last tile the group is empty, so that group counts stay uniform.
template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void load_k_tile(u32 ring, const GemmSm80Source<kConfig>& from, i64 t, i64 t_end,
                                 u32 slot) {
  using T = GemmSm80Types<kConfig>;
  constexpr int E = T::kElementBytes;
  if (t < t_end) {
    i64 k = t * kConfig.block_k;
    i64 outer = 0;
    if constexpr (kConfig.k_outer > 1) {
      outer = t / from.tiles_per_outer;
      k = (t - outer * from.tiles_per_outer) * kConfig.block_k;
    }
    k += from.k_begin;
    const i64 left = from.k_end - k;
    const i32 k_left = left < kConfig.block_k ? static_cast<i32>(left) : kConfig.block_k;
    const u32 stage = ring + slot * kConfig.stage_bytes();
    T::CopyA::start(stage, from.a, k_offset<kConfig.a, E>(k, outer), k_left);
    T::CopyB::start(stage + T::CopyA::Layout::kBytes, from.b, k_offset<kConfig.b, E>(k, outer),
                    k_left);
    if constexpr (kConfig.dual) {
      T::CopyB2::start(stage + T::CopyA::Layout::kBytes + T::CopyB::Layout::kBytes, from.b2,
                       k_offset<kConfig.b2, E>(k, outer), k_left);
    }
  }
  cp_async_commit();
}

template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void load_fragments(u32 stage, u32 step, u32 warp_m, u32 warp_n,
                                    typename GemmSm80Types<kConfig>::Fragments& f) {
  using T = GemmSm80Types<kConfig>;
  const u32 b = stage + T::CopyA::Layout::kBytes;
#pragma unroll
  for (int i = 0; i < T::kFragM; ++i) {
    f.a[i] = load_fragment<typename T::CopyA, kConfig.math, true>(
        stage, warp_m * T::kWarpM + i * 16, step);
    round_fragment<kConfig.math>(f.a[i]);
  }
#pragma unroll
  for (int j = 0; j < T::kFragN / 2; ++j) {
    const u32 row = warp_n * T::kWarpN + j * 16;
    f.b[0][j] = load_fragment<typename T::CopyB, kConfig.math, false>(b, row, step);
    round_fragment<kConfig.math>(f.b[0][j]);
    if constexpr (kConfig.dual) {
      f.b[1][j] = load_fragment<typename T::CopyB2, kConfig.math, false>(
          b + T::CopyB::Layout::kBytes, row, step);
      round_fragment<kConfig.math>(f.b[1][j]);
    }
  }
}

// Walks fragments row by row, turning at the ends, so that successive products share an operand.
template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void multiply(const typename GemmSm80Types<kConfig>::Fragments& f,
                              typename GemmSm80Types<kConfig>::Accumulators& acc) {
  using T = GemmSm80Types<kConfig>;
#pragma unroll
  for (int s = 0; s < T::kSums; ++s) {
#pragma unroll
    for (int j = 0; j < T::kFragN; ++j) {
      const U32x4& pair = f.b[s][j / 2];
#pragma unroll
      for (int r = 0; r < T::kFragM; ++r) {
        const int i = j % 2 == 0 ? r : T::kFragM - 1 - r;
        mma_sync<kConfig.math>(acc[s][i][j], f.a[i], j % 2 == 0 ? pair.x : pair.z,
                               j % 2 == 0 ? pair.y : pair.w);
      }
    }
  }
}

// Tensor-core mainloop over k-tiles [t_begin, t_end). Group accounting: stages - 1 groups are in
// flight on entry to a tile; waiting until stages - 2 are left means that the tile to read next has
// landed. The CTA barrier that follows makes every thread's copies visible to all, and also says
// that all warps have read the slot that the next load_k_tile refills (their fragments of its last
// step were loaded before they arrived).
template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void mainloop_mma(u32 ring, const GemmSm80Source<kConfig>& from, i64 t_begin,
                                  i64 t_end, typename GemmSm80Types<kConfig>::Accumulators& acc) {
  using T = GemmSm80Types<kConfig>;
  constexpr int kStages = kConfig.stages;
  const u32 warp = threadIdx.x / 32;
  const u32 warp_m = warp / kConfig.warps_n;
  const u32 warp_n = warp % kConfig.warps_n;

#pragma unroll 1
  for (int s = 0; s < kStages - 1; ++s) load_k_tile<kConfig>(ring, from, t_begin + s, t_end, s);
  cp_async_wait<kStages - 2>();
  cta_barrier();

  typename T::Fragments fragments[2];
  u32 read_slot = 0;
  u32 write_slot = kStages - 1;
  if (t_begin < t_end) load_fragments<kConfig>(ring, 0, warp_m, warp_n, fragments[0]);
#pragma unroll 1
  for (i64 t = t_begin; t < t_end; ++t) {
#pragma unroll
    for (int step = 0; step < T::kSteps; ++step) {
      if (step == T::kSteps - 1) {
        cp_async_wait<kStages - 2>();
        cta_barrier();
        // Behind the last tile its slot is read ahead for nothing. Where there are fewer tiles than
        // stages nobody has filled it: the last tile is read again. (The test costs the smaller
        // tiles a fifth of their speed, so it stands only where it can fail.)
        if (T::kMinKTiles >= kStages || t + 1 < t_end)
          read_slot = read_slot + 1 == kStages ? 0 : read_slot + 1;
      }
      load_fragments<kConfig>(ring + read_slot * kConfig.stage_bytes(), (step + 1) % T::kSteps,
                              warp_m, warp_n, fragments[(step + 1) % 2]);
      if (step == 0) {
        load_k_tile<kConfig>(ring, from, t + kStages - 1, t_end, write_slot);
        write_slot = write_slot + 1 == kStages ? 0 : write_slot + 1;
      }
      multiply<kConfig>(fragments[step % 2], acc);
    }
  }
}

// f32 products on the ordinary cores, in the accumulator layout of mma so that the epilogue is the
// same: a thread owns rows g, g+8 and columns 2t, 2t+1 of each 16x8 piece.
template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void mma_f32(u32 stage, u32 warp_m, u32 warp_n,
                             typename GemmSm80Types<kConfig>::Accumulators& acc) {
  using T = GemmSm80Types<kConfig>;
  const u32 g = threadIdx.x % 32 / 4;
  const u32 t = threadIdx.x % 4;
  const u32 tile_b = stage + T::CopyA::Layout::kBytes;
#pragma unroll 2
  for (u32 k = 0; k < kConfig.block_k; ++k) {
    float a[T::kFragM][2];
#pragma unroll
    for (int i = 0; i < T::kFragM; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h)
        a[i][h] = read_f32<typename T::CopyA>(stage, warp_m * T::kWarpM + i * 16 + h * 8 + g, k);
    }
#pragma unroll
    for (int j = 0; j < T::kFragN; ++j) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const u32 column = warp_n * T::kWarpN + j * 8 + t * 2 + h;
        float b[T::kSums];
        b[0] = read_f32<typename T::CopyB>(tile_b, column, k);
        if constexpr (kConfig.dual)
          b[1] = read_f32<typename T::CopyB2>(tile_b + T::CopyB::Layout::kBytes, column, k);
#pragma unroll
        for (int s = 0; s < T::kSums; ++s) {
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
CATENARY_DEVICE void mainloop_f32(u32 ring, const GemmSm80Source<kConfig>& from, i64 t_begin,
                                  i64 t_end, typename GemmSm80Types<kConfig>::Accumulators& acc) {
  constexpr int kStages = kConfig.stages;
  const u32 warp = threadIdx.x / 32;
#pragma unroll 1
  for (int s = 0; s < kStages - 1; ++s) load_k_tile<kConfig>(ring, from, t_begin + s, t_end, s);
  u32 read_slot = 0;
  u32 write_slot = kStages - 1;
#pragma unroll 1
  for (i64 t = t_begin; t < t_end; ++t) {
    // All threads arrive: tile t is visible, and slot write_slot has been read by everybody.
    cp_async_wait<kStages - 2>();
    cta_barrier();
    load_k_tile<kConfig>(ring, from, t + kStages - 1, t_end, write_slot);
    write_slot = write_slot + 1 == kStages ? 0 : write_slot + 1;
    mma_f32<kConfig>(ring + read_slot * kConfig.stage_bytes(), warp / kConfig.warps_n,
                     warp % kConfig.warps_n, acc);
    read_slot = read_slot + 1 == kStages ? 0 : read_slot + 1;
  }
}

// One warp's 16 rows, from the mma layout to rows of floats in its private staging area.
template <const GemmSm80Config& kConfig>
CATENARY_DEVICE void stage_rows(u32 area, const typename GemmSm80Types<kConfig>::Accumulators& acc,
                                int i) {
  using T = GemmSm80Types<kConfig>;
  constexpr u32 kRow = kConfig.staging_row() * 4;
  const u32 g = threadIdx.x % 32 / 4;
  const u32 t = threadIdx.x % 4;
#pragma unroll
  for (int s = 0; s < T::kSums; ++s) {
#pragma unroll
    for (int j = 0; j < T::kFragN; ++j) {
      const u32 column = (s * T::kWarpN + j * 8 + t * 2) * 4;
      st_shared_f32x2(area + g * kRow + column, acc[s][i][j][0], acc[s][i][j][1]);
      st_shared_f32x2(area + (g + 8) * kRow + column, acc[s][i][j][2], acc[s][i][j][3]);
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
                "a pass of the warp covers whole rows of its staging area");
  const u32 warp = threadIdx.x / 32;
  const u32 lane = threadIdx.x % 32;
  const u32 area = smem + warp * 16 * kConfig.staging_row() * 4;
  const u32 column = lane % kLanesPerRow * V;
  const i64 m_warp = work.m0 + warp / kConfig.warps_n * T::kWarpM;
  const i64 n_lane = work.n0 + warp % kConfig.warps_n * T::kWarpN + column;

  Coord at;
#pragma unroll
  for (int d = 0; d < kMaxDims - 2; ++d) at.dim[d] = work.batch[d + 2];
  if constexpr (kConfig.split_k > 1) at.dim[kMaxDims - 3 - kConfig.batch_rank] = work.split;
  at.dim[kMaxDims - 1] = static_cast<u32>(n_lane);
  at.valid = n - n_lane < V ? static_cast<i32>(n - n_lane) : V;

  // Rolled, so that the epilogue's text stands once whatever the tile: only the stores to shared
  // memory, which need constant register numbers, are repeated for each row of fragments.
#pragma unroll 1
  for (int i = 0; i < T::kFragM; ++i) {
    // The area is this warp's alone: the warp's own barrier orders its reuse.
    warp_barrier();
#pragma unroll
    for (int row = 0; row < T::kFragM; ++row) {
      if (row == i) stage_rows<kConfig>(area, acc, row);
    }
    warp_barrier();
    // Four passes at once keep enough loads in flight (1.5% of a large GEMM against one at a time).
#pragma unroll 4
    for (int pass = 0; pass < 16 / kRowsPerPass; ++pass) {
      const u32 row = pass * kRowsPerPass + lane / kLanesPerRow;
      const i64 m = m_warp + i * 16 + row;
      at.dim[kMaxDims - 2] = static_cast<u32>(m);
      if (m < work.m_end && at.valid > 0) {
        typename Epilogue::Operands operands;
        Epilogue::load_weights(params, at, operands);
        Epilogue::load(params, at, operands);
        const u32 from = area + (row * kConfig.staging_row() + column) * 4;
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
CATENARY_DEVICE void gemm_sm80(const P& params) {
  using T = GemmSm80Types<kConfig>;
  constexpr int E = T::kElementBytes;
  if constexpr (kConfig.trigger_early) griddepcontrol_launch_dependents();
  griddepcontrol_wait();

  const WorkTile work = find_work_tile<kConfig>(params, blockIdx.x);
  if (!work.valid) return;
  const i64 n = extent_at_launch(kConfig.n, params);

  const i64 m_left = work.m_end - work.m0;
  const i64 n_left = n - work.n0;
  const i32 rows_m = static_cast<i32>(m_left < kConfig.block_m ? m_left : kConfig.block_m);
  const i32 rows_n = static_cast<i32>(n_left < kConfig.block_n ? n_left : kConfig.block_n);
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
  from.tiles_per_outer = (k + kConfig.block_k - 1) / kConfig.block_k;
  const i64 tiles = from.tiles_per_outer * kConfig.k_outer;
  const i64 t_begin = tiles * work.split / kConfig.split_k;
  const i64 t_end = tiles * (work.split + 1) / kConfig.split_k;

  typename T::Accumulators acc;
#pragma unroll
  for (int s = 0; s < T::kSums; ++s)
#pragma unroll
    for (int i = 0; i < T::kFragM; ++i)
#pragma unroll
      for (int j = 0; j < T::kFragN; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) acc[s][i][j][e] = 0.0f;

  const u32 smem = dynamic_smem();
  if (t_begin < t_end) {
    if constexpr (kConfig.math == MathMode::kF32) {
      mainloop_f32<kConfig>(smem, from, t_begin, t_end, acc);
    } else {
      mainloop_mma<kConfig>(smem, from, t_begin, t_end, acc);
    }
    // No copy is in flight (trailing groups are empty), and all threads have read the ring: its
    // memory becomes the epilogue's staging.
    cp_async_wait<0>();
    cta_barrier();
  }
  // The CTAs of the next kernel, placed where this one's end first, crowd some SMs: launched with
  // this kernel they mostly make both slower (7168x7168 weights, one row: 29.0 us against 25.2 on
  // an H200), a fix-up apart (512x8192, 16 rows, K split in 16: 5.7 against 6.8).
  if constexpr (!kConfig.trigger_early) griddepcontrol_launch_dependents();
  run_epilogue<kConfig, Epilogue>(params, smem, work, n, acc);
}

}  // namespace catenary
