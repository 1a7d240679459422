// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/edit_groups.h"

#include "llvm/ADT/STLExtras.h"

namespace catenary {

void add_value(FusionPlan& plan, ValueId id, int g) {
  plan.groups[g].values.push_back(id);
  llvm::sort(plan.groups[g].values);
  plan.group_of[id] = g;
}

namespace {

// Is the value computed with the terms of the group's reduction, not from its result?
bool is_of_terms(const VerifiedChain& chain, const FusionGroup& group, ValueId id) {
  if (group.kind != FusionGroup::Kind::kReduction) return false;
  std::vector<bool> of_result(chain.num_values(), false);
  for (ValueId value : group.values) {
    of_result[value] = is_reduction(chain.value(value).op) ||
                       llvm::any_of(chain.value(value).operands,
                                    [&](const Use& use) { return of_result[use.value]; });
  }
  return !of_result[id];
}

}  // namespace

void store_value(const VerifiedChain& chain, FusionPlan& plan, ValueId id) {
  if (plan.group_of[id] < 0) return;
  FusionGroup& group = plan.groups[plan.group_of[id]];
  auto& outputs = group.outputs;
  if (llvm::any_of(outputs, [&](const GroupOutput& output) { return output.value == id; })) return;
  const auto& shape = chain.info(id).type.shape;
  outputs.push_back({id, {shape.begin(), shape.end()}, is_of_terms(chain, group, id)});
  llvm::sort(outputs, [](const GroupOutput& a, const GroupOutput& b) { return a.value < b.value; });
}

void remove_value(FusionPlan& plan, ValueId id) {
  const int g = plan.group_of[id];
  if (g < 0) return;
  FusionGroup& group = plan.groups[g];
  llvm::erase_value(group.values, id);
  llvm::erase_if(group.outputs, [&](const GroupOutput& output) { return output.value == id; });
  plan.group_of[id] = -1;
}

void drop_group(FusionPlan& plan, int g) {
  plan.groups.erase(plan.groups.begin() + g);
  for (int& later : plan.group_of) later -= later > g ? 1 : 0;
}

void drop_empty_groups(FusionPlan& plan) {
  for (int g = static_cast<int>(plan.groups.size()) - 1; g >= 0; --g) {
    if (plan.groups[g].values.empty()) drop_group(plan, g);
  }
}

}  // namespace catenary
