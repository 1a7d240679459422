// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/column_sums.h"

#include "compiler/fusion/group.h"

namespace catenary {
namespace {

class SumMover {
 public:
  SumMover(const VerifiedChain& chain, FusionPlan& plan) : chain_(chain), plan_(plan) {}

  bool run() {
    bool moved = false;
    for (int g = 0; g < static_cast<int>(plan_.groups.size()); ++g) {
      if (!is_sum_of_rows(g) || !move(g)) continue;
      moved = true;
    }
    return moved;
  }

 private:
  ValueId sum(int group) const { return plan_.groups[group].anchors[0].value; }
  ValueId operand(int group) const { return chain_.value(sum(group)).operands[0].value; }

  // A sum over dimensions outside the last one, of a value that another kernel computes.
  bool is_sum_of_rows(int g) const {
    const FusionGroup& group = plan_.groups[g];
    if (group.kind != FusionGroup::Kind::kReduction || chain_.value(sum(g)).op != Op::kSum)
      return false;
    const int rank = chain_.info(operand(g)).type.rank();
    const auto& summed = chain_.info(sum(g)).summed;
    return !summed.empty() && !llvm::is_contained(summed, rank - 1) && llvm::is_sorted(summed) &&
           forms_rows(plan_.group_of[operand(g)], g);
  }

  // The rows that a kernel sums begin at those of its tiles: of ragged rows, where a group begins.
  bool forms_rows(int source, int reader) const {
    if (source < 0 || source >= reader) return false;
    const FusionGroup& group = plan_.groups[source];
    return group.kind == FusionGroup::Kind::kContraction && group.row_squares < 0 && !group.gain &&
           !group.formed && !group.row_reductions &&
           sums_tiles(group.anchors[0].value, sum(reader));
  }

  bool sums_tiles(ValueId contraction, ValueId sum) const {
    const auto& terms = chain_.info(sum).grouped_terms;
    if (!chain_.value(contraction).ragged) return !terms;
    const auto& rows = chain_.info(contraction).rows;
    return terms && rows && rows->dim == terms->dim && rows->ends == terms->ends &&
           chain_.info(sum).summed.size() == 1;
  }

  bool move(int g) {
    const ValueId id = operand(g);
    const auto& summed = chain_.info(sum(g)).summed;
    FusionGroup& source = plan_.groups[plan_.group_of[id]];
    const auto known =
        llvm::find_if(source.column_sums, [&](const ColumnSums& sums) { return sums.value == id; });
    if (known == source.column_sums.end()) {
      source.column_sums.push_back({id, {summed.begin(), summed.end()}});
    } else if (known->summed != llvm::ArrayRef<int>(summed)) {
      return false;
    }
    plan_.groups[g].adds_column_sums = true;
    source.why += fmt::format("; it sums every {} rows of '{}' for '{}'", kSummedRows,
                              chain_.value(id).name, chain_.value(sum(g)).name);
    plan_.groups[g].why =
        fmt::format("'{}' adds sums of {} rows", chain_.value(sum(g)).name, kSummedRows);
    drop_store(id);
    return true;
  }

  // The value, if its kernel stores it for such sums only.
  void drop_store(ValueId id) {
    for (int r = 0; r < static_cast<int>(plan_.groups.size()); ++r) {
      if (llvm::is_contained(read_values(chain_, plan_, r), id)) return;
    }
    const auto& outputs = chain_.chain().outputs;
    if (llvm::any_of(outputs, [&](const Output& output) { return output.value == id; })) return;
    llvm::erase_if(plan_.groups[plan_.group_of[id]].outputs,
                   [&](const GroupOutput& output) { return output.value == id; });
  }

  const VerifiedChain& chain_;
  FusionPlan& plan_;
};

}  // namespace

bool move_column_sums_inside(const VerifiedChain& chain, FusionPlan& plan) {
  return SumMover(chain, plan).run();
}

SummedRows summed_rows(const TensorType& type, llvm::ArrayRef<int> summed) {
  SummedRows rows;
  rows.strides.assign(type.rank(), 0);
  i64 step = 1;
  for (int d = type.rank() - 1; d >= 0; --d) {
    if (llvm::is_contained(summed, d)) continue;
    rows.strides[d] = step;
    step *= type.shape[d].size;
  }
  rows.row_stride = step;
  for (int d = type.rank() - 1; d >= 0; --d) {
    if (!llvm::is_contained(summed, d)) continue;
    rows.strides[d] = step;
    step *= type.shape[d].size;
    const Extent size = extent_of(type.shape[d]);
    rows.size = Extent(rows.size.size * size.size, size.scale * rows.size.size);
  }
  return rows;
}

}  // namespace catenary
