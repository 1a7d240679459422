// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/gain.h"

#include "compiler/fusion/edit_groups.h"
#include "ir/dependence.h"
#include "ir/row_products.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

// xg = cast(product = mul(data, gain)).
struct ScaledOperand {
  ValueId scaled = -1;
  ValueId product = -1;
  LoadGain factors;
  int dim = 0;  // of xg: the one along which the gain varies
};

class GainMover {
 public:
  GainMover(const VerifiedChain& chain, FusionPlan& plan, bool but_norms)
      : chain_(chain), plan_(plan) {
    if (but_norms) left_ = depend_on_reductions(chain);
    left_.resize(chain.num_values());
    users_.resize(chain.num_values());
    for (ValueId id = 0; id < chain.num_values(); ++id) {
      for (const Use& use : value(id).operands) users_[use.value].push_back(id);
    }
  }

  bool run() {
    bool moved = false;
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      const auto operand = scaled_operand(id);
      if (operand && left_[operand->factors.data]) continue;
      moved = (operand && move(*operand)) || moved;
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

  // The dimension that operand `i` of an elementwise value of two dimensions varies along, if it is
  // a vector; -1: it is none.
  int vector_dim(ValueId id, int i) const {
    const auto& dims = chain_.info(id).operand_dims[i];
    if (type(value(id).operands[i].value).rank() != 1 || dims.size() != 2) return -1;
    return dims[0] == 0 ? 0 : dims[1] == 0 ? 1 : -1;
  }

  // Does operand `i` have the shape of the value and no other order of its dimensions?
  bool is_same_matrix(ValueId id, int i) const {
    const auto& dims = chain_.info(id).operand_dims[i];
    return dims.size() == 2 && dims[0] == 0 && dims[1] == 1 &&
           type(value(id).operands[i].value).shape == type(id).shape;
  }

  std::optional<ScaledOperand> scaled_operand(ValueId id) const {
    if (value(id).op != Op::kCast || type(id).rank() != 2 || is_output(id)) return std::nullopt;
    ScaledOperand found;
    found.scaled = id;
    found.product = value(id).operands[0].value;
    if (value(found.product).op != Op::kMul || users_[found.product].size() != 1 ||
        is_output(found.product) || !is_same_matrix(id, 0)) {
      return std::nullopt;
    }
    const int vector = vector_dim(found.product, 0) >= 0 ? 0 : 1;
    found.dim = vector_dim(found.product, vector);
    if (found.dim < 0 || !is_same_matrix(found.product, 1 - vector)) return std::nullopt;
    found.factors.data = value(found.product).operands[1 - vector].value;
    found.factors.gain = value(found.product).operands[vector].value;
    const DType dtype = type(id).dtype;
    const bool fits = (dtype == DType::kBF16 || dtype == DType::kF16) &&
                      type(found.factors.data).dtype == dtype &&
                      type(found.factors.gain).dtype == dtype;
    return fits ? std::optional(found) : std::nullopt;
  }

  // Does the contraction sum products of the operand's rows, along the gain?
  bool multiplies_rows(ValueId contraction, const ScaledOperand& operand) const {
    return summed_dim_of_rows(chain_, contraction, operand.scaled) == operand.dim;
  }

  bool fits_group(int g, const ScaledOperand& operand) const {
    const FusionGroup& group = plan_.groups[g];
    return group.kind == FusionGroup::Kind::kContraction && group.row_data < 0 &&
           group.accumulators.size() == group.anchors.size() &&
           llvm::all_of(group.anchors, [&](const GroupAnchor& anchor) {
             return multiplies_rows(anchor.value, operand);
           });
  }

  // The groups whose contractions read the operand, ascending. Empty: something else reads it.
  std::vector<int> readers(const ScaledOperand& operand) const {
    std::vector<int> found;
    for (ValueId user : users_[operand.scaled]) {
      const int g = plan_.group_of[user];
      if (g < 0 || !multiplies_rows(user, operand) || !fits_group(g, operand)) return {};
      if (!llvm::is_contained(found, g)) found.push_back(g);
    }
    llvm::sort(found);
    return found;
  }

  bool is_in_memory(ValueId id, int reader) const {
    const Value& v = value(id);
    return v.op == Op::kParameter ? v.role != Role::kScalar : reads_memory(plan_, id, reader);
  }

  bool move(const ScaledOperand& operand) {
    const auto found = readers(operand);
    const int own = plan_.group_of[operand.scaled];
    if (found.empty() || own < 0 || own >= found.front()) return false;
    const auto [data, gain] = operand.factors;
    // What depends only on parameters is stored in place of the operand, if nothing stores it yet.
    const bool recomputed = value(data).op != Op::kParameter && value(data).op != Op::kConstant &&
                            value(data).op != Op::kDequant && plan_.group_of[data] < 0;
    if (!is_in_memory(gain, found.front())) return false;
    if (!recomputed && !is_in_memory(data, found.front())) return false;
    if (recomputed) add_value(plan_, data, own);
    store_value(chain_, plan_, data);
    store_value(chain_, plan_, gain);
    for (int r : found) {
      plan_.groups[r].row_data = operand.scaled;
      plan_.groups[r].gain = operand.factors;
      plan_.groups[r].why += fmt::format("; it multiplies '{}' by '{}' as it loads it",
                                         value(data).name, value(gain).name);
    }
    remove_value(plan_, operand.product);
    remove_value(plan_, operand.scaled);
    drop_empty_groups(plan_);
    return true;
  }

  const VerifiedChain& chain_;
  FusionPlan& plan_;
  std::vector<std::vector<ValueId>> users_;
  std::vector<bool> left_;  // values whose product with a gain is not moved
};

}  // namespace

bool move_gains_inside(const VerifiedChain& chain, FusionPlan& plan, bool but_norms) {
  return GainMover(chain, plan, but_norms).run();
}

}  // namespace catenary
