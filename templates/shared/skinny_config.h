// SPDX-License-Identifier: Apache-2.0
// The config of `skinny`.
#pragma once

#include "shared/config.h"

namespace catenary {

// The part of D that a CTA computes: warps_n x row_tiles x 16 rows of W, and `columns` rows of X.
// Its warps_k warps divide K. With n_slices the last of those rows may be empty.
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
  // CTAs (clusters) that divide N in steps of a vector: their rows differ by one step at most.
  // 0: tiles of all the rows that the warps have. With warps_n = 1.
  i32 n_slices = 0;
  constexpr bool operator==(const SkinnySchedule&) const = default;
};

// X is formed as the kernel loads it, from rows in memory of `data` elements: elementwise, with
// `rows` numbers for each row, which depend on `sums` sums along K of elementwise terms.
struct SkinnyFormed {
  bool used = false;
  DType data = DType::kBF16;
  i32 sums = 0;
  i32 rows = 0;
  constexpr bool operator==(const SkinnyFormed&) const = default;
};

// D[b, m, n] = epilogue(sum over k of X[b, m, k] * W[b, n, k]) for small M: the kernel is a weight
// stream. All of W is requested before the dependency wait. In a dual GEMM half of a warp's rows
// are W's, half W2's. M-grouped: a CTA has W of one group and computes `columns` rows of X of that
// group at a time. N and K are exact, and K is a multiple of 16 bytes, a chunk.
struct SkinnyConfig {
  ContractionSpace space = {};
  MatrixOperand x = {};
  MatrixOperand w = {};
  MatrixOperand w2 = {};
  bool dual = false;
  bool row_squares = false;  // the epilogue takes one more sum: of the squares of the row of X
  GainOperand gain = {};     // after the squares
  SkinnyFormed formed = {};  // the same; not with a gain
  SkinnyTile tile = {};
  SkinnyLoads loads = {};
  SkinnySchedule schedule = {};
  i32 vec = 2;               // columns of D (rows of W) that one thread takes in the epilogue
  RaggedGroups ragged = {};  // kNone or kMGrouped
  constexpr bool operator==(const SkinnyConfig&) const = default;

  // Whether MMAs add the squares: of X's 16-bit elements as they are in memory.
  constexpr bool squares_by_mma() const {
    return row_squares && !formed.used && space.math != MathMode::kTF32;
  }

  // K counts in chunks of 16 bytes, which are never divided, and in blocks of 128 bytes.
  constexpr i64 k_chunks() const { return space.k.size * space.element_bytes() / 16; }
  constexpr i64 k_blocks() const { return (k_chunks() + 7) / 8; }
  // CTAs that divide K.
  constexpr i32 k_slices() const { return schedule.split_k * schedule.cluster_k; }
  // They divide it at whole lines; in a cluster at chunks, if the largest of the CTAs had 5% more
  // than the mean otherwise: a line that two CTAs read costs more (RESULTS model-17).
  constexpr i32 k_step() const {
    const i64 most = (k_blocks() + k_slices() - 1) / k_slices() * k_slices() * 8;
    return schedule.cluster_k > 1 && schedule.split_k == 1 && most * 100 > k_chunks() * 105 ? 1 : 8;
  }
  // First chunk of a CTA's part of K.
  constexpr i64 k_slice_begin(i64 slice) const {
    const i64 steps = (k_chunks() + k_step() - 1) / k_step();
    const i64 begin = steps * slice / k_slices() * k_step();
    return begin < k_chunks() ? begin : k_chunks();
  }
  // Chunks of the CTA with the fewest and with the most.
  constexpr i64 least_slice_chunks() const {
    i64 least = k_chunks();
    for (i32 slice = 0; slice < k_slices(); ++slice) {
      const i64 chunks = k_slice_begin(slice + 1) - k_slice_begin(slice);
      least = chunks < least ? chunks : least;
    }
    return least;
  }
  constexpr i64 most_slice_chunks() const {
    i64 most = 0;
    for (i32 slice = 0; slice < k_slices(); ++slice) {
      const i64 chunks = k_slice_begin(slice + 1) - k_slice_begin(slice);
      most = chunks > most ? chunks : most;
    }
    return most;
  }
  constexpr i64 most_slice_blocks() const { return (most_slice_chunks() + 7) / 8; }
  // Lower bound of every warp's whole blocks.
  constexpr i64 least_warp_blocks() const { return least_slice_chunks() / 8 / tile.warps_k; }
  // Whether every warp has whole blocks.
  constexpr bool has_whole_blocks() const { return k_chunks() % 8 == 0 && k_step() == 8; }

  constexpr i32 threads() const { return tile.warps_k * tile.warps_n * 32; }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  // Rows of a warp's MMAs, of W and W2 together, and of each of them.
  constexpr i32 warp_rows() const { return tile.row_tiles * 16; }
  constexpr i32 operand_rows() const { return warp_rows() / num_accumulators(); }
  // Vectors of D along N, and CTAs along N.
  constexpr i64 n_vectors() const { return (space.n.size + vec - 1) / vec; }
  constexpr i64 n_tiles() const {
    return schedule.n_slices > 0 ? schedule.n_slices : (space.n.size + rows() - 1) / rows();
  }
  // The most indices of D's n that a CTA computes.
  constexpr i32 rows() const {
    const i64 n_slices = schedule.n_slices;
    if (n_slices > 0) return static_cast<i32>((n_vectors() + n_slices - 1) / n_slices * vec);
    return tile.warps_n * operand_rows();
  }
  // Rows of W and W2 in a warp's slice.
  constexpr i32 slice_rows() const {
    return schedule.n_slices > 0 ? rows() * num_accumulators() : warp_rows();
  }
  constexpr i32 warp_blocks() const { return loads.shared_blocks + loads.register_blocks; }
  // The most vectors of D that a CTA stores: every cluster_k-th column.
  constexpr i32 vectors() const {
    return rows() / vec * ((tile.columns + schedule.cluster_k - 1) / schedule.cluster_k);
  }
  // A warp's slice is its rows of W in shared memory. Rows are padded by 16 bytes: a quarter of a
  // warp reads 16 of every 32 bytes of rows g and g+1, which are then in different banks.
  constexpr i32 row_bytes() const {
    return loads.shared_blocks > 0 ? loads.shared_blocks * 128 + 16 : 0;
  }
  // The slice is reused for the warp's accumulators, [column][row]. Columns are padded by 4 floats:
  // columns 2t of a store are 40, 72 or 136 words apart, that is 8 banks, which rows g fill. An
  // M-grouped kernel needs W again for the next rows: its accumulators follow W. The padding takes
  // the sum of squares of the column's row of X, in up to four parts.
  constexpr i32 sum_row() const { return warp_rows() + 4; }
  constexpr i32 weight_bytes() const { return slice_rows() * row_bytes(); }
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
  // Bytes of an element of X in memory, and 32-bit words of the elements that one chunk of W meets.
  constexpr i32 x_bytes() const {
    return formed.used ? dtype_bytes(formed.data) : space.element_bytes();
  }
  constexpr i32 x_words() const { return 4 * x_bytes() / space.element_bytes(); }
  // After the partials: the sums of a formed X, one float of every warp of the cluster for each sum
  // and row of X. [sum][row][warp along N][CTA][warp along K], padded to 16 bytes.
  constexpr i32 sum_parts() const {
    return (schedule.cluster_k * tile.warps_k + 3) / 4 * 4;  // of one warp along N
  }
  constexpr i32 row_sums_offset() const {
    return partials_offset() + ((schedule.cluster_k - 1) * partials_bytes() + 15) / 16 * 16;
  }
  constexpr i32 smem_bytes() const {
    if (formed.sums > 0)
      return row_sums_offset() + formed.sums * tile.columns * tile.warps_n * sum_parts() * 4;
    return partials_offset() + (schedule.cluster_k - 1) * partials_bytes();
  }
};

}  // namespace catenary
