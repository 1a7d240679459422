// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/reference_dequant.h"

#include <cmath>
#include <limits>

#include "ir/reference/reference_interval.h"
#include "ir/reference/reference_program.h"

namespace catenary {
namespace {

constexpr double kMostFp8Scale = 0x1p63;

}  // namespace

DequantTask::DequantTask(const VerifiedChain& chain, llvm::ArrayRef<TensorType> types,
                         llvm::ArrayRef<const void*> data, ValueId id)
    : block_(chain.value(id).block) {
  for (const Use& use : chain.value(id).operands) {
    types_.push_back(types[use.value]);
    data_.push_back(data[use.value]);
  }
}

double DequantTask::load(size_t operand, llvm::ArrayRef<i64> at) const {
  return load_element(types_[operand].dtype, data_[operand], element_index(types_[operand], at));
}

Interval DequantTask::element(llvm::ArrayRef<i64> at) const {
  llvm::SmallVector<i64, 4> block(at.begin(), at.end());
  block.end()[-2] /= block_.rows;
  block.end()[-1] /= block_.columns;
  const double scale = load(1, block);
  if (is_fp8(types_[0].dtype)) {
    // Every product with a NaN is one, and two scales below 2^63 have a finite product.
    if (std::isnan(scale)) return {scale, 0};
    if (std::fabs(scale) >= kMostFp8Scale) return {0, std::numeric_limits<double>::infinity()};
  }
  if (!std::isfinite(scale)) return {0, std::numeric_limits<double>::infinity()};
  const double zero = types_.size() > 2 ? load(2, block) : 0;
  return apply_op(Op::kMul, {Interval{load(0, at) - zero, 0}, Interval{scale, 0}}, {0, 0});
}

Interval DequantTask::element(i64 index) const {
  llvm::SmallVector<i64, 4> at;
  unravel(index, types_[0].shape, at);
  return element(at);
}

}  // namespace catenary
