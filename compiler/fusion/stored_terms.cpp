// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/stored_terms.h"

#include "compiler/fusion/edit_groups.h"
#include "compiler/fusion/group.h"

namespace catenary {
namespace {

class TermMerger {
 public:
  TermMerger(const VerifiedChain& chain, FusionPlan& plan) : chain_(chain), plan_(plan) {}

  bool run() {
    bool merged = false;
    for (int sum = 0; sum < count(); ++sum) {
      if (!is_sum_of_rows(sum)) continue;
      for (int other = 0; other < count(); ++other) {
        if (!may_join(other, sum)) continue;
        join(other, sum);
        merged = true;
        sum -= other < sum ? 1 : 0;
        other = -1;
      }
    }
    return merged;
  }

 private:
  int count() const { return static_cast<int>(plan_.groups.size()); }
  const Value& anchor(int sum) const { return chain_.value(plan_.groups[sum].anchors[0].value); }
  const TensorType& terms(int sum) const { return chain_.info(anchor(sum).operands[0].value).type; }

  // A sum that leaves the last dimension, whose kernel then has vectors of rows. Not by group: its
  // kernel visits no row of no group.
  bool is_sum_of_rows(int g) const {
    const FusionGroup& group = plan_.groups[g];
    if (group.kind != FusionGroup::Kind::kReduction || group.adds_column_sums) return false;
    if (chain_.info(group.anchors[0].value).grouped_terms) return false;
    const auto& summed = chain_.info(group.anchors[0].value).summed;
    return anchor(g).op == Op::kSum && !llvm::is_contained(summed, terms(g).rank() - 1);
  }

  // Is group `g` pointwise over the terms of the sum, with a tensor that both read, and can it run
  // where the sum does?
  bool may_join(int g, int sum) const {
    const FusionGroup& group = plan_.groups[g];
    if (group.kind != FusionGroup::Kind::kPointwise || !group.copies.empty() ||
        takes_by_group(group) ||
        llvm::ArrayRef<Dim>(group.shape) != llvm::ArrayRef<Dim>(terms(sum).shape) ||
        has_output_in_place(g)) {
      return false;
    }
    const auto own = read_values(chain_, plan_, g);
    const auto others = read_values(chain_, plan_, sum);
    const bool shares =
        llvm::any_of(
            own, [&](ValueId id) { return is_large(id, sum) && llvm::is_contained(others, id); }) ||
        reads_parameter_of(g, sum);
    return shares && (g < sum ? !is_read_before(g, sum) : reads_only_before(own, sum));
  }

  bool takes_by_group(const FusionGroup& group) const {
    return llvm::any_of(group.values, [&](ValueId id) {
      return llvm::any_of(chain_.info(id).operand_group, [](int dim) { return dim >= 0; });
    });
  }

  bool is_large(ValueId id, int sum) const {
    return num_elements(chain_.info(id).type) == num_elements(terms(sum));
  }

  // Do both read a parameter of the terms' size? read_values() has what kernels compute only.
  bool reads_parameter_of(int g, int sum) const {
    const auto own = parameters_read(g);
    const auto others = parameters_read(sum);
    return llvm::any_of(
        own, [&](ValueId id) { return is_large(id, sum) && llvm::is_contained(others, id); });
  }

  std::vector<ValueId> parameters_read(int g) const {
    std::vector<ValueId> found;
    for (ValueId id : computed_values(chain_, plan_, g)) {
      for (const Use& use : chain_.value(id).operands) {
        if (chain_.value(use.value).op == Op::kParameter) found.push_back(use.value);
      }
    }
    return found;
  }

  bool has_output_in_place(int g) const {
    return llvm::any_of(chain_.chain().outputs, [&](const Output& output) {
      return output.in_place >= 0 && plan_.group_of[output.value] == g;
    });
  }

  bool reads_only_before(llvm::ArrayRef<ValueId> read, int sum) const {
    return llvm::all_of(read, [&](ValueId id) { return plan_.group_of[id] < sum; });
  }

  // Does a group from `g` on and before `sum` read what `g` stores?
  bool is_read_before(int g, int sum) const {
    for (int r = g + 1; r < sum; ++r) {
      for (ValueId id : read_values(chain_, plan_, r)) {
        if (plan_.group_of[id] == g) return true;
      }
    }
    return false;
  }

  void join(int g, int sum) {
    FusionGroup& to = plan_.groups[sum];
    const FusionGroup& from = plan_.groups[g];
    to.why += fmt::format("; its kernel has the terms of '{}' too, and stores it",
                          chain_.value(from.outputs.front().value).name);
    llvm::append_range(to.values, from.values);
    llvm::sort(to.values);
    for (const GroupOutput& output : from.outputs) {
      to.outputs.push_back(output);
      to.outputs.back().of_terms = true;
    }
    for (ValueId id : from.values) plan_.group_of[id] = sum;
    drop_group(plan_, g);
  }

  const VerifiedChain& chain_;
  FusionPlan& plan_;
};

}  // namespace

bool store_terms_in_sums(const VerifiedChain& chain, FusionPlan& plan) {
  return TermMerger(chain, plan).run();
}

}  // namespace catenary
