// SPDX-License-Identifier: Apache-2.0
// The config of `skinny`.
#pragma once

#include "shared/config.h"

namespace catenary {

// The part of D that a CTA computes: warps_n x row_tiles x 16 rows of W, and `columns` rows of X.
// Its warps_k warps divide K.
struct SkinnyTile {
  i32 warps_k = 16;
  i32 warps_n = 1;
  i32 row_tiles = 1;  // 16-row tiles of W per warp
  i32 columns = 8;    // N of the MMAs: m rounded up to a multiple of 8
  constexpr bool operator==(const SkinnyTile&) const = default;
};

// How a warp loads its K blocks of W, all of them before the first MMA, and its X.
struct SkinnyLoads {
  bool w_is_weight = true;  // W has the role weight: it is loaded before the dependency wait
  bool bulk = true;         // shared blocks by cp.async.bulk (sm_90), else by cp.async (sm_80)
  i32 shared_blocks = 3;    // K blocks that are loaded into shared memory
  i32 register_blocks = 1;  // K blocks after those, loaded into registers
  // Bulk: groups of rows; with PDL each is issued when the one before has completed. cp.async:
  // groups of blocks, one commit each.
  i32 copy_groups = 2;
  i32 x_chunks = 2;   // the K blocks are divided into chunks; X of one is in registers
  i32 x_columns = 8;  // columns of X in registers at a time
  constexpr bool operator==(const SkinnyLoads&) const = default;
};

struct SkinnySchedule {
  i32 split_k = 1;
  // Cluster split-K: CTAs that divide K (of one split), each with all columns. sm_90.
  i32 cluster_k = 1;
  constexpr bool operator==(const SkinnySchedule&) const = default;
};

// D[b, m, n] = epilogue(sum over k of X[b, m, k] * W[b, n, k]) for small M: the kernel is a weight
// stream. All of W is requested before the dependency wait. In a dual GEMM half of a warp's rows
// are W's, half W2's. M-grouped: a CTA has W of one group and computes `columns` rows of X of that
// group at a time. N and K are exact, and K is a multiple of 128 bytes.
struct SkinnyConfig {
  ContractionSpace space = {};
  MatrixOperand x = {};
  MatrixOperand w = {};
  MatrixOperand w2 = {};
  bool dual = false;
  bool row_squares = false;  // the epilogue takes one more sum: of the squares of the row of X
  SkinnyTile tile = {};
  SkinnyLoads loads = {};
  SkinnySchedule schedule = {};
  i32 vec = 2;               // columns of D (rows of W) that one thread takes in the epilogue
  RaggedGroups ragged = {};  // kNone or kMGrouped
  constexpr bool operator==(const SkinnyConfig&) const = default;

  // K counts in blocks of 128 bytes.
  constexpr i64 k_blocks() const { return space.k.size * space.element_bytes() / 128; }
  constexpr i32 threads() const { return tile.warps_k * tile.warps_n * 32; }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr i32 warp_rows() const { return tile.row_tiles * 16; }  // of W and W2 together
  // Indices of D's n that a CTA computes.
  constexpr i32 rows() const { return tile.warps_n * warp_rows() / num_accumulators(); }
  constexpr i32 warp_blocks() const { return loads.shared_blocks + loads.register_blocks; }
  // Vectors of D that a CTA stores: every cluster_k-th column.
  constexpr i32 vectors() const { return rows() / vec * (tile.columns / schedule.cluster_k); }
  // CTAs that divide K.
  constexpr i32 k_slices() const { return schedule.split_k * schedule.cluster_k; }
  // A warp's slice is its rows of W in shared memory. Rows are padded by 16 bytes: a quarter of a
  // warp reads 16 of every 32 bytes of rows g and g+1, which are then in different banks.
  constexpr i32 row_bytes() const {
    return loads.shared_blocks > 0 ? loads.shared_blocks * 128 + 16 : 0;
  }
  // The slice is reused for the warp's accumulators, [column][row]. Columns are padded by 4 floats:
  // columns 2t of a store are 40, 72 or 136 words apart, that is 8 banks, which rows g fill. An
  // M-grouped kernel needs W again for the next rows: its accumulators follow W. The padding takes
  // the four lanes' sums of squares of the column's row of X.
  constexpr i32 sum_row() const { return warp_rows() + 4; }
  constexpr i32 weight_bytes() const { return warp_rows() * row_bytes(); }
  constexpr i32 sums_offset() const { return ragged.kind == Ragged::kNone ? 0 : weight_bytes(); }
  constexpr i32 slice_bytes() const {
    const i32 sums_end = sums_offset() + tile.columns * sum_row() * 4;
    return weight_bytes() > sums_end ? weight_bytes() : sums_end;
  }
  // mbarriers: one per warp and load group, one for the DSMEM partials.
  constexpr i32 barriers() const {
    return (loads.bulk ? tile.warps_k * tile.warps_n * loads.copy_groups : 0) +
           (schedule.cluster_k > 1 ? 1 : 0);
  }
  constexpr i32 barrier_bytes() const { return (barriers() * 8 + 127) / 128 * 128; }
  // After the slices: DSMEM partials, one buffer per other CTA of the cluster, for the columns that
  // this CTA stores.
  constexpr i32 partials_offset() const {
    return barrier_bytes() + tile.warps_k * tile.warps_n * slice_bytes();
  }
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
