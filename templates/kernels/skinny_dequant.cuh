// SPDX-License-Identifier: Apache-2.0
// `skinny_dequant`: D[b, m, n] = epilogue(sum over k of X[b, m, k] (q[b, n, k] - zero) scale) for
// small M and packed integers q. It is a stream of q: its time is that of reading q once
// (docs/kernels/skinny_dequant.md).
//
//   q of a CTA (rows are n, columns are K chunks), warps = 4:
//     16 row_tiles rows | warp 0 | warp 1 | warp 2 | warp 3 |   a warp has a k-slice and all
//     columns of X: 8, 16, 24 or 32
//   shared memory: | mbarriers | rings of warp 0 | rings of warp 1 | ... | DSMEM partials |
//   a ring:        | stage 0 | stage 1 | ... |   reused for the warp's sums
//   a stage:       | run of row tile 0 | run of row tile 1 | ... |   a run: stage_chunks chunks of
//   q; in a dual GEMM those of W2 follow those of W
//   registers:     X, scales and zeros of this chunk and of the next one; the sums
//
//   barrier                  arrivals                    phase         meaning
//   mbarrier, warp and stage a lane per row tile         i / stages    fill i has arrived
//   warp, after init         32 lanes                    -             mbarriers are initialised
//   warp, before a refill    32 lanes                    -             the stage has been read
//   warp, before sums        32 lanes                    -             all stages have been read
//   CTA                      all threads                 -             all sums are stored
//   cluster, and mbarrier of the partials: skinny_cluster.cuh
//
//   timeline (w_is_weight): PDL trigger | load scales and zeros | issue q of all stages | load
//     weights of the epilogue | dependency wait | load X | per chunk: wait, load the next chunk's
//     X, scales and zeros, MMAs, refill | sums to shared memory | CTA barrier | add over warps |
//     epilogue, store
//
// q is A of mma.sync (16 rows), X is B (8 columns). Integers are exact in X's dtype, so the MMAs
// sum exact products of q - zero and X; at the end of a block of columns the f32 sum is scaled and
// added: total = fma(scale, open, total). No weight is rounded.
#pragma once

#include "epilogue/operand.cuh"
#include "epilogue/ops.cuh"
#include "kernels/dequant_unpack.cuh"
#include "kernels/row_squares.cuh"
#include "kernels/skinny_cluster.cuh"
#include "kernels/skinny_dequant_operands.cuh"
#include "kernels/skinny_dequant_ring.cuh"
#include "ptx/cluster.cuh"
#include "ptx/math.cuh"
#include "ptx/sync.cuh"
#include "scheduler/beside.cuh"
#include "smem/fragment.cuh"

namespace catenary {

// The sums of a warp, per row tile of the MMAs and eight columns: of the products of q - zero and
// X, scaled.
template <const SkinnyDequantConfig& kConfig>
struct DequantSums {
  static constexpr int kRuns = kConfig.runs();
  static constexpr int kColumnTiles = kConfig.tile.columns / 8;
  // With one row tile and one column tile, two sums in turns: an MMA waits for the one before the
  // last.
  static constexpr int kTurns = kColumnTiles * kRuns == 1 ? 2 : 1;
  using Open = float[kTurns][kColumnTiles][4];
  using Squares =
      typename RowSquares<kConfig.row_squares, true, kConfig.space.math, kColumnTiles>::Type;

  float total[kRuns][kColumnTiles][4] = {};
  Squares squares;

  // Adds `open`, the sums of part `part` of a chunk, scaled, and clears it.
  CATENARY_DEVICE void add_scaled(int run, Open& open, const DequantNumbers<kConfig>& numbers,
                                  int part) {
    const float upper = numbers.scale(run, part, 0);
    const float lower = numbers.scale(run, part, 1);
#pragma unroll
    for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float sum = open[0][j][e];
        if constexpr (kTurns == 2) sum += open[1][j][e];
        total[run][j][e] = fma_rn(e < 2 ? upper : lower, sum, total[run][j][e]);
        open[0][j][e] = open[kTurns - 1][j][e] = 0;
      }
    }
  }

  // The sums are those of unscaled products: scales them. By an addition of +0, as a sum over
  // blocks of columns ends with one: a sum of 0 is +0 under a negative scale.
  CATENARY_DEVICE void scale_rows(const DequantNumbers<kConfig>& numbers) {
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
#pragma unroll
      for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          total[run][j][e] = fma_rn(numbers.scale(run, 0, e / 2), total[run][j][e], 0.0f);
      }
    }
  }
};

// The MMAs of row tile `run` and one chunk of `blocks` K blocks, at shared address `from`.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void add_row_tile(int run, u32 from, i32 blocks, const DequantX<kConfig>& x,
                                  const DequantNumbers<kConfig>& numbers,
                                  DequantSums<kConfig>& sums) {
  constexpr int kPartHalves = kConfig.scaled_columns() / 32;
  typename DequantSums<kConfig>::Open open = {};
#pragma unroll
  for (int block = 0; block < kConfig.chunk_blocks(); ++block) {
    // Only the last chunk of K may lack a block.
    if (block > 0 && kConfig.k_blocks() % kConfig.chunk_blocks() != 0 && block >= blocks) {
      if (!kConfig.has_row_scales() && kPartHalves > 2) sums.add_scaled(run, open, numbers, 0);
      continue;
    }
    const DequantBlock<kConfig> q(from + block * kConfig.tile_bytes());
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int half = block * 2 + h;
      const int part = half / kPartHalves;
      const u32 upper = offset_pair<kConfig>(numbers.zero(run, part, 0));
      const u32 lower = offset_pair<kConfig>(numbers.zero(run, part, 1));
#pragma unroll
      for (int mma = 0; mma < 2; ++mma) {
        auto& acc = kConfig.has_row_scales() ? sums.total[run] : open[mma % sums.kTurns];
        const U32x4 a = q.fragment(h * 2 + mma, upper, lower);
#pragma unroll
        for (int j = 0; j < sums.kColumnTiles; ++j) {
          const U32x4& b = x.half[half][j];
          const u32 b0 = mma == 0 ? b.x : b.z;
          const u32 b1 = mma == 0 ? b.y : b.w;
          mma_sync<kConfig.space.math>(acc[j], a, b0, b1);
          // The first row tile, which every CTA has, adds the squares of X. With a gain they are
          // added before X is scaled.
          if constexpr (kConfig.row_squares && !kConfig.gain.used) {
            if (run == 0) sums.squares.add(mma, j, b0, b1);
          }
        }
      }
      if (!kConfig.has_row_scales() && (half + 1) % kPartHalves == 0)
        sums.add_scaled(run, open, numbers, part);
    }
  }
}

// Multiplies chunk `chunk`, with its scales and zeros `now`, and meanwhile loads the next ones.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void add_chunk(const DequantAddresses<kConfig>& addresses, const DequantWork& work,
                               const DequantRing<kConfig>& ring, i32 chunk,
                               const DequantNumbers<kConfig>& now, DequantNumbers<kConfig>& next,
                               DequantSums<kConfig>& sums) {
  if (!kConfig.has_row_scales() && chunk + 1 < work.chunks) next.load(addresses, work, chunk + 1);
  ring.acquire(chunk);
  DequantX<kConfig> x(ring, chunk);
  if constexpr (kConfig.gain.used) {
    if constexpr (kConfig.row_squares) x.add_squares(sums.squares);
    x.scale(ring, chunk);
  }
  const u32 from =
      ring.stage(chunk / kConfig.loads.stage_chunks) +
      chunk % kConfig.loads.stage_chunks * kConfig.chunk_blocks() * kConfig.tile_bytes();
#pragma unroll
  for (int run = 0; run < kConfig.runs(); ++run) {
    if (!has_row_tile<kConfig>(work, run)) continue;
    add_row_tile<kConfig>(run, from + run * kConfig.run_bytes(),
                          work.blocks - chunk * kConfig.chunk_blocks(), x, now, sums);
  }
  ring.release(chunk);
}

// The sums of the warp's k-slice. numbers[0]: those of the first chunk.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void sum_slice(const DequantAddresses<kConfig>& addresses, const DequantWork& work,
                               const DequantRing<kConfig>& ring,
                               DequantNumbers<kConfig> (&numbers)[2], DequantSums<kConfig>& sums) {
#pragma unroll 1
  for (i32 chunk = 0; chunk < work.chunks; chunk += 2) {
    add_chunk<kConfig>(addresses, work, ring, chunk, numbers[0], numbers[1], sums);
    if (chunk + 1 < work.chunks)
      add_chunk<kConfig>(addresses, work, ring, chunk + 1, numbers[1], numbers[0], sums);
  }
}

// Stores the warp's sums as [column][row] at shared address `to`; rows of W2 follow those of W, and
// a column's sum of squares its rows.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void store_sums(u32 to, const DequantSums<kConfig>& sums) {
  const u32 lane = threadIdx.x % 32;
  // All lanes arrive: they have read all stages, which `to` may overwrite.
  warp_barrier();
  sums.squares.store(to + kConfig.rows() * kConfig.num_accumulators() * 4, kConfig.sum_row() * 4);
#pragma unroll
  for (int run = 0; run < sums.kRuns; ++run) {
#pragma unroll
    for (int j = 0; j < sums.kColumnTiles; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 column = j * 8 + lane % 4 * 2 + e % 2;
        const u32 row = run * 16 + lane / 4 + e / 2 * 8;
        st_shared_f32(to + (column * kConfig.sum_row() + row) * 4, sums.total[run][j][e]);
      }
    }
  }
}

// Adds this thread's vector over the warps in ascending order, of each weight, and the squares of
// its row of X. CTA `to` of the cluster stores it.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void add_warps(u32 to, typename SkinnyCluster<kConfig>::Partials& partials,
                               float& squares) {
  using Cluster = SkinnyCluster<kConfig>;
  const u32 column = dynamic_smem() + kConfig.barrier_bytes() + kConfig.sums_offset() +
                     Cluster::column(to) * kConfig.sum_row() * 4;
  const u32 from = column + Cluster::row() * 4;
#pragma unroll
  for (int s = 0; s < kConfig.num_accumulators(); ++s) {
#pragma unroll
    for (int i = 0; i < kConfig.vec; ++i) {
      const u32 at = from + (s * kConfig.rows() + i) * 4;
      float total = ld_shared_f32(at);
#pragma unroll
      for (int warp = 1; warp < kConfig.tile.warps; ++warp)
        total += ld_shared_f32(at + warp * kConfig.slice_bytes());
      partials[s].v[i] = total;
    }
  }
  if constexpr (kConfig.row_squares) {
    squares = reduce_squares<typename DequantSums<kConfig>::Squares, kConfig.tile.warps>(
        column + kConfig.rows() * kConfig.num_accumulators() * 4, kConfig.slice_bytes());
  }
}

// Coordinates of this thread's vector of D; valid is 0 for threads without one.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE Coord dequant_coord(const DequantWork& work, i64 m) {
  using Cluster = SkinnyCluster<kConfig>;
  const u32 column = Cluster::column(Cluster::rank());
  const i64 n = work.tile0 * kPackedRows + Cluster::row();
  const i64 tiles_end = (work.tile0 + work.tiles) * kPackedRows;
  const i64 end = tiles_end < kConfig.space.n.size ? tiles_end : kConfig.space.n.size;
  Coord at;
#pragma unroll
  for (int b = 1; b <= kConfig.space.batch_rank; ++b)
    at.dim[kMaxDims - 2 - b] = work.batch[kMaxDims - b];
  at.dim[kMaxDims - 1] = static_cast<u32>(n);
  at.dim[kMaxDims - 2] = static_cast<u32>(work.m0) + column;
  if constexpr (kConfig.has_groups())
    at.group = work.group < kConfig.ragged.num_groups ? work.group : kNoGroup;
  const i64 left = column < m ? end - n : 0;
  at.valid = left < kConfig.vec ? static_cast<i32>(left) : kConfig.vec;
  return at;
}

// Sends partials to the CTAs of the cluster that store them. Columns past m are not sent.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void send_sums(i64 m) {
  using Cluster = SkinnyCluster<kConfig>;
#pragma unroll
  for (u32 distance = 1; distance < kConfig.schedule.cluster_k; ++distance) {
    const u32 to = (Cluster::rank() + distance) % kConfig.schedule.cluster_k;
    if (Cluster::column(to) >= m) continue;
    typename Cluster::Partials partials;
    float squares = 0;
    add_warps<kConfig>(to, partials, squares);
    Cluster::send(partials, squares, to);
  }
}

// Adds this thread's vector over warps and cluster, runs the epilogue and stores the result.
template <const SkinnyDequantConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void store_dequant_vector(const P& params, const Coord& at,
                                          const typename Epilogue::Operands& operands) {
  using Cluster = SkinnyCluster<kConfig>;
  typename Cluster::Partials partials;
  float squares = 0;
  add_warps<kConfig>(Cluster::rank(), partials, squares);
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

// What a config of the kernels keeps.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void check_dequant_config() {
  static_assert(kConfig.vectors() <= kConfig.threads(), "one vector of D per thread");
  static_assert(kConfig.warp_barriers() <= 32 && kConfig.runs() <= 32 && kConfig.tile.columns <= 32,
                "a lane for each mbarrier, run of q and row of X");
  static_assert(i64{kConfig.tile.row_tiles} * kConfig.schedule.n_slices >= kConfig.n_tiles(),
                "the slices hold N");
  static_assert(kConfig.space.k.size % 32 == 0 && (kConfig.w.block_columns % 32 == 0 ||
                                                   kConfig.w.block_columns >= kConfig.space.k.size),
                "32 columns have one scale");
  static_assert(!kConfig.dual || have_one_form(kConfig.w, kConfig.w2),
                "W2 has the dtypes and blocks of W");
  static_assert(!kConfig.has_groups() || (!kConfig.loads.w_is_weight && kConfig.k_slices() == 1),
                "the group of a CTA is known after the dependency wait");
  static_assert(!kConfig.has_groups() || !(kConfig.row_squares || kConfig.gain.used),
                "ragged rows have no norm and no gain inside");
}

template <const SkinnyDequantConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void skinny_dequant(const P& params, const CtaRange& ctas = whole_grid()) {
  using Cluster = SkinnyCluster<kConfig>;
  check_dequant_config<kConfig>();
  griddepcontrol_launch_dependents();
  const i64 m = extent_at_launch(kConfig.space.m, params);
  if constexpr (kConfig.schedule.cluster_k > 1) Cluster::begin(m, kConfig.rows());
  if constexpr (!kConfig.loads.w_is_weight) griddepcontrol_wait();

  const DequantWork work = find_dequant_work<kConfig>(ctas.index);
  const DequantRing<kConfig> ring(params, work, m);
  ring.init();
  const DequantAddresses<kConfig> addresses(params, work);
  DequantNumbers<kConfig> numbers[2];
  // A load waits at L2 for those before it: the long ones, of q, are last (RESULTS dequant-14).
  numbers[0].load(addresses, work, 0);
  // Without PDL, X can be loaded at once.
  const bool x_first = !kConfig.loads.w_is_weight || params.pdl == 0;
  if (x_first) {
    if constexpr (kConfig.loads.w_is_weight) griddepcontrol_wait();
    ring.load_all_x();
  }
  ring.load_all_q();
  if constexpr (kConfig.has_row_scales()) numbers[1] = numbers[0];
  typename Epilogue::Operands operands;
  const Coord at = dequant_coord<kConfig>(work, m);
  if (at.valid > 0) Epilogue::load_weights(params, at, operands);
  if (!x_first) {
    griddepcontrol_wait();
    ring.load_all_x();
  }

  DequantSums<kConfig> sums;
  sum_slice<kConfig>(addresses, work, ring, numbers, sums);
  if constexpr (kConfig.has_row_scales()) sums.scale_rows(numbers[0]);
  if (at.valid > 0) Epilogue::load(params, at, operands);
  store_sums<kConfig>(ring.slice, sums);
  // All threads arrive: the sums of all warps are visible.
  cta_barrier();
  if constexpr (kConfig.schedule.cluster_k > 1) {
    cluster_wait();
    send_sums<kConfig>(m);
  }
  if (at.valid > 0) store_dequant_vector<kConfig, Epilogue>(params, at, operands);
}

}  // namespace catenary
