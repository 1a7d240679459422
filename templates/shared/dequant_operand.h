// SPDX-License-Identifier: Apache-2.0
// A quantised weight as an operand of a kernel.
#pragma once

#include "shared/config.h"
#include "shared/packed_weight.h"

namespace catenary {

// Scales or zeros: one number for each row of W and each block of columns.
struct BlockNumbers {
  i32 slot = 0;
  DType dtype = DType::kF32;
  i64 stride_row = 0;      // elements
  i64 stride_block = 0;    // elements from one block of columns to the next
  i64 stride_group = 0;    // of the group of ragged rows
  Dims stride_batch = {};  // right-aligned batch dimensions; 0: label absent
  constexpr bool operator==(const BlockNumbers&) const = default;
};

// Do 32 bits hold the bytes between any two numbers of a matrix?
constexpr bool has_short_offsets(const BlockNumbers& numbers, i64 rows, i64 blocks) {
  const i64 elements = rows * numbers.stride_row + blocks * numbers.stride_block;
  return numbers.stride_row >= 0 && numbers.stride_block >= 0 &&
         elements * dtype_bytes(numbers.dtype) < i64{1} << 31;
}

// W = (q - zero) * scale; q is in the packed layout (shared/packed_weight.h).
struct DequantOperand {
  i32 slot = 0;
  DType dtype = DType::kI4;  // kI8, kI4 or kU4
  i64 block_columns = 128;   // a multiple of 32, or all of K
  BlockNumbers scale = {};   // kBF16, kF16 or kF32
  bool has_zero = false;
  BlockNumbers zero = {};  // kI8
  // Elements from one matrix q to another, padding included.
  i64 stride_group = 0;
  Dims stride_batch = {};
  constexpr bool operator==(const DequantOperand&) const = default;
};

// Have the two weights of a dual GEMM one form?
constexpr bool have_one_form(const DequantOperand& w, const DequantOperand& w2) {
  return w2.dtype == w.dtype && w2.block_columns == w.block_columns && w2.has_zero == w.has_zero &&
         w2.scale.dtype == w.scale.dtype;
}

}  // namespace catenary
