// SPDX-License-Identifier: Apache-2.0
// `skinny`: D[b, m, n] = epilogue(sum over k of X[b, m, k] W[b, n, k]) for small M. It is a weight
// stream: its time is that of reading W once (docs/kernels/skinny.md).
//
//   W of a CTA (rows are n, columns are K blocks of 128 bytes), warps_n = 2, warps_k = 4:
//     16 row_tiles rows | warp 0 | warp 1 | warp 2 | warp 3 |   each warp: its k-slice, all columns
//     16 row_tiles rows | warp 4 | warp 5 | warp 6 | warp 7 |   of X (8, 16 or 24)
//   a warp's W: shared_blocks in shared memory (its slice), then register_blocks in registers
//   shared memory: | mbarriers | slice of warp 0 | slice of warp 1 | ... | DSMEM partials |
//   a slice is reused for the warp's accumulators
//
//   barrier                    arrivals                     phase  meaning
//   mbarrier, per warp, group  lane that expects the bytes  0      the group's rows have arrived
//   warp barrier               32 lanes                     -      the warp's slice has been read
//   CTA barrier                all threads                  -      all accumulators are stored
//   cluster barrier, mbarrier of the partials: skinny_cluster.cuh
//
//   timeline (w_is_weight): PDL trigger | issue all loads of W | load weights of the epilogue |
//     dependency wait | load X chunk, MMAs, next chunk ... | accumulators to shared memory |
//     CTA barrier | add over warps | epilogue, store
//
// All of W is requested before the dependency wait: W streams while the previous kernel still runs.
// With two resident CTAs per SM the next kernel's stream starts while this one computes.
//
// W is A of mma.sync (16 rows), X is B (8 columns). Lane t of the four lanes of a row holds bytes
// [32 t, 32 t + 32) of a block of W and of X. Both see the same permutation of K, and rows are read
// in whole 128-byte lines (RESULTS skinny-31).
#pragma once

#include "epilogue/operand.cuh"
#include "epilogue/ops.cuh"
#include "kernels/row_squares.cuh"
#include "kernels/skinny_cluster.cuh"
#include "kernels/skinny_formed.cuh"
#include "kernels/skinny_gain.cuh"
#include "kernels/skinny_load.cuh"
#include "kernels/skinny_work.cuh"
#include "ptx/cluster.cuh"
#include "ptx/global.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "scheduler/beside.cuh"
#include "smem/fragment.cuh"

namespace catenary {

template <const SkinnyConfig& kConfig>
struct SkinnyTypes {
  static constexpr int kBlocks = kConfig.warp_blocks();
  static constexpr int kColumnTiles = kConfig.tile.columns / 8;
  static constexpr int kXTiles = kConfig.loads.x_columns / 8;
  static constexpr int kRowTiles = kConfig.tile.row_tiles;
  static constexpr int kChunkBlocks =
      (kBlocks + kConfig.loads.x_chunks - 1) / kConfig.loads.x_chunks;
  static constexpr int kElementBytes = kConfig.space.element_bytes();
  static constexpr i64 kMinBlocks = kConfig.least_warp_blocks();
  using WLoad = SkinnyLoad<kConfig, kMinBlocks>;
  static_assert(kConfig.most_slice_blocks() <= i64{kConfig.tile.warps_k} * kBlocks,
                "the warps' slices hold K");
  static_assert(kConfig.schedule.n_slices == 0 ||
                    (kConfig.tile.warps_n == 1 && kConfig.rows() <= kConfig.operand_rows() &&
                     kConfig.schedule.n_slices <= kConfig.n_vectors()),
                "one warp's rows hold a slice of N, which is not empty");
  static_assert(kConfig.vectors() <= kConfig.threads(), "one vector of D per thread");
  static_assert(kConfig.tile.columns % kConfig.loads.x_columns == 0, "x_columns divides columns");
  static_assert(kConfig.ragged.kind == Ragged::kNone ||
                    (!kConfig.loads.w_is_weight && kConfig.k_slices() == 1),
                "the group of a CTA is known after the dependency wait");

  // A lane's 32 bytes of a row's block.
  struct LaneBlock {
    U32x4 half[2];
  };
  struct WeightTile {
    LaneBlock upper, lower;  // rows g and g + 8
  };
  using WeightBlock = WeightTile[kRowTiles];
  using XChunk = LaneBlock[kChunkBlocks][kXTiles];
  using GainChunk = LaneBlock[kChunkBlocks];
  using Accumulators = float[kRowTiles][kColumnTiles][4];
  using Squares = typename RowSquares<kConfig.row_squares, kConfig.squares_by_mma(),
                                      kConfig.space.math, kColumnTiles>::Type;
};

// Whether load groups of W are issued one after another (BulkLoad): with PDL, or in M-grouped
// kernels, where other CTAs load X at the same time.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE bool staggers_loads(const P& params) {
  return kConfig.ragged.kind != Ragged::kNone || params.pdl != 0;
}

// Issues the loads of the warp's slice (kernels/skinny_load.cuh) and runs during_load() meanwhile.
template <const SkinnyConfig& kConfig, class P, class DuringLoad>
CATENARY_DEVICE void start_w_loads(const P& params, const SkinnyWorkTile& work, u32 slice,
                                   u32 barriers, const DuringLoad& during_load) {
  using T = SkinnyTypes<kConfig>;
  if constexpr (kConfig.loads.shared_blocks == 0) {
    during_load();
  } else {
    constexpr i32 kChunks = kConfig.loads.shared_blocks * 8;
    const bool full = T::kMinBlocks * 8 >= kChunks || work.chunks >= kChunks;
    constexpr u32 kRows = kConfig.slice_rows() / kConfig.num_accumulators();
    T::WLoad::start(
        slice, barriers, {work.rows, full ? kChunks : work.chunks}, staggers_loads<kConfig>(params),
        [&](u32 row) { return weight_row<kConfig>(params, work, row >= kRows, row % kRows); },
        during_load);
  }
}

// Loads the K blocks of W that follow those in shared memory into registers.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE void load_register_blocks(const P& params, const SkinnyWorkTile& work,
                                          typename SkinnyTypes<kConfig>::WeightBlock* weights) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (int t = 0; t < kConfig.tile.row_tiles; ++t) {
    constexpr u32 kRows = kConfig.operand_rows();
    const u32 row = t * 16 + lane / 4;
    const u8* upper = weight_row<kConfig>(params, work, row >= kRows, row % kRows) + lane % 4 * 32;
    const u8* lower =
        weight_row<kConfig>(params, work, row + 8 >= kRows, (row + 8) % kRows) + lane % 4 * 32;
    const bool has_upper = has_row<kConfig>(work, row);
    const bool has_lower = has_row<kConfig>(work, row + 8);
#pragma unroll
    for (int i = 0; i < kConfig.loads.register_blocks; ++i) {
      const int block = kConfig.loads.shared_blocks + i;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        weights[i][t].upper.half[half] = {0, 0, 0, 0};
        weights[i][t].lower.half[half] = {0, 0, 0, 0};
        if (!has_chunk<kConfig>(work, block, half)) continue;
        const i32 at = block * 128 + half * 16;
        if (has_upper) weights[i][t].upper.half[half] = ld_global_weight_v4(upper + at);
        if (has_lower) weights[i][t].lower.half[half] = ld_global_weight_v4(lower + at);
      }
    }
  }
}

// X of one chunk of K blocks: rows first_row + lane / 4 + 8 j of the m rows from work.m0 on. Rows
// past m are zero.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE void load_x(const P& params, const SkinnyWorkTile& work, int chunk, u32 first_row,
                            i64 m, typename SkinnyTypes<kConfig>::XChunk& x) {
  using T = SkinnyTypes<kConfig>;
  const u32 lane = threadIdx.x % 32;
  const u32 row = first_row + lane / 4;
  const u8* base = skinny_row<kConfig, kConfig.x>(params, work, work.m0 + row) + lane % 4 * 32;
#pragma unroll
  for (int i = T::kChunkBlocks - 1; i >= 0; --i) {
    const int block = chunk * T::kChunkBlocks + i;
#pragma unroll
    for (int j = 0; j < T::kXTiles; ++j) {
      const bool inside = block < T::kBlocks && row + 8 * j < m;
      const u8* p = base + j * 8 * kConfig.x.stride_row * T::kElementBytes + block * 128;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        x[i][j].half[half] = {0, 0, 0, 0};
        if (inside && has_chunk<kConfig>(work, block, half))
          x[i][j].half[half] = ld_global_v4(p + half * 16);
      }
    }
  }
}

// Offset in the slice of the row of W that row `row` of the MMAs multiplies. Rows that the CTA does
// not have are clamped to its last row: they need no zeros, since their results are not stored.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE u32 slice_row(const SkinnyWorkTile& work, u32 row) {
  if constexpr (kConfig.schedule.n_slices == 0) return row * kConfig.row_bytes();
  const u32 last = static_cast<u32>(work.rows) - 1;
  const u32 index = row % kConfig.operand_rows();
  return (row / kConfig.operand_rows() * kConfig.rows() + (index < last ? index : last)) *
         kConfig.row_bytes();
}

template <const SkinnyConfig& kConfig>
CATENARY_DEVICE typename SkinnyTypes<kConfig>::WeightTile read_tile(const SkinnyWorkTile& work,
                                                                    u32 slice, int block, int t) {
  const u32 lane = threadIdx.x % 32;
  const u32 from = slice + block * 128 + lane % 4 * 32;
  const u32 upper = from + slice_row<kConfig>(work, t * 16 + lane / 4);
  const u32 lower = from + slice_row<kConfig>(work, t * 16 + lane / 4 + 8);
  typename SkinnyTypes<kConfig>::WeightTile weights = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (!has_chunk<kConfig>(work, block, half)) continue;
    weights.upper.half[half] = ld_shared_v4(upper + half * 16);
    weights.lower.half[half] = ld_shared_v4(lower + half * 16);
  }
  return weights;
}

// The MMAs of 16 rows of W, one K block and x_columns columns from column tile `first` on. Each
// half (16 bytes of a lane) is two k-blocks of mma.sync.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE void mma_tile(const typename SkinnyTypes<kConfig>::WeightTile& weights,
                              const typename SkinnyTypes<kConfig>::LaneBlock* x, int first,
                              float (&acc)[SkinnyTypes<kConfig>::kColumnTiles][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    U32x4 upper = weights.upper.half[half];
    U32x4 lower = weights.lower.half[half];
    round_fragment<kConfig.space.math>(upper);
    round_fragment<kConfig.space.math>(lower);
#pragma unroll
    for (int j = 0; j < SkinnyTypes<kConfig>::kXTiles; ++j) {
      U32x4 b = x[j].half[half];
      round_fragment<kConfig.space.math>(b);
      mma_sync<kConfig.space.math>(acc[first + j], {upper.x, lower.x, upper.y, lower.y}, b.x, b.y);
      mma_sync<kConfig.space.math>(acc[first + j], {upper.z, lower.z, upper.w, lower.w}, b.z, b.w);
    }
  }
}

// The MMAs of the warp's K blocks, the last chunk first: blocks in registers need no wait. w_ready:
// an earlier call has waited for all of W.
template <const SkinnyConfig& kConfig, class Form, class P>
CATENARY_DEVICE void mma_slice(const P& params, const SkinnyWorkTile& work, i64 m, u32 slice,
                               u32 barriers, XFormer<kConfig, Form>& former,
                               const typename SkinnyTypes<kConfig>::WeightBlock* registers,
                               typename SkinnyTypes<kConfig>::Accumulators& acc,
                               typename SkinnyTypes<kConfig>::Squares& squares,
                               bool w_ready = false) {
  using T = SkinnyTypes<kConfig>;
  // MMAs of squares fill the waits of W's. With a gain they come first: X is not yet scaled.
  constexpr bool kSquaresWithMmas = kConfig.squares_by_mma() && !kConfig.gain.used;
  typename T::XChunk x;
#pragma unroll
  for (int chunk = kConfig.loads.x_chunks - 1; chunk >= 0; --chunk) {
    const int first = chunk * T::kChunkBlocks;
    typename T::GainChunk gain;
    if constexpr (kConfig.gain.used) load_gain<kConfig>(params, work, chunk, gain);
#pragma unroll
    for (int column = 0; column < kConfig.tile.columns; column += kConfig.loads.x_columns) {
      if constexpr (kConfig.formed.used) {
        former.form(params, work, chunk, column, m, x, squares);
      } else {
        load_x<kConfig>(params, work, chunk, column, m, x);
        if constexpr (kConfig.row_squares && !kSquaresWithMmas) {
#pragma unroll
          for (int i = 0; i < T::kChunkBlocks; ++i) squares.add_block(column / 8, x[i]);
        }
        if constexpr (kConfig.gain.used) scale_chunk<kConfig>(gain, x);
      }
      if (!w_ready && column == 0) T::WLoad::wait(barriers, first, first + T::kChunkBlocks);
#pragma unroll
      for (int i = T::kChunkBlocks - 1; i >= 0; --i) {
        const int block = first + i;
        if (block >= T::kBlocks || !has_block<kConfig>(work, block)) continue;
        if constexpr (kSquaresWithMmas) squares.add_block(column / 8, x[i]);
#pragma unroll
        for (int t = 0; t < kConfig.tile.row_tiles; ++t) {
          if (block >= kConfig.loads.shared_blocks) {
            mma_tile<kConfig>(registers[block - kConfig.loads.shared_blocks][t], x[i], column / 8,
                              acc[t]);
          } else {
            mma_tile<kConfig>(read_tile<kConfig>(work, slice, block, t), x[i], column / 8, acc[t]);
          }
        }
      }
    }
  }
}

// Stores the warp's accumulators as [column][row] at shared address `to`, and after each column's
// rows its sum of squares.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE void store_accumulators(u32 to,
                                        const typename SkinnyTypes<kConfig>::Accumulators& acc,
                                        const typename SkinnyTypes<kConfig>::Squares& squares) {
  using T = SkinnyTypes<kConfig>;
  const u32 lane = threadIdx.x % 32;
  // All lanes arrive: they have read the slice, which `to` may overwrite.
  warp_barrier();
  squares.store(to + kConfig.warp_rows() * 4, kConfig.sum_row() * 4);
#pragma unroll
  for (int t = 0; t < kConfig.tile.row_tiles; ++t) {
#pragma unroll
    for (int j = 0; j < T::kColumnTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 column = j * 8 + lane % 4 * 2 + e % 2;
        const u32 row = t * 16 + lane / 4 + e / 2 * 8;
        st_shared_f32(to + (column * kConfig.sum_row() + row) * 4, acc[t][j][e]);
      }
    }
  }
}

// Adds one accumulator (0, or 1 for W2) of D's vector at `column` and the CTA's n index `row` over
// the warps along K, in ascending order. stored: shared address of warp 0's accumulators.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE Vec<kConfig.vec> reduce_warps(u32 stored, u32 column, u32 row, int accumulator) {
  constexpr u32 kRows = kConfig.operand_rows();
  const u32 from = stored + row / kRows * kConfig.tile.warps_k * kConfig.slice_bytes() +
                   (column * kConfig.sum_row() + accumulator * kRows + row % kRows) * 4;
  Vec<kConfig.vec> total;
#pragma unroll
  for (int i = 0; i < kConfig.vec; ++i) {
    total.v[i] = ld_shared_f32(from + i * 4);
#pragma unroll
    for (int warp = 1; warp < kConfig.tile.warps_k; ++warp) {
      total.v[i] += ld_shared_f32(from + warp * kConfig.slice_bytes() + i * 4);
    }
  }
  return total;
}

// Coordinates of this thread's vector of D; valid is 0 for threads without one. Only m may be
// symbolic. The CTAs of a cluster store every cluster_k-th column.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE Coord skinny_coord(const SkinnyWorkTile& work, i64 m) {
  const u32 column = SkinnyCluster<kConfig>::column(SkinnyCluster<kConfig>::rank());
  const i64 n = work.n0 + SkinnyCluster<kConfig>::row();
  Coord at;
#pragma unroll
  for (int b = 1; b <= kConfig.space.batch_rank; ++b) {
    at.dim[kMaxDims - 2 - b] = work.batch[kMaxDims - b];
  }
  at.dim[kMaxDims - 1] = static_cast<u32>(n);
  at.dim[kMaxDims - 2] = static_cast<u32>(work.m0) + column;
  if constexpr (kConfig.schedule.split_k > 1)
    at.dim[kMaxDims - 3 - kConfig.space.batch_rank] = work.split;
  if constexpr (kConfig.ragged.kind == Ragged::kMGrouped)
    at.group = work.group < kConfig.ragged.num_groups ? work.group : kNoGroup;
  i64 left = column < m ? kConfig.space.n.size - n : 0;
  if constexpr (kConfig.schedule.n_slices > 0) {
    if (SkinnyCluster<kConfig>::row() >= static_cast<u32>(work.rows)) left = 0;
  }
  at.valid = left < kConfig.vec ? static_cast<i32>(left) : kConfig.vec;
  return at;
}

// Partials of this thread's vector in the columns of CTA `to`: sums over the warps of this CTA.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE void reduce_vector(u32 stored, u32 to,
                                   typename SkinnyCluster<kConfig>::Partials& partials,
                                   float& squares) {
  using Cluster = SkinnyCluster<kConfig>;
#pragma unroll
  for (int s = 0; s < kConfig.num_accumulators(); ++s) {
    partials[s] = reduce_warps<kConfig>(stored, Cluster::column(to), Cluster::row(), s);
  }
  if constexpr (kConfig.row_squares) {
    const u32 at = Cluster::column(to) * kConfig.sum_row() + kConfig.warp_rows();
    squares = reduce_squares<typename SkinnyTypes<kConfig>::Squares, kConfig.tile.warps_k>(
        stored + at * 4, kConfig.slice_bytes());
  }
}

// Sends partials to the CTAs of the cluster that store them. Columns past m and vectors past the
// CTA's rows are not sent.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE void send_partials(const SkinnyWorkTile& work, u32 stored, i64 m) {
  using Cluster = SkinnyCluster<kConfig>;
  if (Cluster::row() >= static_cast<u32>(work.rows)) return;
#pragma unroll
  for (u32 distance = 1; distance < kConfig.schedule.cluster_k; ++distance) {
    const u32 to = (Cluster::rank() + distance) % kConfig.schedule.cluster_k;
    if (Cluster::column(to) >= m) continue;
    typename Cluster::Partials partials;
    float squares = 0;
    reduce_vector<kConfig>(stored, to, partials, squares);
    Cluster::send(partials, squares, to);
  }
}

// Reduces this thread's vector of D over warps and cluster, runs the epilogue and stores the
// result.
template <const SkinnyConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void store_vector(const P& params, u32 stored, const Coord& at,
                                  const typename Epilogue::Operands& operands) {
  using Cluster = SkinnyCluster<kConfig>;
  typename Cluster::Partials partials;
  float squares = 0;
  reduce_vector<kConfig>(stored, Cluster::rank(), partials, squares);
  if constexpr (kConfig.schedule.cluster_k > 1) Cluster::add_partials(partials, squares);
  if constexpr (kConfig.dual && kConfig.row_squares) {
    Epilogue::store(params, at, operands, partials[0], partials[1], splat<kConfig.vec>(squares));
  } else if constexpr (kConfig.dual) {
    Epilogue::store(params, at, operands, partials[0], partials[1]);
  } else if constexpr (kConfig.row_squares) {
    Epilogue::store(params, at, operands, partials[0], splat<kConfig.vec>(squares));
  } else {
    Epilogue::store(params, at, operands, partials[0]);
  }
}

// Form: PlainX, or how X is formed.
template <const SkinnyConfig& kConfig, class Epilogue, class Form = PlainX, class P>
CATENARY_DEVICE void skinny(const P& params, const CtaRange& ctas = whole_grid()) {
  using T = SkinnyTypes<kConfig>;
  griddepcontrol_launch_dependents();
  const i64 m = extent_at_launch(kConfig.space.m, params);
  const SkinnyWorkTile work = find_skinny_work<kConfig>(ctas.index);
  if constexpr (kConfig.schedule.cluster_k > 1) SkinnyCluster<kConfig>::begin(m, work.rows);
  if constexpr (!kConfig.loads.w_is_weight) griddepcontrol_wait();

  const u32 warp = threadIdx.x / 32;
  const u32 barriers = dynamic_smem() + warp * kConfig.loads.copy_groups * 8;
  const u32 slices = dynamic_smem() + kConfig.barrier_bytes();
  const u32 slice = slices + warp * kConfig.slice_bytes();

  typename T::WeightBlock
      registers[kConfig.loads.register_blocks > 0 ? kConfig.loads.register_blocks : 1];
  load_register_blocks<kConfig>(params, work, registers);
  typename Epilogue::Operands operands;
  // The epilogue's weights are unpacked at once, so the warp waits for them: after its loads of W.
  start_w_loads<kConfig>(params, work, slice, barriers, [&] {
    const Coord early = skinny_coord<kConfig>(work, m);
    if (early.valid > 0) Epilogue::load_weights(params, early, operands);
  });
  if constexpr (kConfig.gain.used && kConfig.gain.weight) prefetch_gain<kConfig>(params, work);
  // Before sm_90 the dependency wait is no instruction, and ptxas would move register loads of W
  // down between the MMAs, with fewer loads in flight (RESULTS skinny-32). It moves none below a
  // barrier.
  if constexpr (!kConfig.loads.bulk) warp_barrier();
  if constexpr (kConfig.loads.w_is_weight) griddepcontrol_wait();

  XFormer<kConfig, Form> former;
  if constexpr (kConfig.formed.used) former.prepare(params, work, m);
  typename T::Accumulators acc = {};
  typename T::Squares squares;
  mma_slice<kConfig>(params, work, m, slice, barriers, former, registers, acc, squares);
  const Coord at = skinny_coord<kConfig>(work, m);
  if (at.valid > 0) Epilogue::load(params, at, operands);
  store_accumulators<kConfig>(slice, acc, squares);
  // All threads arrive: the accumulators of all warps are visible.
  cta_barrier();
  if constexpr (kConfig.schedule.cluster_k > 1) {
    // Row sums have waited for it.
    if constexpr (kConfig.formed.sums == 0) cluster_wait();
    send_partials<kConfig>(work, slices, m);
  }
  if (at.valid > 0) store_vector<kConfig, Epilogue>(params, slices, at, operands);
}

}  // namespace catenary
