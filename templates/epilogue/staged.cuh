// SPDX-License-Identifier: Apache-2.0
// The staged epilogue: the elementwise program runs on rows of f32 that went through shared memory
// (epilogue/staging.cuh). For operands that vary along both M and N, and for rows of D that are not
// whole 16-byte vectors. All other epilogues are register epilogues (epilogue/registers.cuh).
#pragma once

#include "epilogue/column_sums.cuh"
#include "epilogue/config.cuh"
#include "epilogue/staging.cuh"
#include "epilogue/vec.cuh"
#include "ptx/sync.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

template <const EpilogueConfig& kConfig, class Epilogue>
struct StagedEpilogue {
  // The interface of RegisterEpilogue. Operands are loaded in run(), and stores need no wait.
  struct PrefetchedColumns {};
  static constexpr bool kPrefetchTile = false;
  template <class P>
  static CATENARY_DEVICE void prefetch(const P&, const WorkTile&, i64, PrefetchedColumns&) {}
  static CATENARY_DEVICE void finish() {}

  // Computes and stores this warp's rows of the tile, which begin at `m_warp` in fragment 0, one
  // subtile (16 rows, 64 / kAccumulators columns) at a time.
  template <class P, int kAccumulators, int kFragments, int kRegisters>
  static CATENARY_DEVICE void run(const P& params, u32 staging, const WorkTile& work, i64 m_warp,
                                  i64 n, const float (&d)[kAccumulators][kFragments][kRegisters],
                                  PrefetchedColumns&) {
    constexpr int V = kConfig.vec;
    constexpr u32 kSubtileN = 64 / kAccumulators;
    constexpr u32 kSubtiles = kConfig.block_n / kSubtileN;
    constexpr u32 kLanesPerRow = kSubtileN / V;
    constexpr u32 kRowsPerPass = 32 / kLanesPerRow;
    const u32 lane = threadIdx.x % 32;
    const u32 column = lane % kLanesPerRow * V;

    Coord coord;
#pragma unroll
    for (int i = 0; i < kMaxDims - 2; ++i) coord.dim[i] = work.batch[i + 2];
    if constexpr (kConfig.split_k > 1) coord.dim[kMaxDims - 3 - kConfig.batch_rank] = work.split;
    if constexpr (kConfig.m_grouped) coord.group = row_group(work);

#pragma unroll 1
    for (u32 subtile = 0; subtile < kFragments * kSubtiles; ++subtile) {
      const i64 n_lane = work.n0 + subtile % kSubtiles * kSubtileN + column;
      const i64 m_subtile = m_warp + subtile / kSubtiles * 64;
      coord.dim[kMaxDims - 1] = static_cast<u32>(n_lane);
      coord.valid = n - n_lane < V ? static_cast<i32>(n - n_lane) : V;
      // Only this warp uses the staging buffer: the warp's barrier orders its reuse.
      warp_barrier();
      stage_subtile(staging, d, subtile);
      warp_barrier();
      RowSums<V, kConfig.column_sums> sums;
#pragma unroll 4
      for (u32 pass = 0; pass < 16 / kRowsPerPass; ++pass) {
        const u32 row = pass * kRowsPerPass + lane / kLanesPerRow;
        const i64 m = m_subtile + row;
        coord.dim[kMaxDims - 2] = static_cast<u32>(m);
        if (m < work.m_end && coord.valid > 0) {
          typename Epilogue::Operands operands;
          Epilogue::load_weights(params, coord, operands);
          Epilogue::load(params, coord, operands);
          if constexpr (kAccumulators > 1) {
            sums.template store<Epilogue>(params, coord, operands,
                                          staged_vec<V>(staging, row, column),
                                          staged_vec<V>(staging, row, kSubtileN + column));
          } else {
            sums.template store<Epilogue>(params, coord, operands,
                                          staged_vec<V>(staging, row, column));
          }
        }
      }
      sums.template finish<Epilogue, kLanesPerRow>(params, coord, m_subtile, work.m_end);
    }
  }
};

}  // namespace catenary
