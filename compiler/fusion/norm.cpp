// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/norm.h"

#include "compiler/fusion/edit_groups.h"
#include "compiler/fusion/group.h"
#include "ir/row_products.h"

namespace catenary {
namespace {

class NormMover {
 public:
  NormMover(const VerifiedChain& chain, FusionPlan& plan) : chain_(chain), plan_(plan) {}

  bool run() {
    bool moved = false;
    for (int g = 0; g < static_cast<int>(plan_.groups.size()); ++g) {
      const ValueId x = squared_rows(g);
      if (x < 0 || !is_closed(g) || !move(g, x)) continue;
      moved = true;
      --g;  // the next group takes this number
    }
    return moved;
  }

 private:
  const Value& value(ValueId id) const { return chain_.value(id); }

  // x, if the group's anchor sums its squares over its last dimension into one number a row; or -1.
  ValueId squared_rows(int g) const {
    const FusionGroup& group = plan_.groups[g];
    if (group.kind != FusionGroup::Kind::kReduction) return -1;
    const ValueId sum = group.anchors[0].value;
    const ValueInfo& info = chain_.info(sum);
    if (info.grouped_terms) return -1;
    if (value(sum).op != Op::kSum || info.summed.size() != 1 || info.type.rank() != 1) return -1;
    const Value& square = value(value(sum).operands[0].value);
    const bool is_product = square.op == Op::kMul &&
                            square.operands[0].value == square.operands[1].value &&
                            chain_.info(value(sum).operands[0].value).operand_dims[0] ==
                                chain_.info(value(sum).operands[0].value).operand_dims[1];
    return square.op == Op::kSquare || is_product ? square.operands[0].value : -1;
  }

  // Is everything in the group computed from the sum and parameters, and read by other groups only?
  bool is_closed(int g) const {
    const FusionGroup& group = plan_.groups[g];
    for (ValueId id : group.values) {
      if (id == group.anchors[0].value) continue;
      for (const Use& use : value(id).operands) {
        if (plan_.group_of[use.value] >= 0 && plan_.group_of[use.value] != g) return false;
      }
    }
    const auto& outputs = chain_.chain().outputs;
    return llvm::none_of(outputs,
                         [&](const Output& output) { return plan_.group_of[output.value] == g; });
  }

  // Do the contraction's rows have the sum's label, and does it sum the same dimension of its
  // operand x?
  bool multiplies_rows(ValueId contraction, ValueId sum, ValueId x) const {
    return summed_dim_of_rows(chain_, contraction, x) == chain_.info(sum).summed[0];
  }

  // The groups that read the sum's group. Empty: one of them is not a contraction over x.
  std::optional<std::vector<int>> readers(int g, ValueId x) const {
    const ValueId sum = plan_.groups[g].anchors[0].value;
    std::vector<int> found;
    for (int r = g + 1; r < static_cast<int>(plan_.groups.size()); ++r) {
      const auto read = read_values(chain_, plan_, r);
      if (llvm::none_of(read, [&](ValueId id) { return plan_.group_of[id] == g; })) continue;
      const FusionGroup& reader = plan_.groups[r];
      if (reader.gain && reader.gain->data != x) return std::nullopt;
      if (reader.formed && reader.formed->data != x) return std::nullopt;
      const ValueId operand = reader.row_data >= 0 ? reader.row_data : x;
      const bool fits = reader.kind == FusionGroup::Kind::kContraction && reader.row_squares < 0 &&
                        reader.accumulators.size() == reader.anchors.size() &&
                        llvm::all_of(reader.anchors, [&](const GroupAnchor& anchor) {
                          return multiplies_rows(anchor.value, sum, operand);
                        });
      if (!fits) return std::nullopt;
      found.push_back(r);
    }
    return found;
  }

  bool move(int g, ValueId x) {
    const auto found = readers(g, x);
    if (!found || found->empty()) return false;
    const ValueId sum = plan_.groups[g].anchors[0].value;
    for (int r : *found) {
      plan_.groups[r].row_squares = sum;
      if (plan_.groups[r].row_data < 0) plan_.groups[r].row_data = x;
      plan_.groups[r].why +=
          fmt::format("; '{}' is formed from the rows that it reads", value(sum).name);
    }
    for (ValueId id : plan_.groups[g].values) plan_.group_of[id] = -1;
    drop_square(value(sum).operands[0].value, g);
    drop_group(plan_, g);
    return true;
  }

  // The squares, if an earlier kernel stores them for the sum only.
  void drop_square(ValueId square, int sum_group) {
    const int g = plan_.group_of[square];
    if (g < 0) return;
    for (int r = 0; r < static_cast<int>(plan_.groups.size()); ++r) {
      if (r == sum_group) continue;
      if (r != g && llvm::is_contained(read_values(chain_, plan_, r), square)) return;
      for (ValueId id : plan_.groups[r].values) {
        if (llvm::any_of(value(id).operands, [&](const Use& use) { return use.value == square; }))
          return;
      }
    }
    const auto& outputs = chain_.chain().outputs;
    if (llvm::any_of(outputs, [&](const Output& output) { return output.value == square; })) return;
    FusionGroup& group = plan_.groups[g];
    llvm::erase_value(group.values, square);
    llvm::erase_if(group.outputs,
                   [&](const GroupOutput& output) { return output.value == square; });
    plan_.group_of[square] = -1;
  }

  const VerifiedChain& chain_;
  FusionPlan& plan_;
};

}  // namespace

bool move_norms_inside(const VerifiedChain& chain, FusionPlan& plan) {
  return NormMover(chain, plan).run();
}

}  // namespace catenary
