// SPDX-License-Identifier: Apache-2.0
// Tensor types: dtype, shape, strides, alignment. Plain data; verify.cpp holds the rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "shared/packed_weight.h"

namespace catenary {

// Hard limits of the IR; each has its own error (kResourceLimit).
inline constexpr int kMaxRank = 8;
inline constexpr i64 kMaxDimSize = i64{1} << 40;
inline constexpr i64 kMaxTensorBytes = i64{1} << 46;
inline constexpr int kMaxOps = 256;  // values of a chain that are not parameters
inline constexpr int kMaxParameters = 128;
inline constexpr int kMaxNameBytes = 128;
inline constexpr int kMaxTextBytes = 1 << 20;
inline constexpr int kMaxNesting = 64;  // nested expressions in the text form

// How a tensor is used. kInput: the previous kernel in the stream may produce it. kWeight: it does
// not change while the chain runs, so that it may be read before the dependency wait. kScalar: one
// f32, passed by value at launch.
enum class Role : u8 { kInput, kWeight, kScalar };
std::string_view role_text(Role role);

// One dimension. A symbolic dimension takes the chain's symbol as its size; `size` is then the
// symbol's upper bound.
struct Dim {
  i64 size = 0;
  bool symbolic = false;
  bool operator==(const Dim&) const = default;
};

struct TensorType {
  DType dtype = DType::kF32;
  llvm::SmallVector<Dim, 4> shape;
  // Elements from one index to the next in each dimension; empty: contiguous (row-major). verify()
  // fills them in.
  llvm::SmallVector<i64, 4> strides;
  // The base address is a multiple of this many bytes.
  i64 align = 16;
  // The last two dimensions are a matrix in the packed layout (shared/packed_weight.h), one matrix
  // after the other; strides then count as if the elements were contiguous.
  bool packed = false;

  int rank() const { return static_cast<int>(shape.size()); }
  bool operator==(const TensorType&) const = default;
};

std::optional<DType> find_dtype(std::string_view text);
inline std::string_view dtype_text(DType dtype) { return dtype_info(dtype).text; }

// Row-major strides of `shape` at its largest size; those of sizes of 1 are the same for any M.
llvm::SmallVector<i64, 4> contiguous_strides(llvm::ArrayRef<Dim> shape);

// Product of the sizes (the largest of a symbolic one). Cannot overflow for verified types.
i64 num_elements(const TensorType& type);

// Elements from the first to one past the last that the type addresses (0 if empty), padding of a
// packed layout included.
i64 span_elements(const TensorType& type);

// The same in bytes: what the tensor takes in memory.
i64 span_bytes(const TensorType& type);

// Bytes that memory moves to read or write every element once: sectors of 32 bytes of each run of
// adjacent elements, and at most the span. Sizes are fixed.
i64 traffic_bytes(const TensorType& type);

// Where the element at coordinates `at` is, in elements from the first. Strides are given.
i64 element_index(const TensorType& type, llvm::ArrayRef<i64> at);

// The same shape with `symbol` in place of each symbolic dimension.
TensorType with_symbol(TensorType type, i64 symbol);

// "bf16[M, 768]" with strides and align when they are not the default; `symbol` names M.
std::string to_string(const TensorType& type, std::string_view symbol = "M");

}  // namespace catenary
