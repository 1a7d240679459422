// SPDX-License-Identifier: Apache-2.0
// Visits the forward values from the last to the first. The gradients that reach a value are added
// in f32, contractions first, since one accumulator can hold their sum, and else in the order of
// its uses from the last to the first; then its op passes the sum on.
#include "ir/gradient/reverse.h"

#include <algorithm>

#include "ir/gradient/derivatives.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary::gradient {
namespace {

class Reverse {
 public:
  Reverse(JointGraph& graph, llvm::ArrayRef<ValueId> wanted)
      : graph_(graph), active_(graph.num_forward()), reaching_(graph.num_forward()) {
    for (ValueId id : wanted) active_[id] = true;
    for (ValueId id = 0; id < graph.num_forward(); ++id) {
      const Value& value = graph.node(id).value;
      for (size_t i = 0; i < value.operands.size(); ++i) {
        if (is_differentiable(value.op, i) && active_[value.operands[i].value]) active_[id] = true;
      }
    }
  }

  Reversed run(llvm::ArrayRef<ValueId> wanted, llvm::ArrayRef<int> outputs) {
    Reversed result;
    for (int i : outputs) {
      const ValueId value = graph_.forward().chain().outputs[i].value;
      if (!active_[value]) continue;
      const Placed gradient = graph_.output_gradient(i);
      result.output_gradients.emplace_back(i, gradient.id);
      reaching_[value].push_back(gradient);
    }
    for (ValueId id = graph_.num_forward() - 1; id >= 0; --id) {
      if (reaching_[id].empty() || graph_.is_parameter(id)) continue;
      pass_on(id, total(id));
    }
    for (ValueId id : wanted) {
      if (reaching_[id].empty()) continue;
      Placed gradient = total(id);
      if (graph_.is_broadcast(id, gradient)) gradient = graph_.expanded(id, gradient);
      graph_.suggest_name(gradient.id, "d_" + graph_.node(id).value.name);
      result.gradients.emplace_back(id, gradient);
    }
    return result;
  }

 private:
  // The sum of the gradients that reach a value.
  Placed total(ValueId id) {
    llvm::stable_sort(reaching_[id], [&](const Placed& a, const Placed& b) {
      return is_contraction(a) && !is_contraction(b);
    });
    Placed sum = reaching_[id].front();
    for (size_t i = 1; i < reaching_[id].size(); ++i) {
      sum = graph_.elementwise(id, Op::kAdd, {sum, reaching_[id][i]});
    }
    if (!graph_.is_forward(sum.id)) graph_.suggest_name(sum.id, "d_" + graph_.node(id).value.name);
    return sum;
  }

  bool is_contraction(const Placed& gradient) const {
    return graph_.node(gradient.id).value.op == Op::kContract;
  }

  void pass_on(ValueId id, const Placed& gradient) {
    const Op op = graph_.node(id).value.op;
    if (op == Op::kContract) return pass_contract(id, gradient);
    if (op == Op::kSum) return pass_sum(id, gradient);
    if (op == Op::kReduceMax) return pass_max(id, gradient);
    if (op == Op::kCast) return pass_cast(id, gradient);
    const size_t count = graph_.node(id).value.operands.size();
    for (size_t i = 0; i < count; ++i) {
      const ValueId operand = graph_.node(id).value.operands[i].value;
      if (!active_[operand] || !is_differentiable(op, i)) continue;
      auto passed = derivative(graph_, id, i, gradient);
      if (passed) reaching_[operand].push_back(summed_to_operand(id, i, std::move(*passed)));
    }
  }

  // The sum over the dimensions in which operand `i` of elementwise value `frame` is broadcast; of
  // one by group the sum over the rows of each group.
  Placed summed_to_operand(ValueId frame, size_t i, Placed gradient) {
    const Placed operand = graph_.forward_operand(frame, i);
    const auto& shape = graph_.node(frame).shape;
    llvm::SmallVector<int, 4> kept;  // in the operand's order
    for (size_t d = 0; d < operand.dims.size(); ++d) {
      const int dim = operand.dims[d];
      if (dim == kByGroup || graph_.node(operand.id).shape[d] == shape[dim]) kept.push_back(dim);
    }
    gradient = with_rows(frame, operand, kept, std::move(gradient));
    gradient = times_equal_terms(frame, operand, kept, std::move(gradient));
    const bool keeps_group = gradient.rows && llvm::is_contained(kept, gradient.row_dim());
    if (keeps_group) kept.push_back(kByGroup);
    const bool sums =
        llvm::any_of(gradient.dims, [&](int d) { return !llvm::is_contained(kept, d); });
    if (operand.rows) {
      gradient = graph_.sum_by_group(frame, gradient, *operand.rows, kept);
      gradient.rows.reset();  // the operand has the groups as a dimension of its own
    } else if (sums) {
      gradient = graph_.sum(frame, gradient, kept);
    }
    return moved_to(operand, std::move(gradient));
  }

  // A gradient by group, or one that does not depend on the rows, with every row where rows are
  // summed.
  Placed with_rows(ValueId frame, const Placed& operand, llvm::ArrayRef<int> kept,
                   Placed gradient) {
    const bool sums_groups =
        gradient.rows && (operand.rows || !llvm::is_contained(kept, gradient.row_dim()));
    const bool lacks_rows = operand.rows && !llvm::is_contained(gradient.dims, operand.row_dim());
    return sums_groups || lacks_rows ? graph_.expanded(frame, gradient) : gradient;
  }

  // Equal terms: their number times one of them, or, where it is known at launch only or they are
  // by group, their sum.
  Placed times_equal_terms(ValueId frame, const Placed& operand, llvm::ArrayRef<int> kept,
                           Placed gradient) {
    const auto& shape = graph_.node(frame).shape;
    double terms = 1;
    for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
      if (llvm::is_contained(kept, d) || gradient.varies_along(d) || d == operand.row_dim())
        continue;
      if (shape[d].symbolic) return graph_.expanded(frame, gradient);
      terms *= static_cast<double>(shape[d].size);
    }
    if (terms == 1) return gradient;
    if (gradient.rows) return graph_.expanded(frame, gradient);
    return graph_.elementwise(frame, Op::kMul, {gradient, graph_.constant(terms)});
  }

  // The dimensions of a gradient in the frame of the operand itself.
  static Placed moved_to(const Placed& operand, Placed gradient) {
    const bool by_group = gradient.rows.has_value();
    const auto moved = [&](int dim) {
      return static_cast<int>(llvm::find(operand.dims, dim) - operand.dims.begin());
    };
    for (int& dim : gradient.dims) {
      if (dim != kByGroup || !by_group) dim = moved(dim);
    }
    if (by_group) gradient.rows->dim = moved(gradient.rows->dim);
    return gradient;
  }

  // A cast passes the gradient on, rounded as the cast rounds.
  void pass_cast(ValueId id, const Placed& gradient) {
    const DType dtype = graph_.node(id).dtype;
    const ValueId operand = graph_.node(id).value.operands[0].value;
    if (!active_[operand]) return;
    reaching_[operand].push_back(dtype == DType::kF32 ? gradient : graph_.cast(gradient, dtype));
  }

  // Each term of a sum has the gradient of the sum, each term of a sum by group that of its row's
  // group.
  void pass_sum(ValueId id, const Placed& gradient) {
    const ValueId operand = graph_.node(id).value.operands[0].value;
    if (!active_[operand]) return;
    const ValueInfo& info = graph_.forward().info(id);
    const auto& terms = info.grouped_terms;
    const bool needs_groups =
        terms && (gradient.rows || !llvm::is_contained(gradient.dims, terms->group));
    Placed passed = needs_groups ? graph_.expanded(id, gradient) : gradient;
    for (int& dim : passed.dims) {
      if (dim != kByGroup) dim = info.operand_dims[0][dim];  // of the group: kByGroup
    }
    if (passed.rows) passed.rows->dim = info.operand_dims[0][passed.rows->dim];
    if (terms)
      passed.rows = GroupedRows{terms->dim, graph_.node(id).value.ragged->group, terms->ends};
    reaching_[operand].push_back(std::move(passed));
  }

  // The largest elements share the gradient of their maximum equally, as in PyTorch's amax.
  void pass_max(ValueId id, Placed gradient) {
    const ValueId operand = graph_.node(id).value.operands[0].value;
    if (!active_[operand]) return;
    const auto& map = graph_.forward().info(id).operand_dims[0];
    if (gradient.rows) gradient = graph_.expanded(id, gradient);
    const auto in_operand = [&](Placed x) {
      for (int& dim : x.dims) dim = map[dim];
      return x;
    };
    const Placed largest = graph_.elementwise(
        operand, Op::kEq, {graph_.forward_value(operand), in_operand(graph_.forward_value(id))});
    const Placed count = graph_.sum(operand, largest, map);
    const Placed share = graph_.elementwise(operand, Op::kDiv, {in_operand(gradient), count});
    reaching_[operand].push_back(
        graph_.elementwise(operand, Op::kSelect, {largest, share, graph_.constant(0)}));
  }

  // The equation's labels: left, right and result.
  struct Equation {
    std::string left, right, result;
  };

  void pass_contract(ValueId id, Placed gradient) {
    if (gradient.rows) gradient = graph_.expanded(id, gradient);
    const Value value = graph_.node(id).value;
    const size_t comma = value.equation.find(',');
    const size_t arrow = value.equation.find("->");
    const Equation equation{value.equation.substr(0, comma),
                            value.equation.substr(comma + 1, arrow - comma - 1),
                            value.equation.substr(arrow + 2)};
    const ValueId left = value.operands[0].value;
    const ValueId right = value.operands[1].value;
    Placed rounded = graph_.cast(gradient, graph_.node(left).dtype);
    if (value.ragged && rounded.dims.size() != equation.result.size()) {
      rounded = graph_.cast(graph_.expanded(id, gradient), graph_.node(left).dtype);
    }
    if (rounded.id != gradient.id) {
      graph_.suggest_name(
          rounded.id, "d_" + value.name + "_" + std::string(dtype_text(graph_.node(left).dtype)));
    }
    std::string labels;
    for (int dim : rounded.dims) labels += equation.result[dim];
    const bool k_grouped =
        value.ragged && equation.result.find(value.ragged->group) != std::string::npos;
    // K-grouped: the group's label is the gradient's, and must be the right operand's. M-grouped:
    // the gradient for the right operand is a sum per group of rows.
    if (active_[left]) {
      reaching_[left].push_back(
          k_grouped
              ? product(left, value, {right, equation.right}, {rounded.id, labels}, equation.left)
              : product(left, value, {rounded.id, labels}, {right, equation.right}, equation.left));
    }
    if (active_[right]) {
      reaching_[right].push_back(
          k_grouped
              ? product(right, value, {left, equation.left}, {rounded.id, labels}, equation.right)
              : product(right, value, {rounded.id, labels}, {left, equation.left}, equation.right));
    }
  }

  using Dims = llvm::SmallVector<int, 4>;
  struct Factor {
    ValueId id;
    std::string labels;
  };

  // The factor summed over its labels that neither `other` nor `result` has, which a contraction
  // would refuse. A sum is f32: it may not fit f16.
  Factor without_lonely(const Factor& factor, const std::string& other, const std::string& result) {
    std::string kept;
    for (char label : factor.labels) {
      if ((other + result).find(label) != std::string::npos) kept += label;
    }
    if (kept.size() == factor.labels.size()) return factor;
    // A forward operand: its own letters may differ from the equation's, so dimensions are used.
    Placed own = graph_.forward_value(factor.id);
    llvm::SmallVector<int, 4> dims;
    for (char label : kept) dims.push_back(static_cast<int>(factor.labels.find(label)));
    return {graph_.sum(factor.id, own, dims).id, kept};
  }

  // The product of a gradient and an operand, in `frame`, the other operand, whose labels are
  // `target`. Labels that neither factor has are of size 1, or the gradient does not depend on
  // them.
  Placed product(ValueId frame, const Value& like, Factor left, Factor right,
                 const std::string& target) {
    const bool dense = !like.ragged;
    if (dense) {
      const ValueId whole = right.id;
      right = without_lonely(right, left.labels, target);
      // Both factors of a contraction have one dtype.
      if (right.id != whole) left.id = graph_.cast(Placed{left.id, {}}, DType::kF32).id;
    }
    std::string labels;
    for (char label : target) {
      const bool group = like.ragged && label == like.ragged->group;
      if (group || (left.labels + right.labels).find(label) != std::string::npos) labels += label;
    }
    // A contraction needs labels: a factor without any is a number.
    const bool number = left.labels.empty() || right.labels.empty();
    if (number) labels = left.labels + right.labels;
    Placed result;
    for (char label : labels) result.dims.push_back(static_cast<int>(target.find(label)));
    if (number) {
      const auto& dims = result.dims;
      result.id = graph_
                      .elementwise(frame, Op::kMul,
                                   {Placed{left.id, left.labels.empty() ? Dims{} : dims},
                                    Placed{right.id, right.labels.empty() ? Dims{} : dims}})
                      .id;
      return result;
    }
    result.id = graph_.contract(left.labels, left.id, right.labels, right.id, labels, like);
    return result;
  }

  JointGraph& graph_;
  std::vector<bool> active_;  // depends on a wanted parameter
  std::vector<llvm::SmallVector<Placed, 2>> reaching_;
};

}  // namespace

Reversed reverse(JointGraph& graph, llvm::ArrayRef<ValueId> wanted, llvm::ArrayRef<int> outputs) {
  return Reverse(graph, wanted).run(wanted, outputs);
}

}  // namespace catenary::gradient
