// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/reference_program.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <utility>

#include "ir/reference/reference_accumulate.h"
#include "ir/reference/reference_interval.h"

namespace catenary {
namespace {

// What indexes a dimension of a value: the root's dimension `dim`, or -1: coordinate 0. With ends,
// the group of the root's row; with several, the group of that group, and so on.
struct Index {
  int dim = -1;
  std::vector<ValueId> ends = {};
  auto operator<=>(const Index&) const = default;
};

// For each dimension of a value.
using DimMap = llvm::SmallVector<Index, 4>;

// The group of the root's row; -1: the row is of none. A group of a row of none is not read.
i64 group_of(const GroupCoordinate& coordinate, llvm::ArrayRef<i64> at) {
  i64 row = coordinate.dim < 0 ? 0 : at[coordinate.dim];
  for (const std::vector<i64>* ends : coordinate.ends) {
    const auto found = std::upper_bound(ends->begin(), ends->end(), std::max<i64>(row, 0));
    row = found == ends->end() ? -1 : found - ends->begin();
  }
  return row;
}

class Builder {
 public:
  Builder(const VerifiedChain& chain, llvm::ArrayRef<TensorType> types,
          llvm::ArrayRef<const void*> data, int rank, std::map<ValueId, std::vector<i64>>& ends)
      : chain_(chain), types_(types), data_(data), rank_(rank), ends_(ends) {}

  int add(ValueId id, const DimMap& map) {
    const auto key = std::make_pair(id, std::vector<Index>(map.begin(), map.end()));
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    const Value& value = chain_.value(id);
    ProgramNode node;
    node.value = id;
    node.op = value.op;
    node.dtype = types_[id].dtype;
    node.data = data_[id];
    node.attributes[0] = value.attributes[0];
    node.attributes[1] = value.attributes[1];
    if (is_elementwise(value.op) || value.op == Op::kCast) {
      for (size_t i = 0; i < value.operands.size(); ++i) {
        node.operands.push_back(add(value.operands[i].value, operand_map(id, i, map)));
        node.operand_groups.push_back(operand_group(id, i, map));
      }
      if (value.op == Op::kAdd) add_summands(node);
    } else {
      node.strides.assign(rank_, 0);
      for (size_t d = 0; d < map.size(); ++d) {
        const i64 stride = types_[id].strides[d];
        if (!map[d].ends.empty()) {
          node.groups.push_back(coordinate(map[d]));
          node.groups.back().stride = stride;
        } else if (map[d].dim >= 0) {
          node.strides[map[d].dim] += stride;
        }
      }
    }
    nodes_.push_back(std::move(node));
    return known_[key] = static_cast<int>(nodes_.size()) - 1;
  }

  std::vector<ProgramNode> take() { return std::move(nodes_); }

 private:
  void add_summands(ProgramNode& sum) const {
    llvm::SmallVector<Summand, 2> summands;
    for (const int operand : sum.operands) {
      const ProgramNode& node = nodes_[operand];
      const bool right = operand != sum.operands[0];
      if (node.op == Op::kContract) {
        summands.push_back({operand, right, sum_rate(node.value)});
      } else if (!node.summands.empty()) {
        for (Summand summand : node.summands) {
          summand.right = right;
          summands.push_back(summand);
        }
      } else {
        return;
      }
    }
    sum.summands = std::move(summands);
  }

  // The steps of a contraction's sum times the error of each (reference_accumulate.h).
  double sum_rate(ValueId id) const {
    i64 terms = 1;
    const auto& shape = types_[chain_.value(id).operands[0].value].shape;
    for (const ContractionLabel& label : chain_.info(id).contraction->k)
      terms *= shape[label.left].size;
    return error_beside(sum_rule(chain_, id), terms);
  }

  DimMap operand_map(ValueId id, size_t i, const DimMap& map) const {
    DimMap result(types_[chain_.value(id).operands[i].value].rank());
    const ValueInfo& info = chain_.info(id);
    const auto& dims = info.operand_dims[i];
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] >= 0) result[dims[d]] = map[d];
    }
    const int group = info.operand_group[i];
    if (group >= 0) {
      result[group] = map[info.rows->dim];
      result[group].ends.push_back(info.rows->ends);
    }
    return result;
  }

  GroupCoordinate coordinate(const Index& index) {
    GroupCoordinate result;
    result.dim = index.dim;
    for (const ValueId ends : index.ends) result.ends.push_back(ends_of(ends));
    return result;
  }

  GroupCoordinate operand_group(ValueId id, size_t i, const DimMap& map) {
    const ValueInfo& info = chain_.info(id);
    if (info.operand_group[i] < 0) return {};
    GroupCoordinate result = coordinate(map[info.rows->dim]);
    result.ends.push_back(ends_of(info.rows->ends));
    return result;
  }

  const std::vector<i64>* ends_of(ValueId id) {
    std::vector<i64>& ends = ends_[id];
    for (i64 g = static_cast<i64>(ends.size()); g < types_[id].shape[0].size; ++g) {
      ends.push_back(
          static_cast<i64>(load_element(DType::kI32, data_[id], g * types_[id].strides[0])));
    }
    return &ends;
  }

  const VerifiedChain& chain_;
  llvm::ArrayRef<TensorType> types_;
  llvm::ArrayRef<const void*> data_;
  int rank_;
  std::vector<ProgramNode> nodes_;
  std::map<ValueId, std::vector<i64>>& ends_;
  std::map<std::pair<ValueId, std::vector<Index>>, int> known_;
};

// The element of a parameter or an anchor at the root's coordinates. Who takes one by group ignores
// it in a row of no group.
i64 offset_of(llvm::ArrayRef<i64> at, const ProgramNode& node) {
  i64 offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * node.strides[d];
  for (const GroupCoordinate& coordinate : node.groups) {
    offset += std::max<i64>(group_of(coordinate, at), 0) * coordinate.stride;
  }
  return offset;
}

// What one sum over the terms of all summands may add to the error of an addition. Integers that
// f32 represents stay exact.
double error_of_one_sum(const ProgramNode& node, llvm::ArrayRef<Interval> values) {
  double magnitude[2] = {0, 0};
  double rate[2] = {0, 0};
  bool exact = true;
  for (const Summand& summand : node.summands) {
    const Interval& x = values[summand.node];
    magnitude[summand.right] += std::fabs(x.value) + x.error;
    rate[summand.right] += summand.rate;
    exact = exact && x.error == 0;
  }
  if (exact && magnitude[0] + magnitude[1] <= 0x1p24) return 0;
  return rate[0] * magnitude[1] + rate[1] * magnitude[0];
}

}  // namespace

ReferenceProgram::ReferenceProgram(const VerifiedChain& chain, llvm::ArrayRef<TensorType> types,
                                   llvm::ArrayRef<const void*> data, ValueId root) {
  const int rank = types[root].rank();
  DimMap identity;
  for (int d = 0; d < rank; ++d) identity.push_back({d});
  Builder builder(chain, types, data, rank, ends_);
  builder.add(root, identity);
  nodes_ = builder.take();
}

Interval ReferenceProgram::evaluate(llvm::ArrayRef<i64> at, AnchorSource anchor,
                                    std::vector<Interval>& scratch) const {
  scratch.resize(nodes_.size());
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const ProgramNode& node = nodes_[n];
    llvm::SmallVector<Interval, 3> operands;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const GroupCoordinate& group = node.operand_groups[i];
      const bool given = group.ends.empty() || group_of(group, at) >= 0;
      operands.push_back(given ? scratch[node.operands[i]] : Interval{});
    }
    if (node.op == Op::kParameter) {
      scratch[n] = {load_element(node.dtype, node.data, offset_of(at, node)), 0};
    } else if (node.op == Op::kContract || node.op == Op::kDequant || is_reduction(node.op)) {
      scratch[n] = anchor(node.value, offset_of(at, node));
    } else if (node.op == Op::kCast) {
      scratch[n] = cast_interval(node.dtype, operands[0]);
    } else {
      if (!node.summands.empty() && std::isfinite(operands[0].value))
        operands[0].error += error_of_one_sum(node, scratch);
      scratch[n] = apply_op(node.op, operands, node.attributes);
    }
  }
  return scratch.back();
}

llvm::SmallVector<ValueId, 4> ReferenceProgram::anchors() const {
  llvm::SmallVector<ValueId, 4> result;
  for (const ProgramNode& node : nodes_) {
    const bool anchor = node.op == Op::kContract || is_reduction(node.op);
    if (anchor && !llvm::is_contained(result, node.value)) result.push_back(node.value);
  }
  return result;
}

void unravel(i64 index, llvm::ArrayRef<Dim> shape, llvm::SmallVectorImpl<i64>& at) {
  at.resize(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    at[d] = index % shape[d].size;
    index /= shape[d].size;
  }
}

void advance(llvm::ArrayRef<Dim> shape, llvm::SmallVectorImpl<i64>& at) {
  for (size_t d = shape.size(); d-- > 0;) {
    if (++at[d] < shape[d].size) return;
    at[d] = 0;
  }
}

}  // namespace catenary
