// SPDX-License-Identifier: Apache-2.0
// Quantised weights of other libraries -> the packed layout (shared/packed_weight.h), and their
// zeros -> i8. Host memory; pure functions.
#pragma once

#include "ir/error.h"
#include "ir/types.h"
#include "llvm/ADT/ArrayRef.h"

namespace catenary {

// How a weight of N rows and K columns and its zeros are stored. The fields of a 32-bit word are in
// ascending order from its lowest bit; G is the number of blocks of columns.
enum class WeightFormat : u8 {
  // As `dtype` says, contiguous rows: i8, or two values a byte, the low nibble first. Zeros: i8
  // [N, G].
  kPlain,
  // compressed-tensors, "pack-quantized": i32 [N, K / fields]; field k % fields of word k / fields
  // is q + 2^(bits - 1). Zeros, the same along N: i32 [N / fields, G].
  kCompressedTensors,
  // GPTQ: i32 [K / fields, N], unsigned. Zeros: i32 [G, N / fields], less one (modulo 2^bits).
  kGptq,
  // The same with zeros as they are ("gptq_v2").
  kGptqV2,
  // AWQ: i32 [K, N / 8] of 4 bits, unsigned. Fields 0 to 7 of a word are columns 0, 2, 4, 6, 1, 3,
  // 5, 7 of its eight. Zeros, the same: i32 [G, N / 8].
  kAwq,
};

struct RepackSource {
  WeightFormat format = WeightFormat::kPlain;
  // That of the packed weight. A value u that the format stores unsigned becomes u in u4, u - 8 in
  // i4 and u - 128 in i8; a zero moves by as much.
  DType dtype = DType::kI4;
  i64 rows = 0;
  i64 columns = 0;
};

// Bytes of the packed weight.
Expected<i64> packed_bytes(const RepackSource& source);

// kInvalidArgument where a number of bytes is not that of the format, the dtype is none of i8, i4
// and u4, or the format has no such values. repack() and repack_zeros() check the same.
Error check_repack(const RepackSource& source, i64 weight_bytes, i64 packed_bytes);
Error check_repack_zeros(const RepackSource& source, i64 groups, i64 zeros_bytes, i64 packed_bytes);

Error repack(const RepackSource& source, llvm::ArrayRef<u8> weight,
             llvm::MutableArrayRef<u8> packed);

// Zeros of `groups` blocks of columns as i8 [rows, groups].
Error repack_zeros(const RepackSource& source, i64 groups, llvm::ArrayRef<u8> zeros,
                   llvm::MutableArrayRef<u8> packed);

}  // namespace catenary
