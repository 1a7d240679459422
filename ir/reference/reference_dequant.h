// SPDX-License-Identifier: Apache-2.0
// Dequantised weights in the oracle: w = (q - zero) * scale, one scale and zero for each block.
#pragma once

#include "ir/reference/reference.h"

namespace catenary {

class DequantTask {
 public:
  // `types[v]`, `data[v]`: of the parameters that value `id` reads, with the strides of their
  // storage.
  DequantTask(const VerifiedChain& chain, llvm::ArrayRef<TensorType> types,
              llvm::ArrayRef<const void*> data, ValueId id);

  // The element at coordinates `at` of the weight. Error 0 where f32 represents the value. A scale
  // that is not finite makes any result acceptable: a kernel scales the sum over a block. For fp8
  // a NaN scale gives NaN, and a scale of 2^63 or more makes any result acceptable: a kernel first
  // multiplies the scales of both operands.
  Interval element(llvm::ArrayRef<i64> at) const;

  // The same by row-major index.
  Interval element(i64 index) const;

 private:
  double load(size_t operand, llvm::ArrayRef<i64> at) const;

  llvm::SmallVector<TensorType, 3> types_;  // q, scale, zero
  llvm::SmallVector<const void*, 3> data_;
  ScaleBlock block_;
};

}  // namespace catenary
