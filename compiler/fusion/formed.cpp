// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/formed.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/fusion/edit_groups.h"
#include "ir/dependence.h"
#include "ir/row_products.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

// An element of the value depends on one element of each operand.
bool is_per_element(Op op) { return is_elementwise(op) || op == Op::kCast; }

// What an operand is formed of, from the operand down to the first matrix that depends on none of
// the sums.
class Trace {
 public:
  // `depends_on_sum`: per value, whether it depends on a reduction by elementwise ops only.
  Trace(const VerifiedChain& chain, const FusionPlan& plan, const std::vector<bool>& depends_on_sum,
        ValueId operand, int k_dim)
      : chain_(chain),
        plan_(plan),
        depends_on_sum_(depends_on_sum),
        k_dim_(k_dim),
        operand_(operand) {}

  // Why the operand cannot be formed; empty: it can. A matrix that depends on sums of another norm
  // may be what this one is of: the last such matrix, if there is none before them.
  std::string run() {
    std::optional<State> other_norm;
    state_.matrices.insert(operand_);
    while (refusal_.empty()) {
      const ValueId last = *state_.matrices.rbegin();
      if (state_.matrices.size() == 1 && last != operand_ && is_data(last)) {
        state_.data = last;
        if (!depends_on_sum_[last]) return "";
        other_norm = state_;
      }
      state_.matrices.erase(last);
      expand(last);
    }
    if (!other_norm) return refusal_;
    state_ = *other_norm;
    return "";
  }

  ValueId data() const { return state_.data; }
  const std::set<ValueId>& inside() const { return state_.inside; }
  const std::set<ValueId>& vectors() const { return state_.vectors; }

  std::vector<FormedOperand::Pass> passes() const {
    std::vector<FormedOperand::Pass> passes;
    const auto pass = [&](int level) -> FormedOperand::Pass& {
      passes.resize(std::max<size_t>(passes.size(), level));
      return passes[level - 1];
    };
    std::map<ValueId, int> known;
    for (ValueId sum : state_.sums) pass(level(sum, known)).sums.push_back(sum);
    for (ValueId row : state_.read_rows) pass(level(row, known)).rows.push_back(row);
    return passes;
  }

 private:
  struct State {
    ValueId data = -1;
    std::set<ValueId> matrices;   // not yet expanded
    std::set<ValueId> inside;     // matrices and rows that the kernel computes
    std::set<ValueId> read_rows;  // rows that matrices read
    std::set<ValueId> vectors;
    std::set<ValueId> sums;
  };

  const Value& value(ValueId id) const { return chain_.value(id); }
  const TensorType& type(ValueId id) const { return chain_.info(id).type; }
  bool same_shape(ValueId id) const { return type(id).shape == type(operand_).shape; }

  void refuse(ValueId id, std::string_view why) {
    if (refusal_.empty()) refusal_ = fmt::format("'{}' {}", value(id).name, why);
  }

  // May the kernel load the rows of this matrix? One that is stored anyway, or that is rounded: f32
  // would be more bytes than what it is computed from.
  bool is_data(ValueId id) const {
    const Op op = value(id).op;
    if (op == Op::kParameter) return value(id).role != Role::kScalar;
    return is_stored(id) || (op == Op::kCast && !depends_on_sum_[id]);
  }
  bool is_stored(ValueId id) const {
    const int g = plan_.group_of[id];
    return g >= 0 && llvm::any_of(plan_.groups[g].outputs,
                                  [&](const GroupOutput& output) { return output.value == id; });
  }

  // Adds what a matrix is computed from.
  void expand(ValueId id) {
    if (!is_per_element(value(id).op))
      return refuse(id, "is one of several matrices that it is computed from");
    state_.inside.insert(id);
    const ValueInfo& info = chain_.info(id);
    for (size_t i = 0; i < value(id).operands.size(); ++i) {
      const ValueId operand = value(id).operands[i].value;
      const auto& dims = info.operand_dims[i];
      const int rank = type(operand).rank();
      if (info.operand_group[i] >= 0) return refuse(operand, "is read by the group of its row");
      if (rank == 0) continue;
      if (rank == 2 && dims.size() == 2 && dims[0] == 0 && dims[1] == 1 && same_shape(operand)) {
        state_.matrices.insert(operand);
      } else if (rank == 1 && dims.size() == 2 && dims[k_dim_] == 0 && dims[1 - k_dim_] < 0) {
        state_.vectors.insert(operand);
      } else if (rank == 1 && dims.size() == 2 && dims[1 - k_dim_] == 0 && dims[k_dim_] < 0) {
        state_.read_rows.insert(operand);
        add_row(operand);
      } else {
        return refuse(operand, "is read in another order, or broadcast");
      }
    }
  }

  // Adds what a number for each row is computed from.
  void add_row(ValueId id) {
    if (!state_.inside.insert(id).second) return;
    const ValueInfo& info = chain_.info(id);
    if (value(id).op == Op::kSum) {
      const ValueId terms = value(id).operands[0].value;
      const bool along_k = info.summed.size() == 1 && info.summed[0] == k_dim_ &&
                           type(terms).rank() == 2 && same_shape(terms);
      if (!along_k) return refuse(id, "is no sum along K");
      state_.sums.insert(id);
      state_.matrices.insert(terms);
      return;
    }
    if (!is_per_element(value(id).op))
      return refuse(id, "is a number for each row that no sum gives");
    for (size_t i = 0; i < value(id).operands.size(); ++i) {
      const ValueId operand = value(id).operands[i].value;
      if (type(operand).rank() == 0) continue;
      if (type(operand).rank() != 1 || info.operand_dims[i][0] != 0 || info.operand_group[i] >= 0)
        return refuse(operand, "is read in another order");
      add_row(operand);
    }
  }

  // The pass after which a value is known, from 1; 0: it needs no sum.
  int level(ValueId id, std::map<ValueId, int>& known) const {
    if (id == state_.data || state_.inside.count(id) == 0) return 0;
    if (const auto found = known.find(id); found != known.end()) return found->second;
    int before = 0;
    for (const Use& use : value(id).operands) before = std::max(before, level(use.value, known));
    return known[id] = before + (state_.sums.count(id) != 0 ? 1 : 0);
  }

  const VerifiedChain& chain_;
  const FusionPlan& plan_;
  const std::vector<bool>& depends_on_sum_;
  int k_dim_;
  ValueId operand_;
  std::string refusal_;
  State state_;
};

class OperandFormer {
 public:
  OperandFormer(const VerifiedChain& chain, FusionPlan& plan)
      : chain_(chain), plan_(plan), depends_on_sum_(depend_on_reductions(chain)) {
    users_.resize(chain.num_values());
    for (ValueId id = 0; id < chain.num_values(); ++id) {
      for (const Use& use : value(id).operands) users_[use.value].push_back(id);
    }
  }

  bool run() {
    bool moved = false;
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      const int k_dim = summed_dim(id);
      if (k_dim < 0 || plan_.group_of[id] < 0) continue;
      Trace trace(chain_, plan_, depends_on_sum_, id, k_dim);
      std::string refusal = trace.run();
      if (refusal.empty()) refusal = move(id, k_dim, trace);
      moved = moved || refusal.empty();
      if (refusal.empty() || !depends_on_sum_[id]) continue;
      plan_.kept_apart.push_back(
          fmt::format("'{}' is formed by a kernel of its own: {}", value(id).name, refusal));
    }
    return moved;
  }

 private:
  const Value& value(ValueId id) const { return chain_.value(id); }
  const TensorType& type(ValueId id) const { return chain_.info(id).type; }

  bool is_output(ValueId id) const {
    return llvm::any_of(chain_.chain().outputs,
                        [&](const Output& output) { return output.value == id; });
  }

  // K of an elementwise matrix that some contraction multiplies; -1: it is none.
  int summed_dim(ValueId id) const {
    if (!is_per_element(value(id).op) || type(id).rank() != 2) return -1;
    for (ValueId user : users_[id]) {
      if (const int dim = summed_dim_of_rows(chain_, user, id); dim >= 0) return dim;
    }
    return -1;
  }

  // The groups whose contractions read the operand, ascending; empty, and why: something else does.
  std::vector<int> readers(ValueId operand, int k_dim, std::string& refusal) const {
    std::vector<int> found;
    if (is_output(operand)) refusal = "the caller wants it";
    for (ValueId user : users_[operand]) {
      const int g = plan_.group_of[user];
      const bool fits = summed_dim_of_rows(chain_, user, operand) == k_dim && g >= 0 &&
                        fits_group(g, operand, k_dim);
      if (!fits && refusal.empty())
        refusal = fmt::format("'{}' reads it too, and not only as the rows of a product",
                              value(user).name);
      if (!llvm::is_contained(found, g)) found.push_back(g);
    }
    if (!refusal.empty()) return {};
    llvm::sort(found);
    return found;
  }

  bool fits_group(int g, ValueId operand, int k_dim) const {
    const FusionGroup& group = plan_.groups[g];
    return group.kind == FusionGroup::Kind::kContraction && group.row_data < 0 &&
           group.accumulators.size() == group.anchors.size() &&
           llvm::all_of(group.anchors, [&](const GroupAnchor& anchor) {
             return summed_dim_of_rows(chain_, anchor.value, operand) == k_dim;
           });
  }

  // Why something else needs what the operand is computed from; empty: nothing does.
  std::string other_reader(ValueId operand, const std::set<ValueId>& inside) const {
    for (ValueId id : inside) {
      if (id == operand) continue;
      if (is_output(id)) return fmt::format("the caller wants '{}'", value(id).name);
      for (ValueId user : users_[id]) {
        if (inside.count(user) == 0)
          return fmt::format("'{}' reads '{}' too", value(user).name, value(id).name);
      }
    }
    // A kernel of a sum that computes something else keeps the sum.
    for (ValueId id : inside) {
      const int g = plan_.group_of[id];
      if (g < 0 || plan_.groups[g].kind != FusionGroup::Kind::kReduction) continue;
      for (ValueId other : plan_.groups[g].values) {
        if (inside.count(other) == 0)
          return fmt::format("the kernel of '{}' computes '{}' too", value(id).name,
                             value(other).name);
      }
    }
    return "";
  }

  bool is_vector_in_memory(ValueId id, int reader) const {
    const Value& v = value(id);
    if (v.op == Op::kParameter) return v.role != Role::kScalar;
    return plan_.group_of[id] < 0 || reads_memory(plan_, id, reader);
  }

  // Why the operand is not moved; empty: it is.
  std::string move(ValueId operand, int k_dim, const Trace& trace) {
    std::string refusal;
    const auto found = readers(operand, k_dim, refusal);
    if (found.empty()) return refusal;
    if (std::string other = other_reader(operand, trace.inside()); !other.empty()) return other;
    const ValueId data = trace.data();
    const int own = plan_.group_of[operand];
    const bool in_memory = value(data).op == Op::kParameter || plan_.group_of[data] >= 0;
    if (in_memory ? plan_.group_of[data] >= found.front() : own >= found.front())
      return fmt::format("'{}' is computed later", value(data).name);
    for (ValueId vector : trace.vectors()) {
      if (!is_vector_in_memory(vector, found.front()))
        return fmt::format("'{}' is computed later", value(vector).name);
    }
    if (!in_memory) add_value(plan_, data, own);
    store_value(chain_, plan_, data);
    for (ValueId vector : trace.vectors()) store_value(chain_, plan_, vector);
    for (int r : found) {
      plan_.groups[r].row_data = operand;
      plan_.groups[r].formed = FormedOperand{data, k_dim, trace.passes()};
      plan_.groups[r].why += why(operand, data, trace.passes());
    }
    for (ValueId id : trace.inside()) remove_value(plan_, id);
    drop_empty_groups(plan_);
    return "";
  }

  std::string why(ValueId operand, ValueId data, llvm::ArrayRef<FormedOperand::Pass> passes) const {
    std::string text = fmt::format("; it forms '{}' from '{}' as it loads it", value(operand).name,
                                   value(data).name);
    for (size_t p = 0; p < passes.size(); ++p) {
      text += p == 0 ? ", after a pass over its rows for " : ", then one for ";
      for (size_t i = 0; i < passes[p].sums.size(); ++i)
        text += fmt::format("{}'{}'", i > 0 ? ", " : "", value(passes[p].sums[i]).name);
    }
    return text;
  }

  const VerifiedChain& chain_;
  FusionPlan& plan_;
  std::vector<std::vector<ValueId>> users_;
  std::vector<bool> depends_on_sum_;  // by elementwise ops only
};

}  // namespace

bool form_operands_inside(const VerifiedChain& chain, FusionPlan& plan) {
  return OperandFormer(chain, plan).run();
}

}  // namespace catenary
