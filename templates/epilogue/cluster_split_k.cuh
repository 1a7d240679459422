// SPDX-License-Identifier: Apache-2.0
// The sums of a tile over the parts of K that the CTAs of a cluster have. Each CTA adds a share of
// the rows over the cluster, in ascending order of the parts: its own sums of those rows lie where
// the ring was, the other CTAs send theirs (st.async), which arrive behind the ring.
//
//   share: reduce_rows() rows of sums() x block_n floats and a padding (partials_row_bytes())
//
// Nobody waits for a barrier of the cluster here: what it would release is ordered by a fence of
// the whole GPU (MEMBAR.ALL.GPU in SASS), and that waits for everything that the SM has under way,
// the copies of the next kernel's CTA among it (H200, 2048x4096 weights: 2 to 2.7 us).
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/cluster.cuh"
#include "ptx/convert.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// The mbarrier of a cluster along K where the others' sums arrive: 1 arrival, thread 0's, which
// expects their bytes; phase 0 alone.
template <const auto& kConfig>
CATENARY_DEVICE u32 partials_barrier(u32 smem) {
  return smem + kConfig.barrier_offset() + 8 * (kConfig.barriers() - 1);
}

template <const auto& kConfig>
CATENARY_DEVICE void init_partials_barrier(u32 smem) {
  constexpr u32 kRow = kConfig.num_accumulators() * kConfig.block_n * 4;
  mbarrier_init(partials_barrier<kConfig>(smem), 1);
  mbarrier_arrive_expect_tx(partials_barrier<kConfig>(smem),
                            (kConfig.cluster_k - 1) * kConfig.reduce_rows() * kRow);
}

// Where CTA `to` finds the sums that CTA `from` has of its share: addresses of CTA `to`.
template <const auto& kConfig>
CATENARY_DEVICE u32 partials_address(u32 smem, u32 from, u32 to) {
  const u32 place = from < to ? from : from - 1;
  return from == to ? smem : smem + kConfig.partials_offset() + place * kConfig.partials_bytes();
}

// A warp's rows of the fragments, which begin at `row` (16 rows, and 16 in each further fragment):
// `act` gets each of the thread's pairs of sums with its row and its bytes within the row. Rows
// that are none of A's (GemmSm90Config::a_box_rows) are left out.
template <const auto& kConfig, int kSums, int kFragments, int kRegisters, class Act>
CATENARY_DEVICE void for_each_pair(const float (&d)[kSums][kFragments][kRegisters], u32 row,
                                   Act act) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 half = 0; half < 2 * kFragments; ++half) {
    const u32 first = row + half / 2 * 64 + half % 2 * 8;
    if (first >= kConfig.a_box_rows()) continue;
#pragma unroll
    for (u32 s = 0; s < kSums; ++s) {
#pragma unroll
      for (u32 i = 0; i < kRegisters / 4; ++i) {
        const u32 r = 4 * i + half % 2 * 2;
        act(first + lane / 4, (s * kConfig.block_n + 8 * i + lane % 4 * 2) * 4, d[s][half / 2][r],
            d[s][half / 2][r + 1]);
      }
    }
  }
}

// The sums of rows that other CTAs add, straight from registers to where they expect them. All CTAs
// of the cluster have their mbarriers.
template <const auto& kConfig, int kSums, int kFragments, int kRegisters>
CATENARY_DEVICE void send_partials(u32 smem, const float (&d)[kSums][kFragments][kRegisters],
                                   u32 row) {
  const u32 rank = cluster_rank();
  for_each_pair<kConfig>(d, row, [&](u32 r, u32 offset, float first, float second) {
    const u32 to = r / kConfig.reduce_rows();
    if (to == rank) return;
    const u32 place = partials_address<kConfig>(smem, rank, to) +
                      r % kConfig.reduce_rows() * kConfig.partials_row_bytes() + offset;
    st_async_v2(map_shared(place, to), {f32_to_bits(first), f32_to_bits(second)},
                map_shared(partials_barrier<kConfig>(smem), to));
  });
}

// The sums of this CTA's share, to where the ring was.
template <const auto& kConfig, int kSums, int kFragments, int kRegisters>
CATENARY_DEVICE void store_partials(u32 smem, const float (&d)[kSums][kFragments][kRegisters],
                                    u32 row) {
  const u32 rank = kConfig.cluster_k == 1 ? 0 : cluster_rank();
  for_each_pair<kConfig>(d, row, [&](u32 r, u32 offset, float first, float second) {
    if (r / kConfig.reduce_rows() != rank) return;
    const u32 place = smem + r % kConfig.reduce_rows() * kConfig.partials_row_bytes() + offset;
    st_shared_f32x2(place, first, second);
  });
}

// V sums at `offset` of each CTA's share for CTA `rank`, which executes this, added.
template <const auto& kConfig>
CATENARY_DEVICE Vec<kConfig.vec> reduce_partials(u32 smem, u32 rank, u32 offset) {
  constexpr int V = kConfig.vec;
  constexpr u32 kCtas = kConfig.cluster_k;
  static_assert(V % 4 == 0, "16 bytes at a time");
  Vec<V> sum;
#pragma unroll
  for (u32 i = 0; i < V / 4; ++i) {
#pragma unroll
    for (u32 from = 0; from < kCtas; ++from) {
      const U32x4 part =
          ld_shared_v4(partials_address<kConfig>(smem, from, rank) + offset + 16 * i);
      const u32 word[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        const float v = bits_to_f32(word[j]);
        sum.v[4 * i + j] = from == 0 ? v : sum.v[4 * i + j] + v;
      }
    }
  }
  return sum;
}

// What a thread adds: V columns of one row.
struct OutputVector {
  Coord at;        // valid is 0 where there is nothing
  u32 offset = 0;  // in a share
};

// Vector `index` of the share of CTA `rank`.
template <const auto& kConfig, class P>
CATENARY_DEVICE OutputVector output_vector(const P& params, const WorkTile& work, u32 rank,
                                           u32 index) {
  constexpr int V = kConfig.vec;
  constexpr u32 kRows = kConfig.reduce_rows();
  constexpr u32 kPerRow = kConfig.block_n / V;
  const u32 column = index % kPerRow * V;
  const i64 m = work.m0 + rank * kRows + index / kPerRow;
  const i64 left = extent_at_launch(kConfig.n, params) - work.n0 - column;
  OutputVector place;
  place.offset = index / kPerRow * kConfig.partials_row_bytes() + column * 4;
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

// What a thread of a CTA adds, and the operands of the emitted epilogue beside it.
template <const auto& kConfig, class Epilogue>
struct ClusterEpilogue {
  static constexpr u32 kVectors = kConfig.reduce_rows() * (kConfig.block_n / kConfig.vec);
  static constexpr u32 kEach = (kVectors + kConfig.threads() - 1) / kConfig.threads();
  // Weights wait in registers from before the products, where there is room beside the sums: read
  // behind them they come from DRAM while the whole CTA waits (H200, 2048x4096 weights, 32 rows,
  // bias: 0.5 us of 6.2).
  static constexpr u32 kWords = kEach * sizeof(typename Epilogue::Operands) / 4;
  static constexpr bool kPrefetchWeights =
      kWords + kConfig.accumulator_registers() <= (kConfig.ctas_per_sm == 1 ? 160 : 64);
  static_assert(kConfig.a_box_rows() % kConfig.cluster_k == 0, "whole rows for each CTA");

  OutputVector place[kEach];
  typename Epilogue::Operands operands[kEach];

  // Ahead of the products, for reduce_and_store().
  template <class P>
  CATENARY_DEVICE void begin(const P& params, const WorkTile& work) {
    if constexpr (kPrefetchWeights) find(params, work);
  }

  // Finds the thread's places and asks for the weights there.
  template <class P>
  CATENARY_DEVICE void find(const P& params, const WorkTile& work) {
    const u32 rank = kConfig.cluster_k == 1 ? 0 : cluster_rank();
#pragma unroll
    for (u32 i = 0; i < kEach; ++i) {
      place[i] = output_vector<kConfig>(params, work, rank, i * kConfig.threads() + threadIdx.x);
      if (place[i].at.valid != 0) Epilogue::load_weights(params, place[i].at, operands[i]);
    }
  }
};

// All threads of a CTA: its share of the tile's rows, added, through the emitted epilogue. The
// barrier of the CTA stands between the stores of its own sums and their loads.
template <const auto& kConfig, class Epilogue, class P>
CATENARY_DEVICE void reduce_and_store(const P& params, u32 smem, const WorkTile& work,
                                      ClusterEpilogue<kConfig, Epilogue>& end) {
  using End = ClusterEpilogue<kConfig, Epilogue>;
  const u32 rank = kConfig.cluster_k == 1 ? 0 : cluster_rank();
  if constexpr (!End::kPrefetchWeights) end.find(params, work);
#pragma unroll
  for (u32 i = 0; i < End::kEach; ++i) {
    const Coord& at = end.place[i].at;
    if (at.valid != 0) Epilogue::load(params, at, end.operands[i]);
  }

  cta_barrier();
  if constexpr (kConfig.cluster_k > 1) {
    if (work.live) mbarrier_wait(partials_barrier<kConfig>(smem), 0);
  }
#pragma unroll
  for (u32 i = 0; i < End::kEach; ++i) {
    const OutputVector& place = end.place[i];
    if (place.at.valid == 0) continue;
    const auto first = reduce_partials<kConfig>(smem, rank, place.offset);
    if constexpr (kConfig.dual) {
      const auto second = reduce_partials<kConfig>(smem, rank, place.offset + kConfig.block_n * 4);
      Epilogue::store(params, place.at, end.operands[i], first, second);
    } else {
      Epilogue::store(params, place.at, end.operands[i], first);
    }
  }
}

}  // namespace catenary
