// SPDX-License-Identifier: Apache-2.0
// A minimum cut between what must be kept and what is needed. Each value is an edge whose capacity
// is its bytes; a value reaches those that are computed from it. The cut nearest to the source is
// taken: of values with equal bytes the one before the elementwise ops, but after an operand by
// group.
// Maximum flow by shortest augmenting paths (Edmonds and Karp, 1972).
#include "ir/gradient/save.h"

#include <algorithm>
#include <limits>

namespace catenary::gradient {
namespace {

constexpr i64 kUnbounded = std::numeric_limits<i64>::max() / 4;

class FlowNetwork {
 public:
  explicit FlowNetwork(int vertices) : edges_of_(vertices) {}

  void add(int from, int to, i64 capacity) {
    edges_of_[from].push_back(static_cast<int>(edges_.size()));
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(static_cast<int>(edges_.size()));
    edges_.push_back({from, 0});
  }

  // Fills the network, then says which vertices the source still reaches.
  std::vector<bool> source_side(int source, int sink) {
    while (true) {
      const std::vector<int> path = search(source);
      if (path[sink] < 0) {
        std::vector<bool> reached(edges_of_.size());
        for (size_t v = 0; v < reached.size(); ++v)
          reached[v] = path[v] >= 0 || v == static_cast<size_t>(source);
        return reached;
      }
      i64 flow = kUnbounded;
      for (int v = sink; v != source; v = edges_[path[v] ^ 1].to)
        flow = std::min(flow, edges_[path[v]].left);
      for (int v = sink; v != source; v = edges_[path[v] ^ 1].to) {
        edges_[path[v]].left -= flow;
        edges_[path[v] ^ 1].left += flow;
      }
    }
  }

 private:
  struct Edge {
    int to;
    i64 left;
  };

  // Per vertex the edge that a breadth-first search reached it by, or -1.
  std::vector<int> search(int source) const {
    std::vector<int> by(edges_of_.size(), -1);
    std::vector<int> queue{source};
    for (size_t i = 0; i < queue.size(); ++i) {
      for (int e : edges_of_[queue[i]]) {
        const int to = edges_[e].to;
        if (edges_[e].left == 0 || to == source || by[to] >= 0) continue;
        by[to] = e;
        queue.push_back(to);
      }
    }
    return by;
  }

  std::vector<std::vector<int>> edges_of_;
  std::vector<Edge> edges_;  // edge e and its reverse e ^ 1
};

i64 elements(const JointNode& node) {
  i64 count = 1;
  for (const Dim& dim : node.shape) count *= dim.size;
  return count;
}

class Saver {
 public:
  Saver(const JointGraph& graph, llvm::ArrayRef<ValueId> needed, const GradientOptions& options)
      : graph_(graph), needed_(needed), repeated_(graph.num_forward()) {
    for (ValueId id = 0; id < graph.num_forward(); ++id) {
      dtype_.push_back(options.save_f32 ? graph.node(id).dtype : stored_dtype(id));
      const bool returned = output_of(graph.forward(), id, dtype_.back()) >= 0;
      bytes_.push_back(returned ? 0 : elements(graph.node(id)) * dtype_bytes(dtype_.back()));
    }
  }

  void repeat_all() { repeated_.assign(repeated_.size(), true); }

  // While the saved values exceed the budget: repeats the contraction or sum that frees the most
  // bytes per operation. Where only several together free any, the first of them.
  void repeat_until(i64 budget) {
    for (SavePlan plan = cut(); plan.bytes > budget; plan = cut()) {
      ValueId best = -1;
      double best_rate = -1;
      for (ValueId id = 0; id < graph_.num_forward(); ++id) {
        if (!is_anchor(graph_.node(id).value.op) || repeated_[id]) continue;
        repeated_[id] = true;
        const double rate = static_cast<double>(plan.bytes - cut().bytes) / operations(id);
        repeated_[id] = false;
        if (rate <= best_rate) continue;
        best = id;
        best_rate = rate;
      }
      if (best < 0) return;
      repeated_[best] = true;
    }
  }

  // Adds values that the backward needs and the forward stores anyway: operands of its
  // contractions. Not a maximum: it is compared with elements that may be computed again from
  // rounded values.
  void add_stored(SavePlan& plan) const {
    for (ValueId id = 0; id < graph_.num_forward(); ++id) {
      const JointNode& node = graph_.node(id);
      if (node.value.op != Op::kContract) continue;
      for (const Use& use : node.value.operands) {
        const ValueId operand = use.value;
        const Op op = graph_.node(operand).value.op;
        if (plan.saved[operand] || op == Op::kParameter || op == Op::kConstant) continue;
        if (op == Op::kReduceMax) continue;
        if (!llvm::is_contained(needed_, operand)) continue;
        plan.saved[operand] = true;
        plan.bytes += bytes_[operand];
      }
    }
  }

  SavePlan cut() const {
    const ValueId count = graph_.num_forward();
    const int source = 2 * count;
    const int sink = source + 1;
    FlowNetwork network(2 * count + 2);  // value v enters at 2v and leaves at 2v + 1
    for (ValueId id = 0; id < count; ++id) {
      const Op op = graph_.node(id).value.op;
      if (op == Op::kParameter || op == Op::kConstant) continue;
      network.add(2 * id, 2 * id + 1, capacity(id));
      if (is_anchor(op) && !repeated_[id]) {
        network.add(source, 2 * id, kUnbounded);
      } else {
        for (ValueId operand : graph_.operands(id))
          network.add(2 * operand + 1, 2 * id, kUnbounded);
      }
    }
    for (ValueId id : needed_) network.add(2 * id + 1, sink, kUnbounded);
    const std::vector<bool> reached = network.source_side(source, sink);
    SavePlan plan;
    plan.dtype = dtype_;
    plan.saved.resize(count);
    for (ValueId id = 0; id < count; ++id) {
      plan.saved[id] = reached[2 * id] && !reached[2 * id + 1];
      if (plan.saved[id]) plan.bytes += bytes_[id];
    }
    return plan;
  }

 private:
  // Where bytes are equal, the value after an operand by group is saved: then the backward does not
  // find the groups of rows again.
  i64 capacity(ValueId id) const {
    const auto& groups = graph_.forward().info(id).operand_group;
    const bool by_group = llvm::any_of(groups, [](int dim) { return dim >= 0; });
    return 2 * bytes_[id] - (by_group && bytes_[id] > 0 ? 1 : 0);
  }

  // An f32 value that only contractions, casts and elementwise ops lead to is stored in the widest
  // dtype of their operands, as a framework that rounds every result would have it. A sum is f32:
  // it is small, and often a statistic.
  DType stored_dtype(ValueId id) const {
    const Value& value = graph_.node(id).value;
    const DType own = graph_.node(id).dtype;
    if (own != DType::kF32 || value.op == Op::kParameter || value.op == Op::kSum) return own;
    if (value.op == Op::kContract) return graph_.node(value.operands[0].value).dtype;
    DType widest = own;
    bool first = true;
    for (const Use& use : value.operands) {
      const JointNode& operand = graph_.node(use.value);
      if (operand.shape.empty()) continue;
      const DType dtype = dtype_[use.value];
      widest = first || dtype == widest ? dtype : DType::kF32;
      first = false;
    }
    return widest;
  }

  // Multiply-adds of a contraction, additions of a sum.
  double operations(ValueId id) const {
    double count = 1;
    const auto& operand = graph_.node(graph_.node(id).value.operands[0].value).shape;
    for (const Dim& dim : operand) count *= static_cast<double>(dim.size);
    if (const auto& contraction = graph_.forward().info(id).contraction) {
      for (const ContractionLabel& label : contraction->n)
        count *= static_cast<double>(label.size.size);
    }
    return std::max(count, 1.0);
  }

  const JointGraph& graph_;
  llvm::ArrayRef<ValueId> needed_;
  std::vector<bool> repeated_;  // anchors that may be computed again
  std::vector<DType> dtype_;
  std::vector<i64> bytes_;
};

}  // namespace

SavePlan plan_saves(const JointGraph& graph, llvm::ArrayRef<ValueId> needed,
                    const GradientOptions& options) {
  Saver saver(graph, needed, options);
  if (options.recompute == Recompute::kAll) saver.repeat_all();
  if (options.recompute == Recompute::kBudget) saver.repeat_until(options.save_budget);
  SavePlan plan = saver.cut();
  if (options.recompute == Recompute::kUnstored) saver.add_stored(plan);
  return plan;
}

int output_of(const VerifiedChain& forward, ValueId id, DType dtype) {
  const auto& outputs = forward.chain().outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool wide = outputs[i].dtype == dtype || outputs[i].dtype == DType::kF32;
    if (outputs[i].value == id && wide) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace catenary::gradient
