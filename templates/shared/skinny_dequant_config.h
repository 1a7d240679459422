// SPDX-License-Identifier: Apache-2.0
// The config of `skinny_dequant`.
#pragma once

#include "shared/dequant_operand.h"

namespace catenary {

// The part of D that a CTA computes: up to row_tiles x 16 rows of W, and of W2, and `columns` rows
// of X. Its warps divide K.
struct SkinnyDequantTile {
  i32 warps = 8;
  i32 row_tiles = 1;
  i32 columns = 8;  // N of the MMAs: m rounded up to a multiple of 8
  constexpr bool operator==(const SkinnyDequantTile&) const = default;
};

// Each warp has a ring of its own for q, and one for X.
struct SkinnyDequantLoads {
  bool w_is_weight = true;  // q, scale and zero are weights: they are loaded before the wait
  i32 stages = 4;           // pipeline stages of the ring
  i32 stage_chunks = 1;     // chunks of K of a stage
  i32 x_stages = 1;         // pipeline stages of X
  i32 x_chunks = 1;         // chunks of K of a stage of X
  constexpr bool operator==(const SkinnyDequantLoads&) const = default;
};

struct SkinnyDequantSchedule {
  i32 cluster_k = 1;  // cluster split-K: CTAs that divide K, each with all columns
  i64 n_slices = 1;   // slices of N: its row tiles are divided evenly among them
  constexpr bool operator==(const SkinnyDequantSchedule&) const = default;
};

// D[b, m, n] = epilogue(sum over k of X[b, m, k] * W[b, n, k]) for small M and a quantised W. The
// kernel is a stream of q. N and K are exact, and K is a multiple of 32. In a dual GEMM W2 has the
// dtypes and blocks of W. M-grouped: a CTA has W of one group and computes `columns` rows of X of
// that group at a time; W is read again for the next ones.
struct SkinnyDequantConfig {
  ContractionSpace space = {};
  MatrixOperand x = {};
  DequantOperand w = {};
  DequantOperand w2 = {};
  bool dual = false;
  bool row_squares = false;  // the epilogue takes one more sum: of the squares of the row of X
  GainOperand gain = {};     // after the squares
  SkinnyDequantTile tile = {};
  SkinnyDequantLoads loads = {};
  SkinnyDequantSchedule schedule = {};
  i32 vec = 2;               // columns of D (rows of W) that one thread takes in the epilogue
  RaggedGroups ragged = {};  // kNone or kMGrouped
  constexpr bool operator==(const SkinnyDequantConfig&) const = default;

  constexpr i32 threads() const { return tile.warps * 32; }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr bool has_groups() const { return ragged.kind != Ragged::kNone; }
  constexpr DequantOperand weight(int i) const { return i == 0 ? w : w2; }
  // Matrices of a weight that are told apart by the batch.
  constexpr i64 batch() const {
    i64 count = 1;
    for (const Extent& extent : space.batch.at) count *= extent.size;
    return count;
  }
  // Row tiles of N, of 16 rows each; a CTA has row_tiles or one less.
  constexpr i64 n_tiles() const { return packed_tiles(space.n.size, kPackedRows); }
  constexpr bool has_equal_slices() const { return n_tiles() % schedule.n_slices == 0; }
  // The most indices of D's n that a CTA computes.
  constexpr i32 rows() const { return tile.row_tiles * 16; }
  // Row tiles of a CTA's MMAs: those of W, then those of W2.
  constexpr i32 runs() const { return tile.row_tiles * num_accumulators(); }
  // Vectors of D that a CTA stores: every cluster_k-th column.
  constexpr i32 vectors() const { return rows() / vec * (tile.columns / schedule.cluster_k); }
  constexpr i32 k_slices() const { return schedule.cluster_k; }

  // K counts in blocks of 64 columns, the last one not always whole. A warp multiplies a chunk of
  // them at a time: two, or one where X has more than 16 rows, for its registers.
  constexpr i64 k_blocks() const { return packed_tiles(space.k.size, kPackedColumns); }
  constexpr i32 chunk_blocks() const { return tile.columns <= 16 ? 2 : 1; }
  constexpr i32 chunk_columns() const { return chunk_blocks() * static_cast<i32>(kPackedColumns); }
  constexpr i64 k_chunks() const { return ceil_div(k_blocks(), chunk_blocks()); }
  // The most chunks of one warp.
  constexpr i64 warp_chunks() const {
    return ceil_div(ceil_div(k_chunks(), k_slices()), tile.warps);
  }

  // One scale for a whole row of W: the sums are scaled at the end.
  constexpr bool has_row_scales() const { return w.block_columns >= space.k.size; }
  // Columns after which a chunk's sums are scaled: a chunk, or as many as surely have one scale.
  constexpr i32 scaled_columns() const {
    if (has_row_scales() || w.block_columns % chunk_columns() == 0) return chunk_columns();
    return w.block_columns % 64 == 0 ? 64 : 32;
  }

  // A stage: a run of stage_chunks chunks of q for each row tile of W and W2.
  constexpr i32 tile_bytes() const { return packed_tile_bytes(w.dtype); }
  constexpr i32 stage_blocks() const { return loads.stage_chunks * chunk_blocks(); }
  constexpr i32 run_bytes() const { return stage_blocks() * tile_bytes(); }
  constexpr i32 stage_bytes() const { return runs() * run_bytes(); }
  // A stage of X: its rows, `x_pitch` apart: 16 bytes each of eight rows are in different banks.
  constexpr i32 x_columns() const { return loads.x_chunks * chunk_columns(); }
  constexpr i32 x_pitch() const { return x_columns() * 2 + 16; }
  constexpr i32 x_rows() const {
    return space.m.size < tile.columns ? static_cast<i32>(space.m.size) : tile.columns;
  }
  // Then the gain's part, as one more row.
  constexpr i32 gain_offset() const { return x_rows() * x_pitch(); }
  constexpr i32 x_stage_bytes() const {
    return ((x_rows() + (gain.used ? 1 : 0)) * x_pitch() + 127) / 128 * 128;
  }
  constexpr i32 x_offset() const { return loads.stages * stage_bytes(); }
  // A warp's rings. They are reused for its sums, [column][row], padded by 4 floats as in `skinny`:
  // the first of them is the sum of squares of the column's row of X. M-grouped: the sums follow
  // the rings, which load the group's next rows.
  constexpr i32 sum_row() const { return rows() * num_accumulators() + 4; }
  constexpr i32 ring_bytes() const { return x_offset() + loads.x_stages * x_stage_bytes(); }
  constexpr i32 sums_offset() const { return has_groups() ? ring_bytes() : 0; }
  constexpr i32 slice_bytes() const {
    const i32 sums_end = sums_offset() + (tile.columns * sum_row() * 4 + 127) / 128 * 128;
    return ring_bytes() > sums_end ? ring_bytes() : sums_end;
  }
  // mbarriers: one per warp and stage, of q first, one for the DSMEM partials.
  constexpr i32 warp_barriers() const { return loads.stages + loads.x_stages; }
  constexpr i32 barriers() const {
    return tile.warps * warp_barriers() + (schedule.cluster_k > 1 ? 1 : 0);
  }
  constexpr i32 barrier_bytes() const { return (barriers() * 8 + 127) / 128 * 128; }
  // After the slices: DSMEM partials, one buffer per other CTA of the cluster, for the columns that
  // this CTA stores.
  constexpr i32 partials_offset() const { return barrier_bytes() + tile.warps * slice_bytes(); }
  constexpr i32 partials_bytes() const {
    return vectors() * (vec * num_accumulators() * 4 + (row_squares ? kSquaresBytes : 0));
  }
  // What st.async sends of a sum of squares, with each vector of its row.
  static constexpr i32 kSquaresBytes = 8;
  constexpr i32 smem_bytes() const {
    return partials_offset() + (schedule.cluster_k - 1) * partials_bytes();
  }
};

}  // namespace catenary
