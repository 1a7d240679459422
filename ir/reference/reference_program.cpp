// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/reference_program.h"

#include <map>
#include <utility>

#include "ir/reference/reference_interval.h"

namespace catenary {
namespace {

// For each dimension of a value the root's dimension, or -1: coordinate 0.
using DimMap = llvm::SmallVector<int, 4>;

class Builder {
 public:
  Builder(const VerifiedChain& chain, llvm::ArrayRef<TensorType> types,
          llvm::ArrayRef<const void*> data, int rank)
      : chain_(chain), types_(types), data_(data), rank_(rank) {}

  int add(ValueId id, const DimMap& map) {
    const auto key = std::make_pair(id, std::vector<int>(map.begin(), map.end()));
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
      }
    } else {
      node.strides.assign(rank_, 0);
      for (size_t d = 0; d < map.size(); ++d) {
        if (map[d] >= 0) node.strides[map[d]] += types_[id].strides[d];
      }
    }
    nodes_.push_back(std::move(node));
    return known_[key] = static_cast<int>(nodes_.size()) - 1;
  }

  std::vector<ProgramNode> take() { return std::move(nodes_); }

 private:
  DimMap operand_map(ValueId id, size_t i, const DimMap& map) const {
    DimMap result(types_[chain_.value(id).operands[i].value].rank(), -1);
    const auto& dims = chain_.info(id).operand_dims[i];
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] >= 0) result[dims[d]] = map[d];
    }
    return result;
  }

  const VerifiedChain& chain_;
  llvm::ArrayRef<TensorType> types_;
  llvm::ArrayRef<const void*> data_;
  int rank_;
  std::vector<ProgramNode> nodes_;
  std::map<std::pair<ValueId, std::vector<int>>, int> known_;
};

i64 offset_of(llvm::ArrayRef<i64> at, llvm::ArrayRef<i64> strides) {
  i64 offset = 0;
  for (size_t d = 0; d < at.size(); ++d) offset += at[d] * strides[d];
  return offset;
}

}  // namespace

ReferenceProgram::ReferenceProgram(const VerifiedChain& chain, llvm::ArrayRef<TensorType> types,
                                   llvm::ArrayRef<const void*> data, ValueId root) {
  const int rank = types[root].rank();
  DimMap identity;
  for (int d = 0; d < rank; ++d) identity.push_back(d);
  Builder builder(chain, types, data, rank);
  builder.add(root, identity);
  nodes_ = builder.take();
}

Interval ReferenceProgram::evaluate(llvm::ArrayRef<i64> at, AnchorSource anchor,
                                    std::vector<Interval>& scratch) const {
  scratch.resize(nodes_.size());
  for (size_t n = 0; n < nodes_.size(); ++n) {
    const ProgramNode& node = nodes_[n];
    llvm::SmallVector<Interval, 3> operands;
    for (int operand : node.operands) operands.push_back(scratch[operand]);
    if (node.op == Op::kParameter) {
      scratch[n] = {load_element(node.dtype, node.data, offset_of(at, node.strides)), 0};
    } else if (node.op == Op::kContract || is_reduction(node.op)) {
      scratch[n] = anchor(node.value, offset_of(at, node.strides));
    } else if (node.op == Op::kCast) {
      scratch[n] = cast_interval(node.dtype, operands[0]);
    } else {
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
