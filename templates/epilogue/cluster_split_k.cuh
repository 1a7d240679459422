// SPDX-License-Identifier: Apache-2.0
// Cluster split-K: the CTAs of a cluster have the k-slices of one tile. Each CTA reduces a share of
// the tile's rows over the cluster, in ascending order of the k-slices. Its own partials of those
// rows go where the pipeline stages were; the other CTAs send theirs through DSMEM (st.async) to
// slots after the stages.
//
//   slot: reduce_rows rows of num_accumulators x block_n floats and padding (row_bytes). With
//   row_squares the padding has kSquareParts sums of the squares of the row of A, 8 bytes apart
//
// There is no cluster barrier here: its release is a fence of the whole GPU (MEMBAR.ALL.GPU in
// SASS), which waits for all loads in flight on the SM, those of the next kernel's CTA too (RESULTS
// sm90-5).
#pragma once

#include "epilogue/config.cuh"
#include "epilogue/operand.cuh"
#include "epilogue/ops.cuh"
#include "epilogue/vec.cuh"
#include "ptx/cluster.cuh"
#include "ptx/convert.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// The sum of squares of a row in a slot is in this many parts: st.async sends 8 bytes for each.
inline constexpr u32 kSquareParts = 4;

// The partials barrier: 1 arrival, thread 0's, which expects the bytes that the other CTAs send.
// Waited for by all threads, only for phase 0.
template <const ClusterSplitKConfig& kConfig>
CATENARY_DEVICE u32 partials_barrier(u32 smem) {
  return smem + kConfig.barrier_offset;
}

template <const ClusterSplitKConfig& kConfig>
CATENARY_DEVICE void init_partials_barrier(u32 smem) {
  constexpr u32 kSquares = kConfig.row_squares ? 8 * kSquareParts : 0;
  constexpr u32 kRow = kConfig.num_accumulators * kConfig.block_n * 4 + kSquares;
  mbarrier_init(partials_barrier<kConfig>(smem), 1);
  mbarrier_arrive_expect_tx(partials_barrier<kConfig>(smem),
                            (kConfig.cluster_k - 1) * kConfig.reduce_rows * kRow);
}

// The slot in CTA `to` for the partials of CTA `from`, as an address of CTA `to`.
template <const ClusterSplitKConfig& kConfig>
CATENARY_DEVICE u32 partials_address(u32 smem, u32 from, u32 to) {
  const u32 slot = from < to ? from : from - 1;
  return from == to ? smem : smem + kConfig.slots_offset + slot * kConfig.slot_bytes;
}

// Calls visit(row, byte offset in the row, first, second) for each pair of the thread's
// accumulators. The warp's rows begin at `row`: 16 rows, and 16 in each further fragment. Leaves
// out rows past the rows of A in a stage (a_rows).
template <const ClusterSplitKConfig& kConfig, int kAccumulators, int kFragments, int kRegisters,
          class Visit>
CATENARY_DEVICE void for_each_accumulator_pair(
    const float (&d)[kFragments][kAccumulators][kRegisters], u32 row, Visit visit) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (u32 half = 0; half < 2 * kFragments; ++half) {
    const u32 first = row + half / 2 * 64 + half % 2 * 8;
    if (first >= kConfig.a_rows) continue;
#pragma unroll
    for (u32 s = 0; s < kAccumulators; ++s) {
#pragma unroll
      for (u32 i = 0; i < kRegisters / 4; ++i) {
        const u32 r = 4 * i + half % 2 * 2;
        visit(first + lane / 4, (s * kConfig.block_n + 8 * i + lane % 4 * 2) * 4, d[half / 2][s][r],
              d[half / 2][s][r + 1]);
      }
    }
  }
}

// Sends the partials of rows that other CTAs reduce, from registers. The mbarriers of all CTAs of
// the cluster must exist.
template <const ClusterSplitKConfig& kConfig, int kAccumulators, int kFragments, int kRegisters>
CATENARY_DEVICE void send_partials(u32 smem,
                                   const float (&d)[kFragments][kAccumulators][kRegisters],
                                   u32 row) {
  const u32 rank = cluster_rank();
  for_each_accumulator_pair<kConfig>(d, row, [&](u32 r, u32 offset, float first, float second) {
    const u32 to = r / kConfig.reduce_rows;
    if (to == rank) return;
    const u32 address = partials_address<kConfig>(smem, rank, to) +
                        r % kConfig.reduce_rows * kConfig.row_bytes + offset;
    st_async_v2(map_shared(address, to), {f32_to_bits(first), f32_to_bits(second)},
                map_shared(partials_barrier<kConfig>(smem), to));
  });
}

// Stores the partials of the rows that this CTA reduces. The pipeline stages must be free.
template <const ClusterSplitKConfig& kConfig, int kAccumulators, int kFragments, int kRegisters>
CATENARY_DEVICE void store_own_partials(u32 smem,
                                        const float (&d)[kFragments][kAccumulators][kRegisters],
                                        u32 row) {
  const u32 rank = kConfig.cluster_k == 1 ? 0 : cluster_rank();
  for_each_accumulator_pair<kConfig>(d, row, [&](u32 r, u32 offset, float first, float second) {
    if (r / kConfig.reduce_rows != rank) return;
    const u32 address = smem + r % kConfig.reduce_rows * kConfig.row_bytes + offset;
    st_shared_f32x2(address, first, second);
  });
}

// Byte offset in a slot of the sums of squares of row `row` of the slot.
template <const ClusterSplitKConfig& kConfig>
CATENARY_DEVICE u32 row_square_offset(u32 row) {
  return row * kConfig.row_bytes + kConfig.num_accumulators * kConfig.block_n * 4;
}

// Sends part `part` of the sum of squares of row `row` of the tile, if another CTA reduces the row.
template <const ClusterSplitKConfig& kConfig>
CATENARY_DEVICE void send_row_square(u32 smem, u32 row, u32 part, float sum) {
  const u32 rank = cluster_rank();
  const u32 to = row / kConfig.reduce_rows;
  if (to == rank) return;
  const u32 address = partials_address<kConfig>(smem, rank, to) +
                      row_square_offset<kConfig>(row % kConfig.reduce_rows) + part * 8;
  st_async_v2(map_shared(address, to), {f32_to_bits(sum), 0},
              map_shared(partials_barrier<kConfig>(smem), to));
}

// Stores it, if this CTA reduces the row. The pipeline stages must be free.
template <const ClusterSplitKConfig& kConfig>
CATENARY_DEVICE void store_own_row_square(u32 smem, u32 row, u32 part, float sum) {
  const u32 rank = kConfig.cluster_k == 1 ? 0 : cluster_rank();
  if (row / kConfig.reduce_rows != rank) return;
  st_shared_f32(smem + row_square_offset<kConfig>(row % kConfig.reduce_rows) + part * 8, sum);
}

// Adds the sums of squares of row `row` of each slot in this CTA, which has rank `rank`.
template <const ClusterSplitKConfig& kConfig>
CATENARY_DEVICE float reduce_row_squares(u32 smem, u32 rank, u32 row) {
  float sum = 0;
#pragma unroll
  for (u32 from = 0; from < kConfig.cluster_k; ++from) {
    const u32 parts = partials_address<kConfig>(smem, from, rank) + row_square_offset<kConfig>(row);
#pragma unroll
    for (u32 part = 0; part < kSquareParts; ++part) sum += ld_shared_f32(parts + part * 8);
  }
  return sum;
}

// Adds the V partials at `offset` of each slot in this CTA, which has rank `rank`.
template <const ClusterSplitKConfig& kConfig>
CATENARY_DEVICE Vec<kConfig.vec> reduce_partials(u32 smem, u32 rank, u32 offset) {
  constexpr int V = kConfig.vec;
  constexpr u32 kCtas = kConfig.cluster_k;
  static_assert(V % 4 == 0, "slots are read 16 bytes at a time");
  Vec<V> sum;
#pragma unroll
  for (u32 i = 0; i < V / 4; ++i) {
#pragma unroll
    for (u32 from = 0; from < kCtas; ++from) {
      const U32x4 partial =
          ld_shared_v4(partials_address<kConfig>(smem, from, rank) + offset + 16 * i);
      const u32 word[4] = {partial.x, partial.y, partial.z, partial.w};
#pragma unroll
      for (u32 j = 0; j < 4; ++j) {
        const float v = bits_to_f32(word[j]);
        sum.v[4 * i + j] = from == 0 ? v : sum.v[4 * i + j] + v;
      }
    }
  }
  return sum;
}

// V columns of one row that a thread reduces and stores.
struct OutputVector {
  Coord coord;     // valid is 0 if there is nothing to store
  u32 offset = 0;  // in a slot
};

// Vector `index` of the rows that CTA `rank` reduces.
template <const ClusterSplitKConfig& kConfig, class P>
CATENARY_DEVICE OutputVector output_vector(const P& params, const WorkTile& work, u32 rank,
                                           u32 index) {
  constexpr int V = kConfig.vec;
  constexpr u32 kRows = kConfig.reduce_rows;
  constexpr u32 kPerRow = kConfig.block_n / V;
  const u32 column = index % kPerRow * V;
  const i64 m = work.m0 + rank * kRows + index / kPerRow;
  const i64 left = extent_at_launch(kConfig.n, params) - work.n0 - column;
  OutputVector vector;
  vector.offset = index / kPerRow * kConfig.row_bytes + column * 4;
  Coord& coord = vector.coord;
#pragma unroll
  for (int i = 0; i < kMaxDims - 2; ++i) coord.dim[i] = work.batch[i + 2];
  if constexpr (kConfig.split_k > 1) coord.dim[kMaxDims - 3 - kConfig.batch_rank] = work.split;
  coord.dim[kMaxDims - 2] = static_cast<u32>(m);
  coord.dim[kMaxDims - 1] = static_cast<u32>(work.n0 + column);
  const bool mine = work.valid && index < kRows * kPerRow && m < work.m_end && left > 0;
  coord.valid = !mine ? 0 : left < V ? static_cast<i32>(left) : V;
  return vector;
}

// The vectors that a thread reduces and stores, with the operands of their epilogue.
template <const ClusterSplitKConfig& kConfig, class Epilogue>
struct ClusterEpilogue {
  static constexpr u32 kVectors = kConfig.reduce_rows * (kConfig.block_n / kConfig.vec);
  static constexpr u32 kVectorsPerThread = (kVectors + kConfig.threads - 1) / kConfig.threads;
  // The epilogue's weights are loaded before the mainloop if there are registers for them beside
  // the accumulators; after it the whole CTA would wait for DRAM (RESULTS sm90-6).
  static constexpr u32 kWords = kVectorsPerThread * sizeof(typename Epilogue::Operands) / 4;
  static constexpr bool kPrefetchWeights =
      kWords + kConfig.accumulator_registers <= kConfig.max_registers;
  static_assert(kConfig.a_rows % kConfig.cluster_k == 0, "whole rows for each CTA");

  OutputVector vectors[kVectorsPerThread];
  typename Epilogue::Operands operands[kVectorsPerThread];

  // Before the mainloop.
  template <class P>
  CATENARY_DEVICE void prefetch(const P& params, const WorkTile& work) {
    if constexpr (kPrefetchWeights) load_weights(params, work);
  }

  // Finds the thread's vectors and loads their weights.
  template <class P>
  CATENARY_DEVICE void load_weights(const P& params, const WorkTile& work) {
    const u32 rank = kConfig.cluster_k == 1 ? 0 : cluster_rank();
#pragma unroll
    for (u32 i = 0; i < kVectorsPerThread; ++i) {
      vectors[i] = output_vector<kConfig>(params, work, rank, i * kConfig.threads + threadIdx.x);
      if (vectors[i].coord.valid != 0) {
        Epilogue::load_weights(params, vectors[i].coord, operands[i]);
      }
    }
  }
};

// Adds the partials of one vector and runs the epilogue on their sums.
template <const ClusterSplitKConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void store_vector(const P& params, u32 smem, u32 rank, const OutputVector& vector,
                                  const typename Epilogue::Operands& operands) {
  const auto first = reduce_partials<kConfig>(smem, rank, vector.offset);
  const auto store = [&](const auto&... more) {
    if constexpr (kConfig.row_squares) {
      const float squares =
          reduce_row_squares<kConfig>(smem, rank, vector.offset / kConfig.row_bytes);
      Epilogue::store(params, vector.coord, operands, first, more..., splat<kConfig.vec>(squares));
    } else {
      Epilogue::store(params, vector.coord, operands, first, more...);
    }
  };
  if constexpr (kConfig.num_accumulators > 1) {
    store(reduce_partials<kConfig>(smem, rank, vector.offset + kConfig.block_n * 4));
  } else {
    store();
  }
}

// Reduces this CTA's share of the rows and runs the epilogue on them, by all threads of the CTA.
// The CTA barrier orders the stores of its own partials before their loads.
template <const ClusterSplitKConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void reduce_and_store(const P& params, u32 smem, const WorkTile& work,
                                      ClusterEpilogue<kConfig, Epilogue>& epilogue) {
  using Cluster = ClusterEpilogue<kConfig, Epilogue>;
  const u32 rank = kConfig.cluster_k == 1 ? 0 : cluster_rank();
  if constexpr (!Cluster::kPrefetchWeights) epilogue.load_weights(params, work);
#pragma unroll
  for (u32 i = 0; i < Cluster::kVectorsPerThread; ++i) {
    const Coord& coord = epilogue.vectors[i].coord;
    if (coord.valid != 0) Epilogue::load(params, coord, epilogue.operands[i]);
  }

  cta_barrier();
  if constexpr (kConfig.cluster_k > 1) {
    if (work.valid) mbarrier_wait(partials_barrier<kConfig>(smem), 0);
  }
#pragma unroll
  for (u32 i = 0; i < Cluster::kVectorsPerThread; ++i) {
    const OutputVector& vector = epilogue.vectors[i];
    if (vector.coord.valid == 0) continue;
    store_vector<kConfig, Epilogue>(params, smem, rank, vector, epilogue.operands[i]);
  }
}

}  // namespace catenary
