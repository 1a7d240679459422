// SPDX-License-Identifier: Apache-2.0
// NumPy .npy files (format versions 1 and 2) <-> contiguous row-major host tensors.
//
// descr <-> dtype: '<f4' f32, '<f2' f16, '<i4' i32. NumPy has no bf16: '<V2', '|V2'
// (what ml_dtypes.bfloat16 arrays are saved as) and '<u2' (the bits as integers) are read as bf16;
// '|V2' is written.
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
};

// Reads the array of a regular file. kIo, naming the path: the file cannot be read, is not an .npy
// file, has another dtype or Fortran order, or its size does not match its header. Allocates at
// most the file's size.
Expected<NpyArray> read_npy(const std::string& path);

// Writes `data`, laid out as `type` says (dtype, shape, strides), in C order. kIo on failure.
Error write_npy(const std::string& path, const TensorType& type, const void* data);

}  // namespace catenary
