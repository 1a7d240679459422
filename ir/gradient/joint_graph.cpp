// SPDX-License-Identifier: Apache-2.0
#include "ir/gradient/joint_graph.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "llvm/ADT/STLExtras.h"

namespace catenary::gradient {
namespace {

// Values with one key have equal results: everything but the name and the position.
std::string key_of(const Value& value) {
  std::string uses;
  for (const Use& use : value.operands) uses += fmt::format("{}@{};", use.value, use.labels);
  std::string ragged;
  if (value.ragged) {
    ragged = fmt::format("{}{}{}", value.ragged->label, value.ragged->group, value.ragged->ends);
  }
  const int dtype = value.op == Op::kCast ? static_cast<int>(value.type.dtype) : 0;
  return fmt::format("{} {} {:a} {:a} {} {} {} {}", static_cast<int>(value.op), uses,
                     value.attributes[0], value.attributes[1], value.equation, value.true_f32,
                     ragged, dtype);
}

// The letter of the group makes no difference.
bool same_rows(const GroupedRows& a, const GroupedRows& b) {
  return a.dim == b.dim && a.ends == b.ends;
}

// The operands of an elementwise op in the dimensions of its result.
class Placement {
 public:
  Placement(const JointGraph& graph, ValueId frame, llvm::ArrayRef<Placed> operands)
      : graph_(graph), frame_(frame), operands_(operands.begin(), operands.end()) {
    for (const Placed& operand : operands_) {
      rank_ = std::max(rank_, operand.dims.size() - (operand.rows ? 1 : 0));
      if (operand.rows && !rows_) rows_ = operand.rows;
    }
  }

  // False: no operand can carry every dimension of the result. A dimension of size 1 may take the
  // place of any other, since it broadcasts. Operands by group need the rows, all of them.
  bool fit() {
    llvm::SmallVector<int, 4> needed;
    const auto need = [&](int dim) {
      if (!llvm::is_contained(needed, dim)) needed.push_back(dim);
    };
    for (const Placed& operand : operands_) {
      for (size_t d = 0; d < operand.dims.size(); ++d) {
        if (operand.dims[d] != kByGroup && !is_unit(operand, d)) need(operand.dims[d]);
      }
    }
    if (rows_) {
      need(rows_->dim);
      if (llvm::none_of(operands_, [&](const Placed& o) { return has_rows(o); })) return false;
    }
    if (needed.size() > rank_) return false;
    for (Placed& operand : operands_) {
      if (!is_full(operand) || !move_units(operand, needed)) continue;
      for (Placed& other : operands_) {
        if (!move_units(other, operand.dims, /*all=*/false)) return false;
      }
      return true;
    }
    return false;
  }

  llvm::ArrayRef<Placed> operands() const { return operands_; }

  // Those by which operands are given by group.
  const std::optional<GroupedRows>& rows() const { return rows_; }

  // Those of the first operand of full rank, as verify() has it.
  const llvm::SmallVector<int, 4>& result_dims() const {
    return llvm::find_if(operands_, [&](const Placed& o) { return is_full(o); })->dims;
  }

  // True if aligning at the trailing dimensions places every operand, so that none needs labels.
  bool is_trailing() const {
    if (rows_) return false;
    const auto& dims = result_dims();
    return llvm::all_of(operands_, [&](const Placed& o) {
      return std::equal(o.dims.begin(), o.dims.end(), dims.end() - static_cast<i64>(o.dims.size()));
    });
  }

 private:
  bool is_unit(const Placed& operand, size_t d) const {
    return graph_.node(operand.id).shape[d] == kUnit;
  }

  bool is_full(const Placed& operand) const {
    return !operand.rows && operand.dims.size() == rank_;
  }

  // Has the operand every row of the frame?
  bool has_rows(const Placed& operand) const {
    const auto* found = llvm::find(operand.dims, rows_->dim);
    return found != operand.dims.end() &&
           graph_.node(operand.id).shape[found - operand.dims.begin()] ==
               graph_.node(frame_).shape[rows_->dim];
  }

  // Moves dimensions of size 1 that are not in `wanted` to members of `wanted` that the operand
  // lacks. `all`: every member must then have a dimension; else every dimension a member.
  bool move_units(Placed& operand, llvm::ArrayRef<int> wanted, bool all = true) const {
    Placed moved = operand;
    for (size_t d = 0; d < moved.dims.size(); ++d) {
      const bool placed = moved.dims[d] == kByGroup || llvm::is_contained(wanted, moved.dims[d]);
      if (placed || !is_unit(operand, d)) continue;
      for (int target : wanted) {
        if (llvm::is_contained(moved.dims, target)) continue;
        moved.dims[d] = target;
        break;
      }
    }
    const bool fits =
        all ? llvm::all_of(wanted, [&](int w) { return llvm::is_contained(moved.dims, w); })
            : llvm::all_of(moved.dims,
                           [&](int d) { return d == kByGroup || llvm::is_contained(wanted, d); });
    if (fits) operand = moved;
    return fits;
  }

  const JointGraph& graph_;
  ValueId frame_;
  llvm::SmallVector<Placed, 3> operands_;
  std::optional<GroupedRows> rows_;
  size_t rank_ = 0;
};

}  // namespace

namespace {

// Where one operand is placed by label, every operand is: a backward chain may read the operand
// that the labels are from as a parameter, which has none. Its rows are then of no known group, so
// a value with an operand by group says which they are.
Value with_labels(const VerifiedChain& chain, ValueId id) {
  Value value = chain.value(id);
  const ValueInfo& info = chain.info(id);
  if (llvm::any_of(info.operand_group, [](int dim) { return dim >= 0; })) {
    value.ragged = RaggedLabel{info.labels[info.rows->dim], info.rows->group, info.rows->ends};
  }
  const std::string& labels = chain.info(id).labels;
  const bool labeled =
      llvm::any_of(value.operands, [](const Use& use) { return !use.labels.empty(); });
  for (Use& use : value.operands) {
    const auto rank = static_cast<size_t>(chain.info(use.value).type.rank());
    if (labeled && use.labels.empty()) use.labels = labels.substr(labels.size() - rank);
  }
  return value;
}

}  // namespace

JointGraph::JointGraph(const VerifiedChain& forward) : forward_(forward) {
  for (ValueId id = 0; id < forward.num_values(); ++id) {
    const ValueInfo& info = forward.info(id);
    nodes_.push_back({with_labels(forward, id), info.type.shape, info.type.dtype});
    nodes_.back().value.at = {};
    if (!is_parameter(id)) known_.try_emplace(key_of(forward.value(id)), id);
  }
}

llvm::SmallVector<ValueId, 4> JointGraph::operands(ValueId id) const {
  llvm::SmallVector<ValueId, 4> result;
  const Value& value = nodes_[id].value;
  for (const Use& use : value.operands) result.push_back(use.value);
  if (value.ragged) result.push_back(value.ragged->ends);
  return result;
}

Placed JointGraph::output_gradient(int i) {
  const Output& output = forward_.chain().outputs[i];
  Value value;
  value.name = "d_" + forward_.value(output.value).name;
  value.type = forward_.output_type(i);
  value.type.strides = output.strides;
  Placed placed = forward_value(output.value);
  nodes_.push_back({value, value.type.shape, output.dtype});
  placed.id = size() - 1;
  return placed;
}

Placed JointGraph::forward_value(ValueId id) const {
  Placed placed{id, {}};
  for (int d = 0; d < static_cast<int>(nodes_[id].shape.size()); ++d) placed.dims.push_back(d);
  return placed;
}

Placed JointGraph::forward_operand(ValueId frame, size_t i) const {
  const Use& use = nodes_[frame].value.operands[i];
  const int rank = static_cast<int>(nodes_[frame].shape.size());
  const int operand_rank = static_cast<int>(nodes_[use.value].shape.size());
  const ValueInfo& info = forward_.info(frame);
  Placed placed{use.value, {}};
  for (int d = 0; d < operand_rank; ++d) {
    if (info.operand_group[i] == d) {
      placed.dims.push_back(kByGroup);
      placed.rows = info.rows;
    } else {
      placed.dims.push_back(use.labels.empty() ? rank - operand_rank + d
                                               : static_cast<int>(info.labels.find(use.labels[d])));
    }
  }
  return placed;
}

ValueId JointGraph::append(Value value, llvm::ArrayRef<Dim> shape, DType dtype) {
  const auto [known, fresh] = known_.try_emplace(key_of(value), size());
  if (!fresh) return known->second;
  nodes_.push_back({std::move(value), {}, dtype});
  nodes_.back().shape.assign(shape.begin(), shape.end());
  return size() - 1;
}

Placed JointGraph::constant(double number) {
  Value value;
  value.op = Op::kConstant;
  value.attributes[0] = number;
  return {append(std::move(value), {}, DType::kF32), {}};
}

Placed JointGraph::elementwise(ValueId frame, Op op, llvm::ArrayRef<Placed> operands,
                               llvm::ArrayRef<double> attributes) {
  Placement placement(*this, frame, operands);
  // A value has rows by one tensor of ends: operands by other ones take the full shape first.
  llvm::SmallVector<Placed, 3> full(operands.begin(), operands.end());
  bool other_rows = false;
  for (Placed& operand : full) {
    if (!operand.rows || same_rows(*operand.rows, *placement.rows())) continue;
    operand = expanded(frame, operand);
    other_rows = true;
  }
  if (other_rows) return elementwise(frame, op, full, attributes);
  if (!placement.fit()) {
    // Two operands span an outer product, or none has the rows of one by group: one of them takes
    // the full shape first.
    full[0] = expanded(frame, full[0]);
    return elementwise(frame, op, full, attributes);
  }
  Value value;
  value.op = op;
  const llvm::SmallVector<int, 4> dims = placement.result_dims();
  llvm::SmallVector<Dim, 4> shape(dims.size(), kUnit);
  const bool trailing = placement.is_trailing();
  if (placement.rows()) value.ragged = ragged_label(frame, *placement.rows());
  for (const Placed& operand : placement.operands()) {
    Use use{operand.id, ""};
    for (size_t d = 0; d < operand.dims.size(); ++d) {
      if (operand.dims[d] == kByGroup) {
        use.labels += value.ragged->group;
        continue;
      }
      if (!trailing) use.labels += letter(frame, operand.dims[d]);
      const Dim& size = nodes_[operand.id].shape[d];
      if (size != kUnit) shape[llvm::find(dims, operand.dims[d]) - dims.begin()] = size;
    }
    value.operands.push_back(std::move(use));
  }
  for (size_t i = 0; i < attributes.size(); ++i) value.attributes[i] = attributes[i];
  const Placed result{append(std::move(value), shape, DType::kF32), dims};
  // A dimension of size 1 that is larger in the frame: removed, as the invariant of Placed has it.
  llvm::SmallVector<int, 4> kept;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (shape[d] == nodes_[frame].shape[dims[d]]) kept.push_back(dims[d]);
  }
  return sum(frame, result, kept);
}

Placed JointGraph::cast(const Placed& x, DType dtype) {
  if (nodes_[x.id].dtype == dtype) return x;
  Value value;
  value.op = Op::kCast;
  value.operands = {Use{x.id, ""}};
  value.type.dtype = dtype;
  const llvm::SmallVector<Dim, 4> shape = nodes_[x.id].shape;
  return {append(std::move(value), shape, dtype), x.dims, x.rows};
}

Placed JointGraph::sum(ValueId frame, const Placed& x, llvm::ArrayRef<int> kept) {
  return reduce(frame, x, kept, std::nullopt);
}

Placed JointGraph::sum_by_group(ValueId frame, const Placed& x, const GroupedRows& rows,
                                llvm::ArrayRef<int> kept) {
  Placed result = reduce(frame, x, kept, ragged_label(frame, rows));
  result.rows = rows;
  return result;
}

Placed JointGraph::reduce(ValueId frame, const Placed& x, llvm::ArrayRef<int> kept,
                          const std::optional<RaggedLabel>& ragged) {
  Placed result;
  Value value;
  value.op = Op::kSum;
  value.operands = {Use{x.id, ""}};
  value.ragged = ragged;
  llvm::SmallVector<Dim, 4> shape;
  const auto letter_of = [&](int dim) {
    return dim == kByGroup ? ragged_label(frame, *x.rows).group : letter(frame, dim);
  };
  for (int dim : x.dims) value.equation += letter_of(dim);
  value.equation += "->";
  for (int dim : kept) {
    const auto* found = llvm::find(x.dims, dim);
    const bool is_group = ragged && dim == kByGroup;
    if (found == x.dims.end() && !is_group) continue;
    value.equation += is_group ? ragged->group : letter_of(dim);
    result.dims.push_back(dim);
    if (!is_group && dim == kByGroup) result.rows = x.rows;
    shape.push_back(is_group ? nodes_[ragged->ends].shape[0]
                             : nodes_[x.id].shape[found - x.dims.begin()]);
  }
  if (!ragged && result.dims.size() == x.dims.size()) return x;
  result.id = append(std::move(value), shape, DType::kF32);
  return result;
}

ValueId JointGraph::contract(const std::string& left_labels, ValueId left,
                             const std::string& right_labels, ValueId right,
                             const std::string& labels, const Value& like) {
  Value value;
  value.op = Op::kContract;
  value.operands = {Use{left, ""}, Use{right, ""}};
  value.equation = fmt::format("{},{}->{}", left_labels, right_labels, labels);
  value.true_f32 = like.true_f32;
  value.ragged = like.ragged;
  llvm::SmallVector<Dim, 4> shape;
  for (char label : labels) {
    const size_t at = left_labels.find(label);
    if (at != std::string::npos) {
      shape.push_back(nodes_[left].shape[at]);
    } else if (const size_t in_right = right_labels.find(label); in_right != std::string::npos) {
      shape.push_back(nodes_[right].shape[in_right]);
    } else {
      shape.push_back(nodes_[like.ragged->ends].shape[0]);  // the group of a K-grouped sum
    }
  }
  return append(std::move(value), shape, DType::kF32);
}

Placed JointGraph::expanded(ValueId frame, const Placed& x) {
  const Placed full = forward_value(frame);
  if (x.dims == full.dims && nodes_[x.id].shape == nodes_[frame].shape) return x;
  const Placed zeros = elementwise(frame, Op::kClamp, {full}, {0, 0});
  return elementwise(frame, Op::kAdd, {zeros, x});
}

bool JointGraph::is_broadcast(ValueId frame, const Placed& x) const {
  const auto& shape = nodes_[frame].shape;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (shape[d] != kUnit && !llvm::is_contained(x.dims, d)) return true;
  }
  return x.rows.has_value();
}

char JointGraph::letter(ValueId frame, int dim) const {
  const std::string& labels = forward_.info(frame).labels;
  return labels.empty() ? static_cast<char>('a' + dim) : labels[dim];
}

RaggedLabel JointGraph::ragged_label(ValueId frame, const GroupedRows& rows) const {
  std::string taken;
  for (int d = 0; d < static_cast<int>(nodes_[frame].shape.size()); ++d) taken += letter(frame, d);
  char group = rows.group;
  for (char other = 'a'; taken.find(group) != std::string::npos; ++other) group = other;
  return {letter(frame, rows.dim), group, rows.ends};
}

void JointGraph::suggest_name(ValueId id, const std::string& name) {
  if (nodes_[id].value.name.empty()) nodes_[id].value.name = name;
}

}  // namespace catenary::gradient
