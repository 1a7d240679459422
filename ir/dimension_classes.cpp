// SPDX-License-Identifier: Apache-2.0
#include "ir/dimension_classes.h"

#include <numeric>
#include <utility>

namespace catenary {

DimensionClasses::DimensionClasses(const VerifiedChain& chain) {
  int nodes = 0;
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    first_.push_back(nodes);
    nodes += chain.info(id).type.rank();
  }
  parent_.resize(nodes);
  std::iota(parent_.begin(), parent_.end(), 0);
  for (ValueId id = 0; id < chain.num_values(); ++id) join_operands(chain, id);
}

int DimensionClasses::of(ValueId id, int dim) const {
  int node = first_[id] + dim;
  while (parent_[node] != node) node = parent_[node];
  return node;
}

// -1: a tensor lacks the dimension.
void DimensionClasses::join(ValueId a, int dim_a, ValueId b, int dim_b) {
  if (dim_a >= 0 && dim_b >= 0) parent_[of(a, dim_a)] = of(b, dim_b);
}

void DimensionClasses::join_label(ValueId id, const Value& value, const ContractionLabel& label) {
  const ValueId left = value.operands[0].value, right = value.operands[1].value;
  join(left, label.left, right, label.right);
  join(left, label.left, id, label.result);
  join(right, label.right, id, label.result);
}

void DimensionClasses::join_operands(const VerifiedChain& chain, ValueId id) {
  const Value& value = chain.value(id);
  const ValueInfo& info = chain.info(id);
  if (info.contraction) {
    const Contraction& c = *info.contraction;
    for (const auto* labels : {&c.batch, &c.m, &c.n, &c.k}) {
      for (const ContractionLabel& label : *labels) join_label(id, value, label);
    }
    if (c.ragged_group) join_label(id, value, *c.ragged_group);
    return;
  }
  if (value.op == Op::kDequant) {
    for (int d = 0; d < info.type.rank(); ++d) join(id, d, value.operands[0].value, d);
    return;
  }
  for (size_t o = 0; o < info.operand_dims.size(); ++o) {
    const ValueId operand = value.operands[o].value;
    for (int d = 0; d < info.type.rank(); ++d) {
      const int dim = info.operand_dims[o][d];
      if (dim < 0 || chain.info(operand).type.shape[dim] != info.type.shape[d]) continue;
      join(id, d, operand, dim);  // else a dimension of size 1, which is broadcast
    }
  }
}

namespace {

// Marks the classes of one value after the other.
class GroupedClasses {
 public:
  GroupedClasses(const VerifiedChain& chain, const DimensionClasses& classes)
      : chain_(chain), classes_(classes), grouped_(classes.size()) {}

  std::vector<bool> run() {
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      mark_rows(id);
      mark_ragged(id);
      if (chain_.value(id).op != Op::kDequant) continue;
      for (const Use& operand : chain_.value(id).operands) {
        for (int d = 0; d < chain_.info(operand.value).type.rank(); ++d) mark(operand.value, d);
      }
    }
    return std::move(grouped_);
  }

 private:
  void mark(ValueId id, int dim) {
    if (dim >= 0) grouped_[classes_.of(id, dim)] = true;
  }

  void mark_rows(ValueId id) {
    const ValueInfo& info = chain_.info(id);
    if (info.rows) {
      mark(id, info.rows->dim);
      if (info.rows->ends >= 0) mark(info.rows->ends, 0);
    }
    for (size_t o = 0; o < info.operand_group.size(); ++o)
      mark(chain_.value(id).operands[o].value, info.operand_group[o]);
  }

  void mark_ragged(ValueId id) {
    const Value& value = chain_.value(id);
    const ValueInfo& info = chain_.info(id);
    if (!value.ragged) return;
    mark(value.ragged->ends, 0);
    if (info.grouped_terms) {
      mark(value.operands[0].value, info.grouped_terms->dim);
      mark(id, info.grouped_terms->group);
    }
    if (!info.contraction) return;
    const auto mark_label = [&](const ContractionLabel& label) {
      mark(value.operands[0].value, label.left);
      mark(value.operands[1].value, label.right);
      mark(id, label.result);
    };
    const Contraction& c = *info.contraction;
    if (c.ragged_group) mark_label(*c.ragged_group);
    for (const auto* labels : {&c.batch, &c.m, &c.n, &c.k}) {
      for (const ContractionLabel& label : *labels) {
        if (label.label == value.ragged->label) mark_label(label);
      }
    }
  }

  const VerifiedChain& chain_;
  const DimensionClasses& classes_;
  std::vector<bool> grouped_;
};

}  // namespace

std::vector<bool> grouped_classes(const VerifiedChain& chain, const DimensionClasses& classes) {
  return GroupedClasses(chain, classes).run();
}

}  // namespace catenary
