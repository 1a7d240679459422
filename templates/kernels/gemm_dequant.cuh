// SPDX-License-Identifier: Apache-2.0
// `gemm_dequant`: D[b, m, n] = epilogue(sum over k of X[b, m, k] (q[b, n, k] - zero) scale) for
// packed integers q and any M (docs/kernels/gemm_dequant.md).
//
//   D^T = W X^T: q is A of wgmma, unpacked in registers, X is B in shared memory. A CTA has
//   16 row_tiles rows of W, `columns` rows of X and a k-slice.
//
//     warpgroup 0: fragments 0, 2, ..   warpgroup 1: fragments 1, 3, ..   64 rows each
//     dual: warpgroup 0 has W, warpgroup 1 W2
//     a warpgroup before them loads
//
//   shared memory: | stage 0 | stage 1 | ... | DSMEM partials | mbarriers |
//   a stage:       | box of X, K block 0 | K block 1 | run of q, row tile 0 | row tile 1 | ... |
//   after the mainloop: sums [column][row] where the stages were
//
//   barrier          arrivals              phase       meaning
//   full of a stage  lane 0, load warp     i / stages  q and X of k-tile i have arrived
//   empty            mma threads           i / stages  k-tile i has been read
//   CTA              all threads           -           barriers are initialised
//   named, mma       mma threads           -           the stages have been read; sums are stored
//   partials         thread 0              0           partials of the other CTAs have arrived
//   cluster          all threads, start    -           all CTAs have their mbarrier
//   cluster          all threads, end      -           what the CTAs sent has been read
//
// Integers are exact in X's dtype, so the MMAs sum exact products of q - zero and X; at the end of
// a block of columns the f32 sum is scaled and added: total = fma(scale, open, total). No weight is
// rounded.
#pragma once

#include "epilogue/operand.cuh"
#include "epilogue/ops.cuh"
#include "kernels/gemm_dequant_mma.cuh"
#include "ptx/atomic.cuh"
#include "ptx/cluster.cuh"

namespace catenary {

// Columns of D's m that CTA `rank` of a cluster stores: every cluster_k-th.
template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE i32 stored_columns(const GemmDequantWork& work, u32 rank) {
  constexpr i32 kCtas = kConfig.schedule.cluster_k;
  return (work.columns + kCtas - 1 - static_cast<i32>(rank)) / kCtas;
}

// Bytes of the sums of a column and a weight.
CATENARY_DEVICE u32 sum_bytes(const GemmDequantWork& work) {
  return static_cast<u32>(work.tiles) * kPackedRows * 4;
}

// Shared address in CTA `to` of what CTA `from` sends it.
template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE u32 partials_of(u32 from, u32 to) {
  const u32 buffer = from < to ? from : from - 1;
  return dynamic_smem() + kConfig.partials_offset() + buffer * kConfig.partials_bytes();
}

// Sends the sums of columns that other CTAs store, a column each thread.
template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE void send_columns(const GemmDequantWork& work, u32 rank, u32 thread) {
  constexpr u32 kCtas = kConfig.schedule.cluster_k;
#pragma unroll 1
  for (u32 column = thread; column < static_cast<u32>(work.columns);
       column += kConfig.mma_threads()) {
    const u32 to = column % kCtas;
    if (to == rank) continue;
    const u32 address = partials_of<kConfig>(rank, to) + column / kCtas * kConfig.sum_pitch();
    const u32 own = dynamic_smem() + column * kConfig.sum_pitch();
#pragma unroll
    for (u32 s = 0; s < kConfig.num_accumulators(); ++s) {
      const u32 offset = s * kConfig.rows() * 4;
      bulk_copy_cluster(map_shared(address + offset, to), own + offset, sum_bytes(work),
                        map_shared(GemmDequantStages<kConfig>::partials_barrier(), to));
    }
  }
}

// The sums of vec rows from byte `offset` of a column on: of stored column `index` of the CTA, over
// the cluster in ascending order of the k-slices.
template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE Vec<kConfig.vec> sum_vector(u32 rank, u32 index, u32 offset) {
  constexpr u32 kCtas = kConfig.schedule.cluster_k;
  static_assert(kConfig.vec % 4 == 0, "sums are read 16 bytes at a time");
  Vec<kConfig.vec> sum;
#pragma unroll
  for (u32 from = 0; from < kCtas; ++from) {
    const u32 column = from == rank
                           ? dynamic_smem() + (index * kCtas + rank) * kConfig.sum_pitch()
                           : partials_of<kConfig>(from, rank) + index * kConfig.sum_pitch();
#pragma unroll
    for (int i = 0; i < kConfig.vec; i += 4) {
      const U32x4 v = ld_shared_v4(column + offset + i * 4);
      const u32 word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int j = 0; j < 4; ++j)
        sum.v[i + j] = from == 0 ? bits_to_f32(word[j]) : sum.v[i + j] + bits_to_f32(word[j]);
    }
  }
  return sum;
}

// Runs the epilogue on the columns that this CTA stores, a vector of rows a thread at a time.
template <const GemmDequantConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void store_columns(const P& params, const GemmDequantWork& work, u32 rank,
                                   u32 thread) {
  constexpr u32 kPerColumn = kConfig.rows() / kConfig.vec;
  const u32 count = static_cast<u32>(stored_columns<kConfig>(work, rank)) * kPerColumn;
  const i64 first = work.tile0 * kPackedRows;
  const i64 tiles_end = first + i64{work.tiles} * kPackedRows;
  const i64 end = tiles_end < kConfig.space.n.size ? tiles_end : kConfig.space.n.size;
  Coord at;
  if constexpr (kConfig.has_groups())
    at.group = work.group < kConfig.ragged.num_groups ? work.group : kNoGroup;
#pragma unroll
  for (int b = 1; b <= kConfig.space.batch_rank; ++b)
    at.dim[kMaxDims - 2 - b] = work.batch[kMaxDims - b];
#pragma unroll 1
  for (u32 i = thread; i < count; i += kConfig.mma_threads()) {
    const u32 column = i / kPerColumn;
    const u32 row = i % kPerColumn * kConfig.vec;
    const i64 left = end - (first + row);
    if (left <= 0) continue;
    at.dim[kMaxDims - 1] = static_cast<u32>(first + row);
    at.dim[kMaxDims - 2] = static_cast<u32>(work.m0) + column * kConfig.schedule.cluster_k + rank;
    at.valid = left < kConfig.vec ? static_cast<i32>(left) : kConfig.vec;
    typename Epilogue::Operands operands;
    Epilogue::load_weights(params, at, operands);
    Epilogue::load(params, at, operands);
    const auto sum = sum_vector<kConfig>(rank, column, row * 4);
    if constexpr (kConfig.dual) {
      const auto second = sum_vector<kConfig>(rank, column, (kConfig.rows() + row) * 4);
      Epilogue::store(params, at, operands, sum, second);
    } else {
      Epilogue::store(params, at, operands, sum);
    }
  }
}

// What a config of the kernel keeps.
template <const GemmDequantConfig& kConfig>
CATENARY_DEVICE void check_gemm_dequant_config() {
  static_assert(kConfig.runs() <= 32, "a lane for each run of q");
  static_assert(kConfig.tile.columns % 8 == 0 && kConfig.tile.columns <= 256, "N of wgmma");
  static_assert(kConfig.rows() % kConfig.vec == 0, "whole vectors of rows");
  static_assert(kConfig.loads.stages > 1 || kConfig.k_tiles() <= kConfig.k_slices(),
                "a stage is released after the next one has arrived");
  static_assert(kConfig.schedule.warpgroups % kConfig.num_accumulators() == 0,
                "each weight has warpgroups of its own");
  static_assert(i64{kConfig.tile.row_tiles} * kConfig.schedule.n_slices >= kConfig.n_tiles(),
                "the slices hold N");
  static_assert(kConfig.space.k.size % 32 == 0 && (kConfig.w.block_columns % 32 == 0 ||
                                                   kConfig.w.block_columns >= kConfig.space.k.size),
                "32 columns have one scale");
  static_assert(!kConfig.dual || have_one_form(kConfig.w, kConfig.w2),
                "W2 has the dtypes and blocks of W");
  static_assert(!kConfig.has_groups() || !kConfig.loads.w_is_weight,
                "the group of a CTA is known after the dependency wait");
}

// The mma warpgroups: the sums of the CTA's k-slice, those of the cluster, and the epilogue.
// `thread`, `warp`: among theirs.
template <const GemmDequantConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void run_mma_warpgroups(const P& params, const GemmDequantWork& work, u32 rank,
                                        u32 warp) {
  constexpr i32 kCtas = kConfig.schedule.cluster_k;
  const u32 thread = threadIdx.x - 128;
  const GemmDequantRows<kConfig> rows(work, warp);
  GemmDequantSums<kConfig> sums;
  sum_k_tiles<kConfig>(params, work, rows, sums);
  // All mma threads arrive: the stages have been read.
  named_barrier_sync<1>(kConfig.mma_threads());
  store_sums<kConfig>(rows, sums);
  // bulk_copy_cluster reads the sums in the async proxy (PTX ISA 8.3).
  if constexpr (kCtas > 1) fence_proxy_async_shared();
  // All mma threads arrive: the sums are stored.
  named_barrier_sync<1>(kConfig.mma_threads());
  if constexpr (kCtas > 1) {
    cluster_wait();
    send_columns<kConfig>(work, rank, thread);
    mbarrier_wait(GemmDequantStages<kConfig>::partials_barrier(), 0);
    // The warp converges: the cluster barrier is aligned.
    warp_barrier();
    // What this CTA sends is read until then.
    cluster_arrive_relaxed();
  }
  store_columns<kConfig, Epilogue>(params, work, rank, thread);
  if constexpr (kCtas > 1) {
    warp_barrier();
    cluster_wait();
  }
}

template <const GemmDequantConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void gemm_dequant(const P& params, const CtaRange& ctas = whole_grid()) {
  using Stages = GemmDequantStages<kConfig>;
  constexpr i32 kCtas = kConfig.schedule.cluster_k;
  constexpr bool kMoves = kConfig.moves_registers();
  check_gemm_dequant_config<kConfig>();
  griddepcontrol_launch_dependents();
  const i64 m = extent_at_launch(kConfig.space.m, params);
  // The groups are known after the dependency wait.
  if constexpr (kConfig.has_groups()) griddepcontrol_wait();
  const GemmDequantWork work = find_gemm_dequant_work<kConfig>(params, ctas.index, m);
  if (kConfig.has_groups() && work.columns <= 0) return;
  u32 rank = 0;
  if constexpr (kCtas > 1) rank = cluster_rank();
  if (threadIdx.x == 0) {
    const i32 vectors =
        (kCtas - 1) * kConfig.num_accumulators() * stored_columns<kConfig>(work, rank);
    Stages::init(static_cast<u32>(vectors) * sum_bytes(work));
  }
  // Relaxed: fence.mbarrier_init releases the mbarriers (PTX ISA 9.7.13.4).
  if constexpr (kCtas > 1) {
    warp_barrier();
    cluster_arrive_relaxed();
  }
  // All threads arrive: the mbarriers are initialised.
  cta_barrier();

  const u32 warp = warp_index();
  if (warp < 4) {
    if constexpr (kMoves) set_max_registers_decrease<kConfig.kLoadRegisters>();
    if (warp == 0) {
      GemmDequantLoader<kConfig>(params, work).run(params);
    } else {
      griddepcontrol_wait();
    }
    if constexpr (kCtas > 1) {
      warp_barrier();
      cluster_wait();
      cluster_arrive_relaxed();
      cluster_wait();
    }
  } else {
    if constexpr (kMoves) set_max_registers_increase<kConfig.mma_registers()>();
    run_mma_warpgroups<kConfig, Epilogue>(params, work, rank, warp - 4);
  }
}

}  // namespace catenary
