// SPDX-License-Identifier: Apache-2.0
// The mainloop of `gemm_sm80` over the k-tiles of one segment; kernels/gemm_sm80.cuh has its
// barriers and timeline.
#pragma once

#include "ptx/convert.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/math.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "scheduler/tile_scheduler.cuh"
#include "shared/gemm_sm80_config.h"
#include "smem/fragment.cuh"

namespace catenary {

template <const GemmSm80Config& kConfig, int kSegment = 0>
struct GemmSm80Types {
  static constexpr MatrixOperand kA = kConfig.segment_a(kSegment);
  static constexpr MatrixOperand kB = kConfig.segment_b(kSegment);
  static constexpr Extent kK = kConfig.segment_k(kSegment);
  static constexpr i64 kKOuter = kConfig.segment_k_outer(kSegment);
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
  static constexpr bool kCheckK =
      kK.scale != 0 || kK.size % kConfig.tile.block_k != 0 || kConfig.ragged.kind != Ragged::kNone;
  // Lower bound of every CTA's k-tiles. A k-slice may have none of a segment.
  static constexpr i64 kMinKTiles =
      kK.scale != 0 || kConfig.ragged.kind == Ragged::kKGrouped ||
              (kConfig.segments > 1 && kConfig.schedule.split_k > 1)
          ? 0
          : kKOuter * ceil_div(kK.size, kConfig.tile.block_k) / kConfig.schedule.split_k;
  using CopyA = CpAsyncTile<kA, kConfig.tile.block_m, kConfig.tile.block_k, kElementBytes, kThreads,
                            kCheckM, kCheckK>;
  using CopyB = CpAsyncTile<kB, kConfig.tile.block_n, kConfig.tile.block_k, kElementBytes, kThreads,
                            kCheckN, kCheckK>;
  using CopyB2 = CpAsyncTile<kConfig.b2, kConfig.tile.block_n, kConfig.tile.block_k, kElementBytes,
                             kThreads, kCheckN, kCheckK>;

  struct Fragments {
    U32x4 a[kFragM];
    U32x4 b[kAccumulators][kFragN / 2];  // two adjacent 8-column fragments each
  };
  using Accumulators = float[kAccumulators][kFragM][kFragN][4];
};

// Sources of this CTA's loads from a segment, and its range of K.
template <const GemmSm80Config& kConfig, int kSegment>
struct GemmSm80Source {
  typename GemmSm80Types<kConfig, kSegment>::CopyA::Thread a;
  typename GemmSm80Types<kConfig, kSegment>::CopyB::Thread b;
  typename GemmSm80Types<kConfig, kSegment>::CopyB2::Thread b2;
  i64 k_begin, k_end;
  i64 tiles_per_outer;  // k-tiles per index of the outer K dimension
};

template <MatrixOperand kOperand, int kElementBytes>
CATENARY_DEVICE i64 k_offset(i64 k, i64 outer) {
  return (k * kOperand.stride_k + outer * kOperand.stride_outer) * kElementBytes;
}

// Issues the loads of k-tile t into a stage and commits them as one cp.async group. Past the last
// tile the group is empty, so that every iteration has one group.
template <const GemmSm80Config& kConfig, int kSegment>
CATENARY_DEVICE void load_k_tile(u32 smem, const GemmSm80Source<kConfig, kSegment>& from, i64 t,
                                 i64 t_end, u32 stage) {
  using T = GemmSm80Types<kConfig, kSegment>;
  constexpr int E = T::kElementBytes;
  if (t < t_end) {
    i64 k = t * kConfig.tile.block_k;
    i64 outer = 0;
    if constexpr (T::kKOuter > 1) {
      outer = t / from.tiles_per_outer;
      k = (t - outer * from.tiles_per_outer) * kConfig.tile.block_k;
    }
    k += from.k_begin;
    const i64 left = from.k_end - k;
    const i32 k_left = left < kConfig.tile.block_k ? static_cast<i32>(left) : kConfig.tile.block_k;
    const u32 tile_a = smem + stage * kConfig.stage_bytes();
    const u32 tile_b = tile_a + T::CopyA::Layout::kBytes;
    T::CopyA::start(tile_a, from.a, k_offset<T::kA, E>(k, outer), k_left);
    T::CopyB::start(tile_b, from.b, k_offset<T::kB, E>(k, outer), k_left);
    if constexpr (kConfig.dual) {
      T::CopyB2::start(tile_b + T::CopyB::Layout::kBytes, from.b2,
                       k_offset<kConfig.b2, E>(k, outer), k_left);
    }
  }
  cp_async_commit();
}

template <const GemmSm80Config& kConfig, int kSegment>
CATENARY_DEVICE void load_fragments(u32 tile_a, u32 k_block, u32 warp_m, u32 warp_n,
                                    typename GemmSm80Types<kConfig, kSegment>::Fragments& f) {
  using T = GemmSm80Types<kConfig, kSegment>;
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
template <const GemmSm80Config& kConfig, int kSegment>
CATENARY_DEVICE void mma_k_block(const typename GemmSm80Types<kConfig, kSegment>::Fragments& f,
                                 typename GemmSm80Types<kConfig, kSegment>::Accumulators& acc) {
  using T = GemmSm80Types<kConfig, kSegment>;
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

// Tensor-core mainloop over k-tiles [t_begin, t_end) of a segment. On entry to a k-tile stages - 1
// cp.async groups are in flight; when stages - 2 are left, the next tile's loads of this thread
// have completed. In the CTA barrier after that wait all threads arrive: the next tile is visible
// to all, and all warps have read the stage that the next load_k_tile overwrites.
template <const GemmSm80Config& kConfig, int kSegment>
CATENARY_DEVICE void mainloop_mma(u32 smem, const GemmSm80Source<kConfig, kSegment>& from,
                                  i64 t_begin, i64 t_end,
                                  typename GemmSm80Types<kConfig, kSegment>::Accumulators& acc) {
  using T = GemmSm80Types<kConfig, kSegment>;
  constexpr int kStages = kConfig.tile.stages;
  const u32 warp = threadIdx.x / 32;
  const u32 warp_m = warp / kConfig.tile.warps_n;
  const u32 warp_n = warp % kConfig.tile.warps_n;

#pragma unroll 1
  for (int s = 0; s < kStages - 1; ++s)
    load_k_tile<kConfig, kSegment>(smem, from, t_begin + s, t_end, s);
  cp_async_wait<kStages - 2>();
  // All threads arrive: the first k-tile is visible to all.
  cta_barrier();

  typename T::Fragments fragments[2];
  u32 read_stage = 0;
  u32 write_stage = kStages - 1;
  if (t_begin < t_end) load_fragments<kConfig, kSegment>(smem, 0, warp_m, warp_n, fragments[0]);
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
      load_fragments<kConfig, kSegment>(smem + read_stage * kConfig.stage_bytes(),
                                        (k_block + 1) % T::kKBlocks, warp_m, warp_n,
                                        fragments[(k_block + 1) % 2]);
      if (k_block == 0) {
        load_k_tile<kConfig, kSegment>(smem, from, t + kStages - 1, t_end, write_stage);
        write_stage = write_stage + 1 == kStages ? 0 : write_stage + 1;
      }
      mma_k_block<kConfig, kSegment>(fragments[k_block % 2], acc);
    }
  }
}

// One k-tile of MathMode::kF32 on the CUDA cores, with the accumulator layout of mma.sync: a thread
// owns rows g, g+8 and columns 2t, 2t+1 of each 16x8 fragment.
template <const GemmSm80Config& kConfig, int kSegment>
CATENARY_DEVICE void mma_f32(u32 tile_a, u32 warp_m, u32 warp_n,
                             typename GemmSm80Types<kConfig, kSegment>::Accumulators& acc) {
  using T = GemmSm80Types<kConfig, kSegment>;
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

template <const GemmSm80Config& kConfig, int kSegment>
CATENARY_DEVICE void mainloop_f32(u32 smem, const GemmSm80Source<kConfig, kSegment>& from,
                                  i64 t_begin, i64 t_end,
                                  typename GemmSm80Types<kConfig, kSegment>::Accumulators& acc) {
  constexpr int kStages = kConfig.tile.stages;
  const u32 warp = threadIdx.x / 32;
#pragma unroll 1
  for (int s = 0; s < kStages - 1; ++s)
    load_k_tile<kConfig, kSegment>(smem, from, t_begin + s, t_end, s);
  u32 read_stage = 0;
  u32 write_stage = kStages - 1;
#pragma unroll 1
  for (i64 t = t_begin; t < t_end; ++t) {
    // All threads arrive: tile t is visible, and all warps have read stage write_stage.
    cp_async_wait<kStages - 2>();
    cta_barrier();
    load_k_tile<kConfig, kSegment>(smem, from, t + kStages - 1, t_end, write_stage);
    write_stage = write_stage + 1 == kStages ? 0 : write_stage + 1;
    mma_f32<kConfig, kSegment>(smem + read_stage * kConfig.stage_bytes(),
                               warp / kConfig.tile.warps_n, warp % kConfig.tile.warps_n, acc);
    read_stage = read_stage + 1 == kStages ? 0 : read_stage + 1;
  }
}

}  // namespace catenary
