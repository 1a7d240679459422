// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/beside.h"

#include "compiler/fusion/group.h"

namespace catenary {
namespace {

class BesideFinder {
 public:
  BesideFinder(const VerifiedChain& chain, FusionPlan& plan) : chain_(chain), plan_(plan) {}

  void run() {
    const int groups = static_cast<int>(plan_.groups.size());
    std::vector<bool> taken(groups, false);
    for (int first = 0; first < groups; ++first) {
      if (taken[first] || !is_contraction(first)) continue;
      std::vector<int> set = {first};
      for (int other = first + 1; other < groups; ++other) {
        if (!taken[other] && is_contraction(other) && shares_activation(first, other) &&
            may_move(other, first)) {
          set.push_back(other);
        }
      }
      if (set.size() < 2) continue;
      for (int group : set) taken[group] = true;
      plan_.beside.push_back(std::move(set));
    }
  }

 private:
  const Value& anchor(int group) const {
    return chain_.value(plan_.groups[group].anchors[0].value);
  }
  bool is_weight(ValueId id) const {
    return chain_.value(id).op == Op::kDequant ||
           (chain_.value(id).op == Op::kParameter && chain_.value(id).role == Role::kWeight);
  }
  bool is_contraction(int group) const {
    return plan_.groups[group].kind == FusionGroup::Kind::kContraction;
  }

  bool shares_activation(int first, int other) const {
    if (anchor(first).ragged != anchor(other).ragged) return false;
    for (const Use& a : anchor(first).operands) {
      for (const Use& b : anchor(other).operands) {
        if (a.value == b.value && !is_weight(a.value)) return true;
      }
    }
    return false;
  }

  // May `group` run where `first` does? Nothing that it reads is computed there or later, and
  // nothing from there on reads what it overwrites.
  bool may_move(int group, int first) const {
    for (ValueId id : read_values(chain_, plan_, group)) {
      if (plan_.group_of[id] >= first) return false;
    }
    const auto& outputs = chain_.chain().outputs;
    for (int i = 0; i < static_cast<int>(outputs.size()); ++i) {
      const Output& output = outputs[i];
      if (output.in_place < 0 || plan_.group_of[output.value] != group) continue;
      for (int between = first; between < group; ++between) {
        if (uses_parameter(between, output.in_place)) return false;
      }
    }
    return true;
  }

  // Does the group read the parameter, itself or through values that it recomputes?
  bool uses_parameter(int group, ValueId parameter) const {
    for (ValueId id : computed_values(chain_, plan_, group)) {
      for (const Use& use : chain_.value(id).operands) {
        if (use.value == parameter) return true;
      }
    }
    return false;
  }

  const VerifiedChain& chain_;
  FusionPlan& plan_;
};

}  // namespace

void find_beside(const VerifiedChain& chain, FusionPlan& plan) { BesideFinder(chain, plan).run(); }

}  // namespace catenary
