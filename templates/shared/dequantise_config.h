// SPDX-License-Identifier: Apache-2.0
// Config of the `dequantise` kernel.
#pragma once

#include "shared/config.h"
#include "shared/packed_weight.h"

namespace catenary {

// Neighbouring columns of a row that one thread makes: 16 bytes of a 16-bit dtype.
inline constexpr i32 kDequantisedColumns = 8;

// `dequantise`: out = program((q - zero) * scale) over matrices of rows (index 6 of `size`) and
// columns (index 7). Scales and zeros step by blocks.
struct DequantiseConfig {
  Extents size = {};    // exact
  bool packed = false;  // q is in the packed layout (shared/packed_weight.h), matrix after matrix
  bool has_zero = false;
  i32 load_bytes = 1;  // of plain q: what one aligned load takes of a row, 1, 4 or 8
  i32 threads = 256;
  Operand q = {};      // kI8, kI4 or kU4; packed: without strides
  Operand scale = {};  // kBF16, kF16 or kF32
  Operand zero = {};   // as q
  i64 block_rows = 1;
  i64 block_columns = 1;

  constexpr i64 rows() const { return size.at[kMaxDims - 2].size; }
  constexpr i64 columns() const { return size.at[kMaxDims - 1].size; }
  // Threads are ordered by tiles, column tiles innermost: those of the packed layout, or single
  // vectors.
  constexpr i64 tile_rows() const { return packed ? kPackedRows : 1; }
  constexpr i64 tile_vectors() const { return packed ? kPackedColumns / kDequantisedColumns : 1; }
  constexpr i64 row_tiles() const { return ceil_div(rows(), tile_rows()); }
  constexpr i64 column_tiles() const {
    return ceil_div(columns(), tile_vectors() * kDequantisedColumns);
  }
  constexpr i64 threads_in_all() const {
    i64 count = row_tiles() * column_tiles() * tile_rows() * tile_vectors();
    for (i32 d = 0; d < kMaxDims - 2; ++d) count *= size.at[d].size;
    return count;
  }
  // Does one block have all columns of a vector?
  constexpr bool shares_block() const {
    return block_columns % kDequantisedColumns == 0 || block_columns >= columns();
  }
  constexpr bool operator==(const DequantiseConfig&) const = default;
};

}  // namespace catenary
