// SPDX-License-Identifier: Apache-2.0
// Ragged labels of values that are no contractions: operands taken by the group of a row, sums by
// group.
#include <algorithm>

#include "ir/random/random_parts.h"

namespace catenary {
namespace {

constexpr char kGroup = 'z';

}  // namespace

// `labels` names the value's dimensions, `ragged` divides one of them.
ValueId RandomParts::operand_by_group(ValueId id, const RaggedLabel& ragged,
                                      const std::string& labels) {
  constexpr Op kOps[] = {Op::kAdd, Op::kAdd, Op::kMul, Op::kMul, Op::kSub, Op::kMin, Op::kMax};
  Op op = groups_.pick<Op>(kOps);
  const double before = known(id).magnitude;
  if (!allowed(op, result_magnitude(op, before, 2))) op = Op::kMin;
  Known facts = known(id);
  facts.used = false;
  facts.labels = labels;
  facts.dtype = DType::kF32;
  facts.magnitude = result_magnitude(op, before, 2);
  Use use{-1, std::string(1, kGroup)};
  llvm::SmallVector<Dim, 4> shape = {known(ragged.ends).shape[0]};
  for (size_t d = 0; d < labels.size(); ++d) {
    if (labels[d] == ragged.label || !groups_.chance(60)) continue;
    use.labels += labels[d];
    shape.push_back(facts.shape[d]);
  }
  if (groups_.chance(30)) {
    std::rotate(use.labels.begin(), use.labels.begin() + 1, use.labels.end());
    std::rotate(shape.begin(), shape.begin() + 1, shape.end());
  }
  use.value = parameter(groups_.chance(70) ? Role::kWeight : Role::kInput, float_dtype(), shape);
  Value value;
  value.op = op;
  value.operands = {Use{id, labels}, use};
  if (groups_.chance(30)) std::swap(value.operands[0], value.operands[1]);
  value.ragged = ragged;
  return append(std::move(value), std::move(facts));
}

ValueId RandomParts::sum_by_group(ValueId id, const RaggedLabel& ragged,
                                  const std::string& labels) {
  Known facts;
  facts.magnitude = known(id).magnitude;
  std::string result(1, kGroup);
  for (size_t d = 0; d < labels.size(); ++d) {
    if (labels[d] != ragged.label && groups_.chance(70)) {
      result.insert(result.begin() + groups_.range(0, static_cast<i64>(result.size())), labels[d]);
      continue;
    }
    facts.magnitude *= static_cast<double>(std::max<i64>(known(id).shape[d].size, 1));
  }
  if (!allowed(Op::kSum, facts.magnitude)) return id;
  for (const char label : result) {
    facts.shape.push_back(label == kGroup ? known(ragged.ends).shape[0]
                                          : known(id).shape[labels.find(label)]);
  }
  facts.labels = result;
  Value value;
  value.op = Op::kSum;
  value.operands = {Use{id, ""}};
  value.equation = labels + "->" + result;
  value.ragged = ragged;
  return append(std::move(value), std::move(facts));
}

ValueId RandomParts::by_group(ValueId id) {
  if (options_.no_ragged || options_.no_group_operands || known(id).shape.empty()) return id;
  if (!groups_.chance(40)) return id;
  std::string labels;
  while (labels.size() < known(id).shape.size()) labels += static_cast<char>('a' + labels.size());
  RaggedLabel ragged;
  ragged.label = labels[groups_.range(0, static_cast<i64>(labels.size()) - 1)];
  ragged.group = kGroup;
  i64 others = 1;  // elements of a row
  for (size_t d = 0; d < labels.size(); ++d) {
    if (labels[d] != ragged.label) others *= std::max<i64>(known(id).shape[d].size, 1);
  }
  const i64 most = std::clamp<i64>(options_.max_elements / others, 1, 5);
  ragged.ends = parameter(Role::kInput, DType::kI32, Dim{groups_.range(1, most), false});
  value(ragged.ends).type.strides.clear();
  const bool takes = groups_.chance(50);
  if (takes) id = operand_by_group(id, ragged, labels);
  if (!takes || groups_.chance(60)) {
    const ValueId sum = sum_by_group(id, ragged, labels);
    if (sum != id) return sum;
  }
  return takes ? id : operand_by_group(id, ragged, labels);
}

}  // namespace catenary
