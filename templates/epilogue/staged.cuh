// SPDX-License-Identifier: Apache-2.0
// The epilogue on accumulators of wgmma that were turned into rows of f32: for operands that vary
// along rows and columns, and for rows that are no whole pieces of 16 bytes. The others take
// epilogue/registers.cuh.
#pragma once

#include "epilogue/staging.cuh"
#include "epilogue/vec.cuh"
#include "ptx/sync.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

template <const GemmSm90Config& kConfig, class Epilogue>
struct StagedEpilogue {
  // As epilogue/registers.cuh has them; operands are read in run(), stores end by themselves.
  struct Ahead {};
  static constexpr bool kPrefetchTile = false;
  template <class P>
  static CATENARY_DEVICE void prefetch(const P&, const WorkTile&, i64, Ahead&) {}
  static CATENARY_DEVICE void finish() {}

  // This warp's rows of the tile, which begin at `m_warp` in fragment 0; a piece (16 rows, 64 /
  // sums columns) at a time.
  template <class P, int kSums, int kFragments, int kRegisters>
  static CATENARY_DEVICE void run(const P& params, u32 area, const WorkTile& work, i64 m_warp,
                                  i64 n, const float (&d)[kSums][kFragments][kRegisters], Ahead&) {
    constexpr int V = kConfig.vec;
    constexpr u32 kColumns = 64 / kSums;
    constexpr u32 kPieces = kConfig.block_n / kColumns;
    constexpr u32 kLanesPerRow = kColumns / V;
    constexpr u32 kRowsPerPass = 32 / kLanesPerRow;
    const u32 lane = threadIdx.x % 32;
    const u32 column = lane % kLanesPerRow * V;

    Coord at;
#pragma unroll
    for (int i = 0; i < kMaxDims - 2; ++i) at.dim[i] = work.batch[i + 2];
    if constexpr (kConfig.split_k > 1) at.dim[kMaxDims - 3 - kConfig.batch_rank] = work.split;

#pragma unroll 1
    for (u32 piece = 0; piece < kFragments * kPieces; ++piece) {
      const i64 n_lane = work.n0 + piece % kPieces * kColumns + column;
      const i64 m_piece = m_warp + piece / kPieces * 64;
      at.dim[kMaxDims - 1] = static_cast<u32>(n_lane);
      at.valid = n - n_lane < V ? static_cast<i32>(n - n_lane) : V;
      // The area is this warp's alone: the warp's own barrier orders its reuse.
      warp_barrier();
      stage_subtile(area, d, piece);
      warp_barrier();
#pragma unroll 4
      for (u32 pass = 0; pass < 16 / kRowsPerPass; ++pass) {
        const u32 row = pass * kRowsPerPass + lane / kLanesPerRow;
        const i64 m = m_piece + row;
        at.dim[kMaxDims - 2] = static_cast<u32>(m);
        if (m < work.m_end && at.valid > 0) {
          typename Epilogue::Operands operands;
          Epilogue::load_weights(params, at, operands);
          Epilogue::load(params, at, operands);
          if constexpr (kConfig.dual) {
            Epilogue::store(params, at, operands, staged_vec<V>(area, row, column),
                            staged_vec<V>(area, row, kColumns + column));
          } else {
            Epilogue::store(params, at, operands, staged_vec<V>(area, row, column));
          }
        }
      }
    }
  }
};

}  // namespace catenary
