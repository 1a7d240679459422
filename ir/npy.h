// SPDX-License-Identifier: Apache-2.0
// NumPy .npy files (format versions 1 and 2) <-> contiguous row-major host tensors.
//
// descr <-> dtype: '<f4' f32, '<f2' f16, '<i4' i32. NumPy has no bf16: '<V2', '|V2'
// (what ml_dtypes.bfloat16 arrays are saved as) and '<u2' (the bits as integers) are read as bf16;
// '|V2' is written. '<f8' and '<i8', the defaults of NumPy, are read only: no DType is as wide.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/error.h"
#include "ir/types.h"

namespace catenary {

struct NpyArray {
  TensorType type;  // contiguous, strides empty, no symbolic dimension
  std::vector<std::byte> bytes;
  bool wide = false;  // elements of 8 bytes: float64 where the type says f32, int64 where i32
};

// "f64[2, 3]".
std::string to_string(const NpyArray& array);

// Element `index`, counted in C order. wide_integer: of an array of int64.
double npy_element(const NpyArray& array, i64 index);
i64 wide_integer(const NpyArray& array, i64 index);

// Reads the array of a regular file. kIo, naming the path: the file cannot be read, is not an .npy
// file, has another dtype or Fortran order, or its size does not match its header. Allocates at
// most the file's size.
Expected<NpyArray> read_npy(const std::string& path);

// Writes `data`, laid out as `type` says (dtype, shape, strides), in C order. kIo on failure.
Error write_npy(const std::string& path, const TensorType& type, const void* data);

}  // namespace catenary
