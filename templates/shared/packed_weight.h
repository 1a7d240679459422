// SPDX-License-Identifier: Apache-2.0
// The packed layout of quantised weights: the order in which `skinny_dequant` reads them. Shared by
// host and device.
//
// A matrix of rows x columns (N x K) is cut into tiles of 16 rows and 64 columns, row tiles
// outermost; rows and columns past its end are 0. A tile is A of four MMAs of 16 columns, in the
// order of K (templates/ptx/mma.cuh; a warp's 16 rows of wgmma are the same). Lane 4 g + t has, of
// MMA j:
//
//   register   row     columns
//   a0         g       16 j + 2 t, + 1
//   a1         g + 8   the same
//   a2         g       16 j + 2 t + 8, + 9
//   a3         g + 8   the same
//
//   4 bits  a lane has 16 bytes, one 32-bit word per MMA: nibble i holds the first column of
//           register a_i, nibble i + 4 the second
//   8 bits  a lane has 16 bytes per 32 columns, two words per MMA: bytes i % 2 and i % 2 + 2 of
//           word i / 2 hold the columns of register a_i; the second 32 columns follow the first
//
// The elements of a register are then a shift and a mask away from the halves of a 32-bit register.
#pragma once

#include "shared/dtype.h"

namespace catenary {

inline constexpr i64 kPackedRows = 16;
inline constexpr i64 kPackedColumns = 64;

constexpr i64 packed_tiles(i64 size, i64 tile) { return (size + tile - 1) / tile; }

// Elements of a packed matrix, padding included.
constexpr i64 packed_elements(i64 rows, i64 columns) {
  return packed_tiles(rows, kPackedRows) * packed_tiles(columns, kPackedColumns) * kPackedRows *
         kPackedColumns;
}

// Bytes of one tile.
constexpr i32 packed_tile_bytes(DType dtype) {
  return static_cast<i32>(storage_bytes(dtype, kPackedRows * kPackedColumns));
}

// Where element (row, column) of a matrix with `columns` columns is, in elements of `dtype` (of 4
// or 8 bits) from the start.
constexpr i64 packed_index(DType dtype, i64 row, i64 column, i64 columns) {
  const i64 tile =
      row / kPackedRows * packed_tiles(columns, kPackedColumns) + column / kPackedColumns;
  const i64 mma = column % kPackedColumns / 16;
  const i64 lane = row % 8 * 4 + column % 8 / 2;
  const i64 reg = row % kPackedRows / 8 + column % 16 / 8 * 2;
  const i64 high = column % 2;
  const i64 start = tile * kPackedRows * kPackedColumns;
  if (dtype_info(dtype).bits == 4) return start + lane * 32 + mma * 8 + reg + high * 4;
  return start + mma / 2 * 512 + lane * 16 + mma % 2 * 8 + reg / 2 * 4 + reg % 2 + high * 2;
}

}  // namespace catenary
