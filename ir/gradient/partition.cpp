// SPDX-License-Identifier: Apache-2.0
// Decides which chain computes which value. Gradients of inputs, and what leads to them, are one
// part; what only gradients of weights need is the other, with what it reads from the first passed
// on as intermediates.
#include "ir/gradient/partition.h"

#include "ir/gradient/chain_writer.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary::gradient {
namespace {

using Members = std::vector<bool>;  // per value of the graph

class Partition {
 public:
  Partition(const JointGraph& graph, const Reversed& reversed, const GradientOptions& options)
      : graph_(graph),
        reversed_(reversed),
        options_(options),
        first_(empty_part()),
        second_(empty_part()) {}

  Expected<Gradient> run() {
    divide();
    const SavePlan saves = plan_saves(graph_, needed(), options_);
    saves_ = &saves;
    recompute_first();
    recompute_second();
    ChainWriter writer(graph_, reversed_, saves, options_);
    Gradient result;
    result.saved_bytes = saves.bytes;
    if (Error error = add(writer.forward(), result)) return error;
    if (Error error = add(writer.backward(first_), result)) return error;
    if (!second_.gradients.empty()) {
      if (Error error = add(writer.backward(second_), result)) return error;
    }
    return result;
  }

 private:
  BackwardPart empty_part() const {
    BackwardPart part;
    part.computed.resize(graph_.size());
    return part;
  }

  static Error add(Expected<GradientChain> chain, Gradient& result) {
    if (!chain) return chain.takeError();
    result.chains.push_back(std::move(*chain));
    return Error::success();
  }

  bool is_constant(ValueId id) const { return graph_.node(id).value.op == Op::kConstant; }

  // Does a chain read the value from memory because nothing else can give it?
  bool is_given(ValueId id) const { return graph_.is_parameter(id); }

  // The gradient values that lead to `root`, without those of the first part. Returns true if one
  // of them is a contraction.
  bool closure(ValueId root, Members& members) const {
    bool contracts = false;
    std::vector<ValueId> open{root};
    while (!open.empty()) {
      const ValueId id = open.back();
      open.pop_back();
      if (graph_.is_forward(id) || is_given(id) || first_.computed[id] || members[id]) continue;
      members[id] = true;
      contracts |= graph_.node(id).value.op == Op::kContract;
      for (ValueId operand : graph_.operands(id)) open.push_back(operand);
    }
    return contracts;
  }

  static void join(Members& into, const Members& members) {
    for (size_t i = 0; i < members.size(); ++i) into[i] = into[i] || members[i];
  }

  // Gives each gradient to a part. Without gradients of inputs the first part has everything.
  void divide() {
    const auto is_input = [&](const auto& gradient) {
      return graph_.node(gradient.first).value.role == Role::kInput;
    };
    const bool inputs = llvm::any_of(reversed_.gradients, is_input);
    for (const auto& gradient : reversed_.gradients) {
      if (inputs && !is_input(gradient)) continue;
      Members members(graph_.size());
      closure(gradient.second.id, members);
      join(first_.computed, members);
    }
    for (const auto& gradient : reversed_.gradients) {
      Members members(graph_.size());
      const bool contracts = closure(gradient.second.id, members);
      const bool second = contracts && inputs && !is_input(gradient);
      (second ? second_ : first_).gradients.push_back(gradient);
      join(second ? second_.computed : first_.computed, members);
    }
    if (second_.gradients.empty()) return;
    // A sum that joined the first part late may have been part of the second.
    for (size_t i = 0; i < first_.computed.size(); ++i) {
      if (first_.computed[i]) second_.computed[i] = false;
    }
    first_.pass = GradientPass::kDgrad;
    second_.pass = GradientPass::kWgrad;
  }

  // The forward values that the gradient values of a part read.
  Members reads_forward(const BackwardPart& part) const {
    Members result(graph_.size());
    for (ValueId id = graph_.num_forward(); id < graph_.size(); ++id) {
      if (!part.computed[id]) continue;
      for (ValueId operand : graph_.operands(id)) {
        result[operand] = result[operand] || (graph_.is_forward(operand) && !is_given(operand));
      }
    }
    return result;
  }

  std::vector<ValueId> needed() const {
    Members members = reads_forward(first_);
    join(members, reads_forward(second_));
    std::vector<ValueId> ids;
    for (ValueId id = 0; id < graph_.num_forward(); ++id) {
      if (members[id] && !is_constant(id)) ids.push_back(id);
    }
    return ids;
  }

  // Computes `id` and what leads to it in `part`, from saved values and parameters.
  void recompute(ValueId id, BackwardPart& part) const {
    if (is_given(id) || saves_->saved[id] || part.computed[id]) return;
    part.computed[id] = true;
    for (ValueId operand : graph_.operands(id)) recompute(operand, part);
  }

  void recompute_first() {
    const Members reads = reads_forward(first_);
    for (ValueId id = 0; id < graph_.num_forward(); ++id) {
      if (reads[id]) recompute(id, first_);
    }
  }

  // The values that the first part reads from memory.
  Members leaves_of_first() const {
    Members leaves(graph_.size());
    for (ValueId id = 0; id < graph_.size(); ++id) {
      if (!first_.computed[id]) continue;
      for (ValueId operand : graph_.operands(id))
        leaves[operand] = leaves[operand] || !first_.computed[operand];
    }
    return leaves;
  }

  // Can the first part compute `id` without reading more memory?
  bool at_hand(ValueId id, const Members& leaves) const {
    if (first_.computed[id] || is_constant(id)) return true;
    if (is_given(id) || saves_->saved[id]) return leaves[id];
    if (is_anchor(graph_.node(id).value.op)) return false;
    return llvm::all_of(graph_.operands(id),
                        [&](ValueId operand) { return at_hand(operand, leaves); });
  }

  // True if reading `id` is reading a saved value or a parameter as it is.
  bool is_stored(ValueId id) const {
    const JointNode& node = graph_.node(id);
    if (node.value.op != Op::kCast) return false;
    const ValueId operand = node.value.operands[0].value;
    if (is_given(operand)) return graph_.node(operand).dtype == node.dtype;
    return saves_->saved[operand] && saves_->dtype[operand] == node.dtype;
  }

  void pass_on(ValueId id) {
    recompute(id, first_);
    if (!llvm::is_contained(first_.intermediates, id)) first_.intermediates.push_back(id);
  }

  // Forward value `id` for the second part, computed there unless the first part passes it on: the
  // operand of a contraction, which is stored anyway, if the first part has at hand what it is
  // computed from, and the result of a contraction or sum that the first part computes.
  void supply(ValueId id, bool is_factor, const Members& leaves) {
    if (is_given(id) || saves_->saved[id] || second_.computed[id]) return;
    if (llvm::is_contained(first_.intermediates, id)) return;
    const bool anchor = is_anchor(graph_.node(id).value.op);
    if (!is_stored(id) && ((anchor && first_.computed[id]) || (is_factor && at_hand(id, leaves)))) {
      return pass_on(id);
    }
    second_.computed[id] = true;
    const bool contract = graph_.node(id).value.op == Op::kContract;
    for (ValueId operand : graph_.operands(id)) supply(operand, contract, leaves);
  }

  void recompute_second() {
    if (second_.gradients.empty()) return;
    const Members leaves = leaves_of_first();
    const Members gradient_values = second_.computed;
    for (ValueId id = graph_.num_forward(); id < graph_.size(); ++id) {
      if (!gradient_values[id]) continue;
      const bool contract = graph_.node(id).value.op == Op::kContract;
      for (ValueId operand : graph_.operands(id)) {
        if (graph_.is_forward(operand)) {
          supply(operand, contract, leaves);
        } else if (is_constant(operand)) {
          second_.computed[operand] = true;
        } else if (first_.computed[operand]) {
          pass_on(operand);
        }
      }
    }
  }

  const JointGraph& graph_;
  const Reversed& reversed_;
  const GradientOptions& options_;
  const SavePlan* saves_ = nullptr;
  BackwardPart first_, second_;
};

}  // namespace

Expected<Gradient> partition(const JointGraph& graph, const Reversed& reversed,
                             const GradientOptions& options) {
  return Partition(graph, reversed, options).run();
}

}  // namespace catenary::gradient
