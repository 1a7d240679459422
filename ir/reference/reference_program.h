// SPDX-License-Identifier: Apache-2.0
// The elementwise part of the oracle: a straight-line program that computes one element of a value
// from parameters, constants and anchors (contractions and sums). Each distinct use is evaluated
// once per element.
#pragma once

#include <functional>

#include "ir/reference/reference.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {

// Element `index` (row-major) of a contraction or a sum.
using AnchorSource = llvm::function_ref<Interval(ValueId anchor, i64 index)>;

struct ProgramNode {
  ValueId value = -1;
  Op op = Op::kParameter;
  DType dtype = DType::kF32;           // kParameter, kCast
  const void* data = nullptr;          // kParameter
  llvm::SmallVector<i64, 4> strides;   // kParameter, anchors: stride in each root dimension
  llvm::SmallVector<int, 2> operands;  // nodes before this one
  double attributes[2] = {0, 0};
};

class ReferenceProgram {
 public:
  // The elements of `root`; coordinates below are in its dimensions. `types[v]`: every value's
  // type without symbols, with the strides of its storage; `data[v]`: a parameter's data.
  ReferenceProgram(const VerifiedChain& chain, llvm::ArrayRef<TensorType> types,
                   llvm::ArrayRef<const void*> data, ValueId root);

  // The root's element at `at`. `scratch` is working space, reused between calls.
  Interval evaluate(llvm::ArrayRef<i64> at, AnchorSource anchor,
                    std::vector<Interval>& scratch) const;

  // Anchors that the program reads.
  llvm::SmallVector<ValueId, 4> anchors() const;

 private:
  std::vector<ProgramNode> nodes_;  // the root is last
};

// Row-major position of element `index` in `shape`.
void unravel(i64 index, llvm::ArrayRef<Dim> shape, llvm::SmallVectorImpl<i64>& at);

// Advances the coordinates to the next element in row-major order.
void advance(llvm::ArrayRef<Dim> shape, llvm::SmallVectorImpl<i64>& at);

}  // namespace catenary
