// SPDX-License-Identifier: Apache-2.0
// The staged epilogue: the elementwise program runs on rows of f32 that went through shared memory
// (epilogue/staging.cuh). For rows of D, or of operands that vary along both M and N, that are not
// 16-bit elements in whole 16-byte vectors. All other epilogues are register epilogues
// (epilogue/registers.cuh).
#pragma once

#include "epilogue/column_sums.cuh"
#include "epilogue/config.cuh"
#include "epilogue/operand.cuh"
#include "epilogue/staging.cuh"
#include "epilogue/vec.cuh"
#include "ptx/sync.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

template <const EpilogueConfig& kConfig, class Epilogue>
struct StagedEpilogue {
  static constexpr bool kFreesAccumulators = false;
  using Operands = typename Epilogue::Operands;
  static constexpr int V = kConfig.vec;
  static constexpr u32 kSubtileN = 64 / kConfig.num_accumulators;
  static constexpr u32 kSubtiles = kConfig.block_n / kSubtileN;  // in a fragment
  static constexpr u32 kLanesPerRow = kSubtileN / V;
  static constexpr u32 kRowsPerPass = 32 / kLanesPerRow;
  static constexpr u32 kPasses = 16 / kRowsPerPass;  // in a subtile

  // Passes whose operands are loaded together, one group ahead of their use: as many as have
  // registers for two groups beside the accumulators, up to a subtile's. Loads and stores keep
  // their order, so a pass that loads its own operands waits for them. ptxas waits for all loads of
  // a loop at once, so no load of a later pass may be in flight where an earlier one is waited for
  // (RESULTS train-3).
  static constexpr u32 group_passes() {
    constexpr u32 kWords = sizeof(Operands) / 4;  // an empty struct has none
    constexpr i32 kFree =
        kConfig.max_registers - kConfig.accumulator_registers - V * kConfig.column_sums;
    u32 passes = kWords == 0 ? 0 : kPasses;
    while (passes > 0 && static_cast<i32>(2 * passes * kWords) > kFree) passes /= 2;
    return passes;
  }
  static constexpr bool kPrefetchTile = group_passes() > 0;
  static constexpr u32 kGroup = kPrefetchTile ? group_passes() : 1;

  // The interface of RegisterEpilogue. Stores need no wait.
  struct Prefetched {
    Operands of_pass[kGroup];
  };
  static CATENARY_DEVICE void finish() {}
  template <int kFragments, class P>
  static CATENARY_DEVICE void request(const P&, u32, const WorkTile&, i64, i64) {}

  // Loads the operands of the first group.
  template <class P>
  static CATENARY_DEVICE void prefetch(const P& params, const WorkTile& work, i64 m_warp, i64 n,
                                       Prefetched& prefetched) {
    if constexpr (kPrefetchTile) load_group(params, work, m_warp, n, 0, 0, prefetched);
  }

  // Computes and stores this warp's rows of the tile, which begin at `m_warp` in fragment 0, one
  // subtile (16 rows, 64 / kAccumulators columns) at a time.
  template <class P, int kAccumulators, int kFragments, int kRegisters>
  static CATENARY_DEVICE void run(const P& params, u32 staging, const WorkTile& work, i64 m_warp,
                                  i64 n, const float (&d)[kFragments][kAccumulators][kRegisters],
                                  Prefetched& prefetched) {
    constexpr u32 kAllSubtiles = kFragments * kSubtiles;
    const u32 lane = threadIdx.x % 32;
    const u32 column = lane % kLanesPerRow * V;

#pragma unroll 1
    for (u32 subtile = 0; subtile < kAllSubtiles; ++subtile) {
      // Only this warp uses the staging buffer: the warp's barrier orders its reuse.
      warp_barrier();
      stage_subtile(staging, d, subtile);
      warp_barrier();
      RowSums<V, kConfig.column_sums> sums;
      constexpr u32 kUnroll = kPasses / kGroup < 4 ? kPasses / kGroup : 4;
#pragma unroll kUnroll
      for (u32 first = 0; first < kPasses; first += kGroup) {
        Prefetched next;
        if constexpr (kPrefetchTile) {
          const u32 after = subtile + (first + kGroup) / kPasses;
          if (after < kAllSubtiles) {
            load_group(params, work, m_warp, n, after, (first + kGroup) % kPasses, next);
          }
        } else {
          load_group(params, work, m_warp, n, subtile, first, prefetched);
        }
#pragma unroll
        for (u32 i = 0; i < kGroup; ++i) {
          const u32 row = (first + i) * kRowsPerPass + lane / kLanesPerRow;
          const Coord coord = vector_of(work, m_warp, n, subtile, first + i);
          if (coord.valid <= 0) continue;
          if constexpr (kAccumulators > 1) {
            sums.template store<Epilogue>(params, coord, prefetched.of_pass[i],
                                          staged_vec<V>(staging, row, column),
                                          staged_vec<V>(staging, row, kSubtileN + column));
          } else {
            sums.template store<Epilogue>(params, coord, prefetched.of_pass[i],
                                          staged_vec<V>(staging, row, column));
          }
        }
        if constexpr (kPrefetchTile) prefetched = next;
      }
      sums.template finish<Epilogue, kLanesPerRow>(params, vector_of(work, m_warp, n, subtile, 0),
                                                   m_warp + subtile / kSubtiles * 64, work.m_end);
    }
  }

 private:
  // This lane's vector of a pass. None is valid past the rows of the tile.
  static CATENARY_DEVICE Coord vector_of(const WorkTile& work, i64 m_warp, i64 n, u32 subtile,
                                         u32 pass) {
    const u32 lane = threadIdx.x % 32;
    const i64 n_lane = work.n0 + subtile % kSubtiles * kSubtileN + lane % kLanesPerRow * V;
    const i64 m = m_warp + subtile / kSubtiles * 64 + pass * kRowsPerPass + lane / kLanesPerRow;
    Coord coord;
#pragma unroll
    for (int i = 0; i < kMaxDims - 2; ++i) coord.dim[i] = work.batch[i + 2];
    if constexpr (kConfig.split_k > 1) coord.dim[kMaxDims - 3 - kConfig.batch_rank] = work.split;
    if constexpr (kConfig.m_grouped) coord.group = row_group(work);
    coord.dim[kMaxDims - 2] = static_cast<u32>(m);
    coord.dim[kMaxDims - 1] = static_cast<u32>(n_lane);
    const i64 left = m < work.m_end ? n - n_lane : 0;
    coord.valid = left < V ? static_cast<i32>(left) : V;
    return coord;
  }

  // Loads the operands of a group of passes of a subtile, from pass `first` on.
  template <class P>
  static CATENARY_DEVICE void load_group(const P& params, const WorkTile& work, i64 m_warp, i64 n,
                                         u32 subtile, u32 first, Prefetched& group) {
#pragma unroll
    for (u32 i = 0; i < kGroup; ++i) {
      const Coord coord = vector_of(work, m_warp, n, subtile, first + i);
      if (coord.valid <= 0) continue;
      Epilogue::load_weights(params, coord, group.of_pass[i]);
      Epilogue::load(params, coord, group.of_pass[i]);
    }
  }
};

}  // namespace catenary
