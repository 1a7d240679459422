// SPDX-License-Identifier: Apache-2.0
// The elementwise part of the oracle: a straight-line program that computes one element of a value
// from parameters, constants and anchors (contractions and sums). Each distinct use is evaluated
// once per element.
#pragma once

#include <functional>
#include <map>

#include "ir/reference/reference.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {

// Element `index` (row-major) of a contraction or a sum.
using AnchorSource = llvm::function_ref<Interval(ValueId anchor, i64 index)>;

// A coordinate that is not one of the root's: the group of its row in dimension `dim`. With several
// ends the group is the row of the next ones.
struct GroupCoordinate {
  int dim = -1;                                        // a row of coordinate 0
  llvm::SmallVector<const std::vector<i64>*, 1> ends;  // empty: no group
  i64 stride = 0;  // kParameter, anchors: elements between groups
};

// A contraction that an addition of contractions adds. A kernel may sum the terms of all of them in
// one accumulator: each step over terms of this one then has the error of the others' sum as well.
struct Summand {
  int node = -1;
  bool right = false;  // of the addition's right operand
  double rate = 0;     // error for each unit of the others' magnitude
};

struct ProgramNode {
  ValueId value = -1;
  Op op = Op::kParameter;
  DType dtype = DType::kF32;          // kParameter, kCast
  const void* data = nullptr;         // kParameter
  llvm::SmallVector<i64, 4> strides;  // kParameter, anchors: stride in each root dimension
  llvm::SmallVector<GroupCoordinate, 1> groups;  // the same: coordinates by the group of a row
  llvm::SmallVector<int, 2> operands;            // nodes before this one
  // Per operand that is taken by group: it is 0 in a row of no group. Others have no ends.
  llvm::SmallVector<GroupCoordinate, 2> operand_groups;
  double attributes[2] = {0, 0};
  llvm::SmallVector<Summand, 2> summands;  // kAdd of contractions, or of additions of contractions
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
  std::vector<ProgramNode> nodes_;            // the root is last
  std::map<ValueId, std::vector<i64>> ends_;  // that nodes take groups by
};

// Row-major position of element `index` in `shape`.
void unravel(i64 index, llvm::ArrayRef<Dim> shape, llvm::SmallVectorImpl<i64>& at);

// Advances the coordinates to the next element in row-major order.
void advance(llvm::ArrayRef<Dim> shape, llvm::SmallVectorImpl<i64>& at);

}  // namespace catenary
