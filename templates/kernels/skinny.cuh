// SPDX-License-Identifier: Apache-2.0
// `skinny`: a contraction of so few rows X that the time is that of reading W once. A CTA has 16,
// 32 or 64 rows of W per row of warps; the warps of that row share K, each with a slice of its own:
//
//   warp (wk, wn):  rows n0 + R wn .. +R,   K blocks [b0, b1), of 128 bytes each;  R = 16 row_tiles
//   slice:          R rows x (shared_blocks x 128 + 16) bytes | register_blocks in registers
//
// The CTAs of a cluster share K too (kernels/skinny_cluster.cuh). What a warp loads of X meets all
// of its rows of W: with 16 rows of X, whose way into registers costs as much as the stream, a warp
// has 32 rows of W and half of their K.
//
// All of W is asked for before the dependency wait, so that the stream of one kernel runs while the
// kernel before it waits, multiplies and drains; with two CTAs of different kernels on each SM,
// memory is never idle. What is left behind the wait is little: X straight into fragments, the
// products, one sum over the warps, the epilogue.
//
// W is the 16-row operand of mma.sync, X the 8-column one. Within a block, lane t of a row's four
// holds bytes [32 t, 32 t + 32) of W and of X alike: both see the same permutation of K, and each
// row is read in whole 128-byte lines. (64-byte pieces, 16 bytes a lane, made eight rows of X
// 0.45 us slower on an H200.)
#pragma once

#include "epilogue/ops.cuh"
#include "kernels/skinny_cluster.cuh"
#include "kernels/skinny_load.cuh"
#include "ptx/cluster.cuh"
#include "ptx/global.cuh"
#include "ptx/mma.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "smem/fragment.cuh"

namespace catenary {

template <const SkinnyConfig& kConfig>
struct SkinnyTypes {
  static constexpr int kBlocks = kConfig.warp_blocks();
  static constexpr int kTiles = kConfig.columns / 8;
  static constexpr int kPartTiles = kConfig.x_columns / 8;
  static constexpr int kRowTiles = kConfig.row_tiles;
  static constexpr int kPartBlocks = (kBlocks + kConfig.x_chunks - 1) / kConfig.x_chunks;
  static constexpr int kElementBytes = is_16bit(kConfig.math) ? 2 : 4;
  // Blocks that every warp has.
  static constexpr i64 kLeast = kConfig.k_blocks / kConfig.k_slices() / kConfig.warps_k;
  using Copies = SkinnyLoad<kConfig, kLeast>;
  static_assert((kConfig.k_blocks + kConfig.k_slices() - 1) / kConfig.k_slices() <=
                    i64{kConfig.warps_k} * kBlocks,
                "the warps' slices hold K");
  static_assert(kConfig.vectors() <= kConfig.threads(), "one vector of D per thread");
  static_assert(kConfig.columns % kConfig.x_columns == 0, "whole parts of the columns");
  static_assert(kConfig.ragged == Ragged::kNone ||
                    (!kConfig.w_is_weight && kConfig.k_slices() == 1),
                "which W a CTA reads is known behind the wait");

  // Two 16-byte pieces of a row's block.
  struct Pieces {
    U32x4 half[2];
  };
  struct WeightTile {
    Pieces upper, lower;  // rows g and g + 8
  };
  using WeightBlock = WeightTile[kRowTiles];
  using XPart = Pieces[kPartBlocks][kPartTiles];
  using Sums = float[kRowTiles][kTiles][4];
};

// What a CTA and this thread's warp compute.
struct SkinnyWorkTile {
  u32 batch[kMaxDims] = {};  // right-aligned
  u32 split = 0;
  u32 group = 0;    // ragged
  i64 m0 = 0;       // first row of D's m
  i64 n0 = 0;       // first row of D's n
  i64 block0 = 0;   // first K block of the warp
  i32 blocks = 0;   // of the warp
  u32 ordinal = 0;  // of the group among those that have rows
};

template <const SkinnyConfig& kConfig>
CATENARY_DEVICE SkinnyWorkTile find_skinny_work() {
  constexpr i64 kTiles = (kConfig.n.size + kConfig.rows() - 1) / kConfig.rows();
  const u32 warp_k = threadIdx.x / 32 % kConfig.warps_k;
  SkinnyWorkTile work;
  u32 index = blockIdx.x;
  const u32 part = index % kConfig.k_slices();
  work.split = part / kConfig.cluster_k;
  index /= kConfig.k_slices();
  work.n0 = static_cast<i64>(index % kTiles) * kConfig.rows();
  index /= kTiles;
#pragma unroll
  for (int d = kMaxDims - 1; d >= kMaxDims - kConfig.batch_rank; --d) {
    const u32 size = static_cast<u32>(kConfig.batch.at[d].size);
    work.batch[d] = index % size;
    index /= size;
  }
  work.ordinal = index;
  const i64 begin = kConfig.k_blocks * part / kConfig.k_slices();
  const i64 count = kConfig.k_blocks * (part + 1) / kConfig.k_slices() - begin;
  work.block0 = begin + count * warp_k / kConfig.warps_k;
  work.blocks = static_cast<i32>(begin + count * (warp_k + 1) / kConfig.warps_k - work.block0);
  return work;
}

// Address of an operand's row at the warp's first block.
template <const SkinnyConfig& kConfig, MatrixOperand kOperand, class P>
CATENARY_DEVICE const u8* skinny_row(const P& params, const SkinnyWorkTile& work, i64 row) {
  i64 offset = row * kOperand.stride_row;
#pragma unroll
  for (int d = kMaxDims - kConfig.batch_rank; d < kMaxDims; ++d) {
    if (kOperand.stride_batch.at[d] != 0) {
      offset += static_cast<i64>(work.batch[d]) * kOperand.stride_batch.at[d];
    }
  }
  if constexpr (kConfig.ragged != Ragged::kNone) {
    offset += static_cast<i64>(work.group) * kOperand.stride_group;
  }
  return static_cast<const u8*>(params.ptr[kOperand.slot]) +
         offset * SkinnyTypes<kConfig>::kElementBytes + work.block0 * 128;
}

// Row `row` (0 .. R - 1) of the warp's W. Rows behind the last are the last again: read in bounds,
// and never stored.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE const u8* weight_row(const P& params, const SkinnyWorkTile& work, u32 row) {
  const u32 warp_n = threadIdx.x / 32 / kConfig.warps_k;
  constexpr u32 kRows = kConfig.warp_rows() / kConfig.num_accumulators();
  i64 n = work.n0 + warp_n * kRows + row % kRows;
  if (kConfig.n.size % kConfig.rows() != 0 && n >= kConfig.n.size) n = kConfig.n.size - 1;
  if constexpr (kConfig.dual) {
    if (row >= kRows) return skinny_row<kConfig, kConfig.w2>(params, work, n);
  }
  return skinny_row<kConfig, kConfig.w>(params, work, n);
}

// Ragged CTAs ask for W behind the wait, beside the X of those that were there before them.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE bool staggers_loads(const P& params) {
  return kConfig.ragged != Ragged::kNone || params.pdl != 0;
}

// Starts the copies of the warp's blocks in shared memory (kernels/skinny_load.cuh), and runs
// `meanwhile` beside them.
template <const SkinnyConfig& kConfig, class P, class Meanwhile>
CATENARY_DEVICE void start_w_loads(const P& params, const SkinnyWorkTile& work, u32 slice,
                                   u32 barriers, const Meanwhile& meanwhile) {
  using T = SkinnyTypes<kConfig>;
  if constexpr (kConfig.shared_blocks == 0) {
    meanwhile();
  } else {
    const bool full = T::kLeast >= kConfig.shared_blocks || work.blocks >= kConfig.shared_blocks;
    const i32 blocks = full ? kConfig.shared_blocks : work.blocks;
    T::Copies::start(
        slice, barriers, blocks, staggers_loads<kConfig>(params),
        [&](u32 row) { return weight_row<kConfig>(params, work, row); }, meanwhile);
  }
}

template <const SkinnyConfig& kConfig>
CATENARY_DEVICE bool has_block(const SkinnyWorkTile& work, int block) {
  return block < SkinnyTypes<kConfig>::kLeast || block < work.blocks;
}

// The blocks of W that wait in registers, behind those in shared memory.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE void load_register_blocks(const P& params, const SkinnyWorkTile& work,
                                          typename SkinnyTypes<kConfig>::WeightBlock* weights) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (int t = 0; t < kConfig.row_tiles; ++t) {
    const u8* upper = weight_row<kConfig>(params, work, t * 16 + lane / 4) + lane % 4 * 32;
    const u8* lower = weight_row<kConfig>(params, work, t * 16 + lane / 4 + 8) + lane % 4 * 32;
#pragma unroll
    for (int i = 0; i < kConfig.register_blocks; ++i) {
      const int block = kConfig.shared_blocks + i;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        weights[i][t].upper.half[half] = {0, 0, 0, 0};
        weights[i][t].lower.half[half] = {0, 0, 0, 0};
        if (!has_block<kConfig>(work, block)) continue;
        weights[i][t].upper.half[half] = ld_global_weight_v4(upper + block * 128 + half * 16);
        weights[i][t].lower.half[half] = ld_global_weight_v4(lower + block * 128 + half * 16);
      }
    }
  }
}

// Part `part` of X: rows first + lane / 4 + 8 j of the m from m0 on; rows that do not exist are
// zero.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE void load_x(const P& params, const SkinnyWorkTile& work, int part, u32 first, i64 m,
                            typename SkinnyTypes<kConfig>::XPart& x) {
  using T = SkinnyTypes<kConfig>;
  const u32 lane = threadIdx.x % 32;
  const u32 row = first + lane / 4;
  const u8* base = skinny_row<kConfig, kConfig.x>(params, work, work.m0 + row) + lane % 4 * 32;
#pragma unroll
  for (int i = T::kPartBlocks - 1; i >= 0; --i) {
    const int block = part * T::kPartBlocks + i;
#pragma unroll
    for (int j = 0; j < T::kPartTiles; ++j) {
      const bool inside = block < T::kBlocks && has_block<kConfig>(work, block) && row + 8 * j < m;
      const u8* p = base + j * 8 * kConfig.x.stride_row * T::kElementBytes + block * 128;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        x[i][j].half[half] = {0, 0, 0, 0};
        if (inside) x[i][j].half[half] = ld_global_v4(p + half * 16);
      }
    }
  }
}

template <const SkinnyConfig& kConfig>
CATENARY_DEVICE typename SkinnyTypes<kConfig>::WeightTile read_tile(u32 slice, int block, int t) {
  const u32 lane = threadIdx.x % 32;
  const u32 row = slice + (t * 16 + lane / 4) * kConfig.row_bytes() + block * 128 + lane % 4 * 32;
  typename SkinnyTypes<kConfig>::WeightTile weights;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    weights.upper.half[half] = ld_shared_v4(row + half * 16);
    weights.lower.half[half] = ld_shared_v4(row + 8 * kConfig.row_bytes() + half * 16);
  }
  return weights;
}

// 16 rows of one block and some of its columns, from tile `first` on: two pieces of 16 bytes a
// lane, each two steps of mma.sync.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE void mma_tile(const typename SkinnyTypes<kConfig>::WeightTile& weights,
                              const typename SkinnyTypes<kConfig>::Pieces* x, int first,
                              float (&sums)[SkinnyTypes<kConfig>::kTiles][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    U32x4 upper = weights.upper.half[half];
    U32x4 lower = weights.lower.half[half];
    round_fragment<kConfig.math>(upper);
    round_fragment<kConfig.math>(lower);
#pragma unroll
    for (int j = 0; j < SkinnyTypes<kConfig>::kPartTiles; ++j) {
      U32x4 b = x[j].half[half];
      round_fragment<kConfig.math>(b);
      mma_sync<kConfig.math>(sums[first + j], {upper.x, lower.x, upper.y, lower.y}, b.x, b.y);
      mma_sync<kConfig.math>(sums[first + j], {upper.z, lower.z, upper.w, lower.w}, b.z, b.w);
    }
  }
}

// Products of the warp's slice. Blocks in registers first: X's last part is asked for first.
// `landed`: an earlier call has waited for all of W.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE void mma_slice(const P& params, const SkinnyWorkTile& work, i64 m, u32 slice,
                               u32 barriers,
                               const typename SkinnyTypes<kConfig>::WeightBlock* registers,
                               typename SkinnyTypes<kConfig>::Sums& sums, bool landed = false) {
  using T = SkinnyTypes<kConfig>;
  typename T::XPart x;
#pragma unroll
  for (int part = kConfig.x_chunks - 1; part >= 0; --part) {
    const int first = part * T::kPartBlocks;
#pragma unroll
    for (int column = 0; column < kConfig.columns; column += kConfig.x_columns) {
      load_x<kConfig>(params, work, part, column, m, x);
      if (!landed && column == 0) T::Copies::wait(barriers, first, first + T::kPartBlocks);
#pragma unroll
      for (int i = T::kPartBlocks - 1; i >= 0; --i) {
        const int block = first + i;
        if (block >= T::kBlocks || !has_block<kConfig>(work, block)) continue;
#pragma unroll
        for (int t = 0; t < kConfig.row_tiles; ++t) {
          if (block >= kConfig.shared_blocks) {
            mma_tile<kConfig>(registers[block - kConfig.shared_blocks][t], x[i], column / 8,
                              sums[t]);
          } else {
            mma_tile<kConfig>(read_tile<kConfig>(slice, block, t), x[i], column / 8, sums[t]);
          }
        }
      }
    }
  }
}

// The warp's sums, as [column][row], to their place: in its own slice, or behind it. All its lanes
// have read the slice: the products that they arrive with depend on it.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE void store_accumulators(u32 area, const typename SkinnyTypes<kConfig>::Sums& sums) {
  using T = SkinnyTypes<kConfig>;
  const u32 lane = threadIdx.x % 32;
  warp_barrier();
#pragma unroll
  for (int t = 0; t < kConfig.row_tiles; ++t) {
#pragma unroll
    for (int j = 0; j < T::kTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 column = j * 8 + lane % 4 * 2 + e % 2;
        const u32 row = t * 16 + lane / 4 + e / 2 * 8;
        st_shared_f32(area + (column * kConfig.sum_row() + row) * 4, sums[t][j][e]);
      }
    }
  }
}

// Sum number `sum` of D's vector (column m, rows from `row` of the CTA's): the warps along K in
// ascending order. `sums`: those of the first warp.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE Vec<kConfig.vec> reduce_warps(u32 sums, u32 column, u32 row, int sum) {
  constexpr u32 kRows = kConfig.warp_rows() / kConfig.num_accumulators();
  const u32 from = sums + row / kRows * kConfig.warps_k * kConfig.slice_bytes() +
                   (column * kConfig.sum_row() + sum * kRows + row % kRows) * 4;
  Vec<kConfig.vec> total;
#pragma unroll
  for (int i = 0; i < kConfig.vec; ++i) {
    total.v[i] = ld_shared_f32(from + i * 4);
#pragma unroll
    for (int warp = 1; warp < kConfig.warps_k; ++warp) {
      total.v[i] += ld_shared_f32(from + warp * kConfig.slice_bytes() + i * 4);
    }
  }
  return total;
}

// Where this thread's vector of D stands, of the m rows from m0 on; valid is 0 for threads without
// one. M alone may be unknown until launch. A cluster's columns go around its CTAs.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE Coord skinny_coord(const SkinnyWorkTile& work, i64 m) {
  const u32 column = SkinnyCluster<kConfig>::column(SkinnyCluster<kConfig>::rank());
  const i64 n = work.n0 + SkinnyCluster<kConfig>::row();
  Coord at;
#pragma unroll
  for (int b = 1; b <= kConfig.batch_rank; ++b) {
    at.dim[kMaxDims - 2 - b] = work.batch[kMaxDims - b];
  }
  at.dim[kMaxDims - 1] = static_cast<u32>(n);
  at.dim[kMaxDims - 2] = static_cast<u32>(work.m0) + column;
  if constexpr (kConfig.split_k > 1) at.dim[kMaxDims - 3 - kConfig.batch_rank] = work.split;
  const i64 left = column < m ? kConfig.n.size - n : 0;
  at.valid = left < kConfig.vec ? static_cast<i32>(left) : kConfig.vec;
  return at;
}

// The sums of this thread's vector in the columns of CTA `to`, added over the warps of this CTA.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE void reduce_vector(u32 sums, u32 to, typename SkinnyCluster<kConfig>::Sums& own) {
  using Cluster = SkinnyCluster<kConfig>;
#pragma unroll
  for (int s = 0; s < kConfig.num_accumulators(); ++s) {
    own[s] = reduce_warps<kConfig>(sums, Cluster::column(to), Cluster::row(), s);
  }
}

// What other CTAs of the cluster add, of the m rows of X.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE void send_partials(u32 sums, i64 m) {
  using Cluster = SkinnyCluster<kConfig>;
#pragma unroll
  for (u32 step = 1; step < kConfig.cluster_k; ++step) {
    const u32 to = (Cluster::rank() + step) % kConfig.cluster_k;
    if (Cluster::column(to) >= m) continue;
    typename Cluster::Sums own;
    reduce_vector<kConfig>(sums, to, own);
    Cluster::send(own, to);
  }
}

// Adds the sums of this thread's vector of D and stores what the epilogue makes of them.
template <const SkinnyConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void store_vector(const P& params, u32 sums, const Coord& at,
                                  const typename Epilogue::Operands& operands) {
  using Cluster = SkinnyCluster<kConfig>;
  typename Cluster::Sums own;
  reduce_vector<kConfig>(sums, Cluster::rank(), own);
  if constexpr (kConfig.cluster_k > 1) Cluster::add_partials(own);
  if constexpr (kConfig.dual) {
    Epilogue::store(params, at, operands, own[0], own[1]);
  } else {
    Epilogue::store(params, at, operands, own[0]);
  }
}

template <const SkinnyConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void skinny(const P& params) {
  using T = SkinnyTypes<kConfig>;
  griddepcontrol_launch_dependents();
  const i64 m = extent_at_launch(kConfig.m, params);
  if constexpr (kConfig.cluster_k > 1) SkinnyCluster<kConfig>::begin(m);
  if constexpr (!kConfig.w_is_weight) griddepcontrol_wait();

  const SkinnyWorkTile work = find_skinny_work<kConfig>();
  const u32 warp = threadIdx.x / 32;
  const u32 barriers = dynamic_smem() + warp * kConfig.copy_groups * 8;
  const u32 slices = dynamic_smem() + kConfig.barrier_bytes();
  const u32 slice = slices + warp * kConfig.slice_bytes();

  typename T::WeightBlock registers[kConfig.register_blocks > 0 ? kConfig.register_blocks : 1];
  load_register_blocks<kConfig>(params, work, registers);
  typename Epilogue::Operands operands;
  // The epilogue's weights: a warp waits for them where they are unpacked, and so behind its
  // copies.
  start_w_loads<kConfig>(params, work, slice, barriers, [&] {
    const Coord early = skinny_coord<kConfig>(work, m);
    if (early.valid > 0) Epilogue::load_weights(params, early, operands);
  });
  // Before sm_90 the wait is no instruction, and ptxas moves the loads of W down between the
  // products (10 blocks in 110 registers, not in 210): fewer would be on their way. They stay
  // above a barrier.
  if constexpr (!kConfig.bulk) warp_barrier();
  if constexpr (kConfig.w_is_weight) griddepcontrol_wait();

  typename T::Sums sums = {};
  mma_slice<kConfig>(params, work, m, slice, barriers, registers, sums);
  const Coord at = skinny_coord<kConfig>(work, m);
  if (at.valid > 0) Epilogue::load(params, at, operands);
  store_accumulators<kConfig>(slice, sums);
  // Every thread arrives: the sums of all warps are visible behind it.
  cta_barrier();
  if constexpr (kConfig.cluster_k > 1) {
    cluster_wait();
    send_partials<kConfig>(slices, m);
  }
  if (at.valid > 0) store_vector<kConfig, Epilogue>(params, slices, at, operands);
}

}  // namespace catenary
