// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/row_reductions.h"

#include "compiler/fusion/edit_groups.h"
#include "compiler/fusion/group.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

using Kind = FusionGroup::Kind;

// What moves into one contraction's group: whole groups after it.
class Absorption {
 public:
  Absorption(const VerifiedChain& chain, const FusionPlan& plan, int target, bool sums)
      : chain_(chain),
        plan_(plan),
        target_(target),
        sums_(sums),
        inside_(chain.num_values(), false),
        depend_(chain.num_values(), false) {
    for (ValueId id : group(target).values) inside_[id] = true;
    for (int g = target + 1; g < static_cast<int>(plan.groups.size()); ++g) {
      if (takes(g)) absorb(g);
    }
  }

  // Groups that move, ascending, a reduction first.
  llvm::ArrayRef<int> groups() const { return groups_; }
  const RowReductions& reductions() const { return found_; }

 private:
  const FusionGroup& group(int g) const { return plan_.groups[g]; }
  llvm::ArrayRef<Dim> shape(ValueId id) const { return chain_.info(id).type.shape; }
  bool is_whole(ValueId id) const { return shape(id) == llvm::ArrayRef<Dim>(group(target_).shape); }

  bool takes(int g) const {
    const FusionGroup& source = group(g);
    if (!source.copies.empty() || source.adds_column_sums || !source.column_sums.empty())
      return false;
    if (source.kind == Kind::kContraction || source.kind == Kind::kDequant) return false;
    if (source.kind == Kind::kReduction && !is_row_reduction(source.anchors[0].value)) return false;
    if (source.kind == Kind::kPointwise && found_.values.empty()) return false;
    std::vector<bool> inside = inside_;
    for (ValueId id : source.values) inside[id] = true;
    const auto& summed = source.kind == Kind::kReduction
                             ? chain_.info(source.anchors[0].value).summed
                             : found_.summed;
    return llvm::all_of(source.values, [&](ValueId id) { return computes(id, inside, summed); }) &&
           numbers_depend_on_reductions(source) &&
           llvm::any_of(source.values, [&](ValueId id) { return reads_inside(id); });
  }

  // The group computes the terms, and all its reductions are over the same dimensions, the last one
  // among them.
  bool is_row_reduction(ValueId id) const {
    const ValueInfo& info = chain_.info(id);
    const ValueId terms = chain_.value(id).operands[0].value;
    if (!inside_[terms] || !is_whole(terms) || info.grouped_terms || info.summed.empty())
      return false;
    if (chain_.value(id).op == Op::kSum && !sums_) return false;
    i64 columns = 1;
    for (int dim : info.summed) columns *= shape(terms)[dim].symbolic ? 0 : shape(terms)[dim].size;
    return columns > 1 && llvm::is_sorted(info.summed) && llvm::is_sorted(info.operand_dims[0]) &&
           info.summed.size() < shape(terms).size() &&
           info.summed.back() + 1 == static_cast<int>(shape(terms).size()) &&
           (found_.values.empty() || info.summed == found_.summed);
  }

  bool reads_inside(ValueId id) const {
    return llvm::any_of(chain_.value(id).operands,
                        [&](const Use& use) { return inside_[use.value]; });
  }

  // The kernel has a row's numbers after a pass. One that no reduction gives keeps another kernel.
  bool numbers_depend_on_reductions(const FusionGroup& source) const {
    std::vector<bool> depend = depend_;
    return llvm::all_of(source.values, [&](ValueId id) {
      depend[id] = depends(id, depend);
      return depend[id] || is_whole(id);
    });
  }
  bool depends(ValueId id, const std::vector<bool>& depend) const {
    return is_reduction(chain_.value(id).op) ||
           llvm::any_of(chain_.value(id).operands,
                        [&](const Use& use) { return depend[use.value]; });
  }

  // Does an output take the place of an input? Other rows and blocks may still read it.
  bool is_in_place(ValueId id) const {
    return llvm::any_of(chain_.chain().outputs, [&](const Output& output) {
      return output.value == id && output.in_place >= 0;
    });
  }

  // Can the kernel compute the value, an element or a number of a row and block, from what is
  // inside it and what is in memory before it starts?
  template <class Summed>
  bool computes(ValueId id, const std::vector<bool>& inside, const Summed& summed) const {
    if (is_in_place(id) || chain_.info(id).type.rank() == 0) return false;
    if (is_reduction(chain_.value(id).op)) return true;  // is_row_reduction()
    const DimsOf own = dims_of(id, summed);
    if (!own.known) return false;
    const ValueInfo& info = chain_.info(id);
    for (size_t i = 0; i < chain_.value(id).operands.size(); ++i) {
      const ValueId operand = chain_.value(id).operands[i].value;
      if (info.operand_group[i] >= 0) return false;
      if (!inside[operand]) {
        if (plan_.group_of[operand] >= target_) return false;
        continue;
      }
      if (!reads_own(info.operand_dims[i], own, dims_of(operand, summed))) return false;
    }
    return true;
  }

  // The dimensions of the group's shape that a value has; unknown: its shape is another one.
  struct DimsOf {
    bool known = false;
    llvm::SmallVector<int, 8> dims;
  };
  template <class Summed>
  DimsOf dims_of(ValueId id, const Summed& summed) const {
    DimsOf found;
    const auto& whole = group(target_).shape;
    const bool element = is_whole(id);
    llvm::SmallVector<Dim, 8> sizes;
    for (int d = 0; d < static_cast<int>(whole.size()); ++d) {
      if (!element && llvm::is_contained(summed, d)) continue;
      found.dims.push_back(d);
      sizes.push_back(whole[d]);
    }
    found.known = shape(id) == llvm::ArrayRef<Dim>(sizes);
    return found;
  }

  // Is an operand inside read at the coordinates of the value that reads it?
  template <class OperandDims>
  bool reads_own(const OperandDims& operand_dims, const DimsOf& own, const DimsOf& operand) const {
    if (!operand.known || operand.dims.size() > own.dims.size()) return false;
    for (size_t d = 0; d < operand_dims.size(); ++d) {
      const int at = operand_dims[d];
      const bool same = at >= 0 && operand.dims[at] == own.dims[d];
      const bool broadcast = at < 0 && !llvm::is_contained(operand.dims, own.dims[d]);
      if (!same && !broadcast) return false;
    }
    return true;
  }

  void absorb(int g) {
    groups_.push_back(g);
    for (ValueId id : group(g).values) {
      inside_[id] = true;
      depend_[id] = depends(id, depend_);
    }
    if (group(g).kind != Kind::kReduction) return;
    const ValueId id = group(g).anchors[0].value;
    const auto& summed = chain_.info(id).summed;
    found_.summed.assign(summed.begin(), summed.end());
    found_.values.push_back(id);
  }

  const VerifiedChain& chain_;
  const FusionPlan& plan_;
  int target_;
  bool sums_;                 // take sums too
  std::vector<bool> inside_;  // computed by the kernel
  std::vector<bool> depend_;  // on a reduction of the kernel
  llvm::SmallVector<int, 4> groups_;
  RowReductions found_;
};

bool forms_rows(const FusionGroup& group) {
  return group.kind == Kind::kContraction && group.row_data < 0 && group.column_sums.empty();
}

// Outputs of the group that nothing reads from memory any more.
void drop_stores(const VerifiedChain& chain, FusionPlan& plan, int g) {
  std::vector<bool> read(chain.num_values(), false);
  for (int r = 0; r < static_cast<int>(plan.groups.size()); ++r) {
    for (ValueId id : read_values(chain, plan, r)) read[id] = true;
  }
  for (const Output& output : chain.chain().outputs) read[output.value] = true;
  llvm::erase_if(plan.groups[g].outputs,
                 [&](const GroupOutput& output) { return !read[output.value]; });
}

void move_inside(const VerifiedChain& chain, FusionPlan& plan, int g, llvm::ArrayRef<int> sources) {
  std::vector<ValueId> stored;
  for (int source : sources) {
    for (const GroupOutput& output : plan.groups[source].outputs) stored.push_back(output.value);
    const std::vector<ValueId> values = plan.groups[source].values;
    for (ValueId id : values) {
      remove_value(plan, id);
      add_value(plan, id, g);
    }
  }
  for (ValueId id : stored) store_value(chain, plan, id);
}

}  // namespace

bool move_row_reductions_inside(const VerifiedChain& chain, FusionPlan& plan, bool sums) {
  bool moved = false;
  for (int g = 0; g < static_cast<int>(plan.groups.size()); ++g) {
    if (!forms_rows(plan.groups[g])) continue;
    const Absorption absorption(chain, plan, g, sums);
    if (absorption.groups().empty()) continue;
    moved = true;
    plan.groups[g].row_reductions = absorption.reductions();
    std::string names;
    for (ValueId id : absorption.reductions().values)
      names += fmt::format("{}'{}'", names.empty() ? "" : ", ", chain.value(id).name);
    plan.groups[g].why += fmt::format("; it reduces {} columns of its tiles to {}",
                                      reduced_columns(plan.groups[g]), names);
    move_inside(chain, plan, g, absorption.groups());
    drop_stores(chain, plan, g);
    drop_empty_groups(plan);
  }
  return moved;
}

llvm::SmallVector<int, 8> kept_dims(const FusionGroup& group) {
  llvm::SmallVector<int, 8> kept;
  for (int d = 0; d < static_cast<int>(group.shape.size()); ++d) {
    if (!group.row_reductions || !llvm::is_contained(group.row_reductions->summed, d))
      kept.push_back(d);
  }
  return kept;
}

i64 reduced_columns(const FusionGroup& group) {
  i64 columns = 1;
  if (!group.row_reductions) return columns;
  for (int d : group.row_reductions->summed) columns *= group.shape[d].size;
  return columns;
}

}  // namespace catenary
