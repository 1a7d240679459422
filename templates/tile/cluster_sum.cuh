// SPDX-License-Identifier: Apache-2.0
// The sums of a tile over the parts of K that the CTAs of a cluster have: each CTA leaves its own
// in its shared memory, and each adds a share of the rows over the cluster, in ascending order of
// the parts.
//
//   area: box_m() rows of sums() x block_n floats and a padding (sum_row_bytes()), at the address
//   where the ring was
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/cluster.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "tile/raster.cuh"

namespace catenary {

// A warp's rows of the fragments, which begin at `row` (16 rows, and 16 in each further fragment).
// Rows that are none of A's (GemmSm90Config::box_m) are left out.
template <auto kConfig, int kSums, int kFragments, int kRegisters>
CATENARY_DEVICE void leave_sums(u32 area, const float (&d)[kSums][kFragments][kRegisters],
                                u32 row) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 half = 0; half < 2 * kFragments; ++half) {
    const u32 first = row + half / 2 * 64 + half % 2 * 8;
    if (first >= kConfig.box_m()) continue;
    const u32 to = area + (first + lane / 4) * kConfig.sum_row_bytes() + lane % 4 * 8;
#pragma unroll
    for (u32 s = 0; s < kSums; ++s) {
#pragma unroll
      for (u32 i = 0; i < kRegisters / 4; ++i) {
        const u32 r = 4 * i + half % 2 * 2;
        st_shared_f32x2(to + (s * kConfig.block_n + 8 * i) * 4, d[s][half / 2][r],
                        d[s][half / 2][r + 1]);
      }
    }
  }
}

// V sums at `address` of each CTA of the cluster, added.
template <int V, u32 kCtas>
CATENARY_DEVICE Vec<V> add_sums(u32 address) {
  static_assert(V % 4 == 0, "16 bytes at a time");
  Vec<V> sum;
#pragma unroll
  for (u32 i = 0; i < V / 4; ++i) {
    // All are asked for before the first is added.
    U32x4 part[kCtas];
#pragma unroll
    for (u32 rank = 0; rank < kCtas; ++rank) {
      if constexpr (kCtas == 1) {
        part[rank] = ld_shared_v4(address + 16 * i);
      } else {
        part[rank] = ld_cluster_v4(map_shared(address + 16 * i, rank));
      }
    }
#pragma unroll
    for (u32 rank = 0; rank < kCtas; ++rank) {
      const u32 word[4] = {part[rank].x, part[rank].y, part[rank].z, part[rank].w};
#pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        const float v = bits_to_f32(word[j]);
        sum.v[4 * i + j] = rank == 0 ? v : sum.v[4 * i + j] + v;
      }
    }
  }
  return sum;
}

// What a thread adds: V columns of one row.
struct SumPlace {
  Coord at;      // valid is 0 where there is nothing
  u32 from = 0;  // in the area
};

// Vector `index` of the share of CTA `rank`, which has kRows rows.
template <auto kConfig, u32 kRows, class P>
CATENARY_DEVICE SumPlace sum_place(const P& params, const TileWork& work, u32 rank, u32 index) {
  constexpr int V = kConfig.vec;
  constexpr u32 kPerRow = kConfig.block_n / V;
  const u32 row = rank * kRows + index / kPerRow;
  const u32 column = index % kPerRow * V;
  const i64 m = work.m0 + row;
  const i64 left = extent_at_launch(kConfig.n, params) - work.n0 - column;
  SumPlace place;
  place.from = row * kConfig.sum_row_bytes() + column * 4;
  Coord& at = place.at;
#pragma unroll
  for (int i = 0; i < kMaxDims - 2; ++i) at.dim[i] = work.batch[i + 2];
  if constexpr (kConfig.split_k > 1) at.dim[kMaxDims - 3 - kConfig.batch_rank] = work.split;
  at.dim[kMaxDims - 2] = static_cast<u32>(m);
  at.dim[kMaxDims - 1] = static_cast<u32>(work.n0 + column);
  const bool mine = work.live && index < kRows * kPerRow && m < work.m_end && left > 0;
  at.valid = !mine ? 0 : left < V ? static_cast<i32>(left) : V;
  return place;
}

// All threads of the cluster: the tile's rows, added, through the emitted epilogue. Of the two
// barriers of the cluster (every thread arrives at both), the first stands between the sums' stores
// and their loads, the second keeps each CTA until nobody reads its memory.
template <auto kConfig, class Epilogue, class P>
CATENARY_DEVICE void finish_tile(const P& params, u32 area) {
  constexpr int V = kConfig.vec;
  constexpr u32 kCtas = kConfig.cluster_k;
  constexpr u32 kSums = kConfig.sums();
  constexpr u32 kRows = kConfig.box_m() / kCtas;
  constexpr u32 kVectors = kRows * (kConfig.block_n / V);
  constexpr u32 kEach = (kVectors + kConfig.threads() - 1) / kConfig.threads();
  static_assert(kConfig.box_m() % kCtas == 0, "whole rows for each CTA");
  if constexpr (kCtas > 1) cluster_arrive();

  const TileWork work = find_tile<kConfig>(params, blockIdx.x / kCtas);
  const u32 rank = kCtas == 1 ? 0 : cluster_rank();
  SumPlace place[kEach];
  typename Epilogue::Operands operands[kEach];
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) {
    place[i] = sum_place<kConfig, kRows>(params, work, rank, i * kConfig.threads() + threadIdx.x);
    if (place[i].at.valid == 0) continue;
    Epilogue::load_weights(params, place[i].at, operands[i]);
    Epilogue::load(params, place[i].at, operands[i]);
  }

  if constexpr (kCtas > 1) {
    cluster_wait();
  } else {
    cta_barrier();
  }
  Vec<V> sum[kEach][kSums];
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) {
    if (place[i].at.valid == 0) continue;
#pragma unroll
    for (u32 s = 0; s < kSums; ++s) {
      sum[i][s] = add_sums<V, kCtas>(area + place[i].from + s * kConfig.block_n * 4);
    }
  }
  // Before the stores, which a release would wait for.
  if constexpr (kCtas > 1) cluster_arrive();
#pragma unroll
  for (u32 i = 0; i < kEach; ++i) {
    if (place[i].at.valid == 0) continue;
    if constexpr (kConfig.gated) {
      Epilogue::store(params, place[i].at, operands[i], sum[i][0], sum[i][1]);
    } else {
      Epilogue::store(params, place[i].at, operands[i], sum[i][0]);
    }
  }
  if constexpr (kCtas > 1) cluster_wait();
}

}  // namespace catenary
