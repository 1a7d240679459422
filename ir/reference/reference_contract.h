// SPDX-License-Identifier: Apache-2.0
// Contractions in the oracle: products of two operands summed in float64, with the error bound of
// an f32 kernel (tensor cores: a running bound over blocks of terms; true f32: Higham's).
// Operands are a parameter's memory or computed intervals.
#pragma once

#include "ir/reference/reference.h"
#include "ir/reference/reference_accumulate.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {

// One label of the loop nest: its size and its stride in each tensor (0 if the tensor lacks it).
struct ContractionAxis {
  char label = 0;
  i64 size = 0;
  i64 left = 0;
  i64 right = 0;
  i64 result = 0;
  int result_dim = -1;
};

// Loops over batch, M, N and K from a first element of each tensor.
struct ContractionNest {
  llvm::SmallVector<ContractionAxis, 2> batch, m, n, k;
  i64 left = 0;
  i64 right = 0;
  i64 result = 0;
};

// The elements of an operand: a parameter's memory, or computed values in row-major order.
struct ContractionOperand {
  DType dtype = DType::kF32;
  const void* data = nullptr;
  llvm::ArrayRef<Interval> computed;

  Interval at(i64 offset) const {
    return data ? Interval{load_element(dtype, data, offset), 0} : computed[offset];
  }
};

// Element at `offset` of the left (side 0) or right (side 1) operand.
using OperandSource = llvm::function_ref<Interval(int side, i64 offset)>;

class ContractionTask {
 public:
  // `types[v]`: every value's type without symbols, with the strides of its storage. `ends`: the
  // ragged ends, checked; empty for a dense contraction.
  ContractionTask(const VerifiedChain& chain, llvm::ArrayRef<TensorType> types, ValueId id,
                  std::vector<i64> ends);

  // All elements into `result` (row-major), on `threads` threads.
  void evaluate(const ContractionOperand& left, const ContractionOperand& right, int threads,
                llvm::MutableArrayRef<Interval> result) const;

  // Only element `index` (row-major), in O(K).
  Interval element(i64 index, OperandSource operand) const;

 private:
  ContractionNest part(i64 group) const;
  i64 num_parts() const;
  // The ragged group of a result element (0 if dense), or nothing after the last end.
  std::optional<i64> group_of(llvm::ArrayRef<i64> at) const;
  void tile(const ContractionNest& nest, i64 batch, i64 row, i64 column,
            const ContractionOperand (&operands)[2], llvm::MutableArrayRef<Interval> result) const;

  ContractionNest nest_;  // without the ragged split
  llvm::SmallVector<Dim, 4> shape_;
  SumRule rule_ = SumRule::kTensor;
  bool tf32_ = false;      // operands are f32, rounded to tf32
  std::vector<i64> ends_;  // ragged ends
  char ragged_label_ = 0;
  ContractionAxis group_;  // of a ragged contraction
};

}  // namespace catenary
