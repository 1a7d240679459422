// SPDX-License-Identifier: Apache-2.0
// A kernel of any chain that is correct and slow, for tests of the reference's error bounds.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/reference/reference.h"
#include "ir/reference/reference_interval.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary::test {

// Computes one element at a time in f32, op by op: a correct but slow kernel.
class FloatKernel {
 public:
  FloatKernel(const VerifiedChain& chain, const ReferenceInputs& inputs)
      : chain_(chain), inputs_(inputs) {}

  float element(ValueId id, const llvm::SmallVector<i64, 4>& at) const {
    const Value& value = chain_.value(id);
    const ValueInfo& info = chain_.info(id);
    if (value.op == Op::kParameter) return parameter(id, at);
    if (value.op == Op::kConstant) return static_cast<float>(value.attributes[0]);
    if (value.op == Op::kContract) return contract(value, info, at);
    if (is_reduction(value.op)) return reduce(value, info, at);
    if (value.op == Op::kDequant) return dequantised(value, at);
    Interval x[3];
    for (size_t i = 0; i < value.operands.size(); ++i) {
      llvm::SmallVector<i64, 4> place(chain_.info(value.operands[i].value).type.rank(), 0);
      for (size_t d = 0; d < at.size(); ++d) {
        if (info.operand_dims[i][d] >= 0) place[info.operand_dims[i][d]] = at[d];
      }
      x[i].value = element(value.operands[i].value, place);
    }
    if (value.op == Op::kCast) return static_cast<float>(round_to(info.type.dtype, x[0].value));
    // The exact result of f32 operands, rounded to f32.
    return static_cast<float>(
        apply_op(value.op, llvm::makeArrayRef(x, value.operands.size()), value.attributes).value);
  }

 private:
  i64 size(const Dim& dim) const { return dim.symbolic ? inputs_.symbol : dim.size; }

  float parameter(ValueId id, const llvm::SmallVector<i64, 4>& at) const {
    const HostTensor& host = inputs_.parameters[id];
    return static_cast<float>(
        load_element(host.type.dtype, host.data, element_index(host.type, at)));
  }

  float dequantised(const Value& value, const llvm::SmallVector<i64, 4>& at) const {
    llvm::SmallVector<i64, 4> block = at;
    block[at.size() - 2] /= value.block.rows;
    block[at.size() - 1] /= value.block.columns;
    float q = parameter(value.operands[0].value, at);
    if (value.operands.size() > 2) q -= parameter(value.operands[2].value, block);
    return q * parameter(value.operands[1].value, block);
  }

  float contract(const Value& value, const ValueInfo& info, llvm::SmallVector<i64, 4> at) const {
    const Contraction& c = *info.contraction;
    llvm::SmallVector<i64, 4> left(chain_.info(value.operands[0].value).type.rank(), 0);
    llvm::SmallVector<i64, 4> right(chain_.info(value.operands[1].value).type.rank(), 0);
    for (const auto* labels : {&c.batch, &c.m, &c.n}) {
      for (const ContractionLabel& label : *labels) {
        if (label.left >= 0) left[label.left] = at[label.result];
        if (label.right >= 0) right[label.right] = at[label.result];
      }
    }
    i64 terms = 1;
    for (const ContractionLabel& label : c.k) terms *= size(label.size);
    const bool tf32 =
        chain_.info(value.operands[0].value).type.dtype == DType::kF32 && !value.true_f32;
    float sum = 0;
    for (i64 k = 0; k < terms; ++k) {
      i64 rest = k;
      for (const ContractionLabel& label : llvm::reverse(c.k)) {
        left[label.left] = right[label.right] = rest % size(label.size);
        rest /= size(label.size);
      }
      double a = element(value.operands[0].value, left);
      double b = element(value.operands[1].value, right);
      if (tf32) a = round_to_tf32(a), b = round_to_tf32(b);
      sum = static_cast<float>(a * b + sum);
    }
    return sum;
  }

  float reduce(const Value& value, const ValueInfo& info,
               const llvm::SmallVector<i64, 4>& at) const {
    const bool largest = value.op == Op::kReduceMax;
    const TensorType& type = chain_.info(value.operands[0].value).type;
    llvm::SmallVector<i64, 4> place(type.rank(), 0);
    for (size_t d = 0; d < at.size(); ++d) place[info.operand_dims[0][d]] = at[d];
    i64 terms = 1;
    for (int d : info.summed) terms *= size(type.shape[d]);
    float result = largest ? -std::numeric_limits<float>::infinity() : 0;
    for (i64 t = 0; t < terms; ++t) {
      i64 rest = t;
      for (int d : info.summed) {
        place[d] = rest % size(type.shape[d]);
        rest /= size(type.shape[d]);
      }
      const float x = element(value.operands[0].value, place);
      result = !largest ? result + x : x > result || std::isnan(x) ? x : result;
    }
    return result;
  }

  const VerifiedChain& chain_;
  const ReferenceInputs& inputs_;
};

}  // namespace catenary::test
