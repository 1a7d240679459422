// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/anchors.h"

#include <algorithm>
#include <optional>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "shared/config.h"
#include "shared/dtype.h"

namespace catenary {
namespace {

bool is_symbolic_or_empty(const ContractionLabel& label) {
  return label.size.symbolic || label.size.size == 0;
}

class AnchorFinder {
 public:
  AnchorFinder(const VerifiedChain& chain, UnlikeAnchors unlike)
      : chain_(chain), unlike_(unlike), uses_(chain.num_values(), 0) {
    sets_.partner.assign(chain.num_values(), -1);
    sets_.sum_of.assign(chain.num_values(), -1);
    for (ValueId id = 0; id < chain.num_values(); ++id) {
      for (const Use& use : value(id).operands) ++uses_[use.value];
    }
    for (const Output& output : chain.chain().outputs) ++uses_[output.value];
  }

  AnchorSets find() {
    find_pairs();
    find_sums();
    sets_.has_unlike_apart = has_unlike_apart_;
    return std::move(sets_);
  }

 private:
  const Value& value(ValueId id) const { return chain_.value(id); }
  const ValueInfo& info(ValueId id) const { return chain_.info(id); }

  // Contractions that may share one kernel: one equation, one operand in common on the same side,
  // and some elementwise value that needs both.
  bool pairable(ValueId first, ValueId second) const {
    const Value& a = value(first);
    const Value& b = value(second);
    const bool shares_left = same_operand(a.operands[0], b.operands[0]);
    const bool shares_right = same_operand(a.operands[1], b.operands[1]);
    if (shares_left == shares_right) return false;
    const int other = shares_left ? 1 : 0;
    const Value& w = value(a.operands[other].value);
    const Value& w2 = value(b.operands[other].value);
    if (w.op == Op::kDequant || w2.op == Op::kDequant) {
      if (!dequantised_alike(w, w2)) return false;
    } else if (is_dequantised(first)) {
      return false;  // the weight is what they share
    }
    const auto& x = info(a.operands[other].value).type;
    const auto& y = info(b.operands[other].value).type;
    return a.equation == b.equation && a.true_f32 == b.true_f32 && a.fast_accum == b.fast_accum &&
           a.ragged == b.ragged && x.dtype == y.dtype && x.shape == y.shape &&
           !(a.ragged && !shares_left) && may_join(first, second);
  }

  // What a load of an operand depends on: which dimension is innermost, and whether rows begin at
  // multiples of 16 bytes, as TMA asks (cuTensorMapEncodeTiled).
  enum class Layout : u8 { kDequantised, kNoTma, kMajorK, kMajorOther };
  Layout layout_of(ValueId contraction, int operand) const {
    const ValueId id = value(contraction).operands[operand].value;
    if (value(id).op == Op::kDequant) return Layout::kDequantised;
    const TensorType& type = info(id).type;
    int innermost = -1;
    for (int d = 0; d < type.rank(); ++d) {
      if (type.strides[d] == 1)
        innermost = d;
      else if (type.strides[d] * dtype_bytes(type.dtype) % 16 != 0)
        return Layout::kNoTma;
    }
    if (innermost < 0 || type.align % 16 != 0) return Layout::kNoTma;
    const bool is_k = llvm::any_of(info(contraction).contraction->k, [&](const auto& label) {
      return (operand == 0 ? label.left : label.right) == innermost;
    });
    return is_k ? Layout::kMajorK : Layout::kMajorOther;
  }

  bool may_join(ValueId first, ValueId second) const {
    if (unlike_ == UnlikeAnchors::kTogether) return true;
    const bool alike =
        layout_of(first, 0) == layout_of(second, 0) && layout_of(first, 1) == layout_of(second, 1);
    if (!alike) has_unlike_apart_ = true;
    return alike;
  }

  // One value, or one parameter dequantised twice by the same scales.
  bool same_operand(const Use& a, const Use& b) const {
    if (a == b) return true;
    const Value& x = value(a.value);
    const Value& y = value(b.value);
    return x.op == Op::kDequant && y.op == Op::kDequant && a.labels == b.labels &&
           x.operands == y.operands && x.block == y.block;
  }

  // Integers, scales and zeros of the same dtypes in the same blocks: one kernel reads both.
  bool dequantised_alike(const Value& a, const Value& b) const {
    if (a.op != b.op || !(a.block == b.block) || a.operands.size() != b.operands.size())
      return false;
    for (size_t i = 0; i < a.operands.size(); ++i) {
      const TensorType& x = info(a.operands[i].value).type;
      const TensorType& y = info(b.operands[i].value).type;
      if (x.dtype != y.dtype || x.packed != y.packed) return false;
    }
    return true;
  }

  // No kernel adds products with dequantised weights.
  bool is_dequantised(ValueId contraction) const {
    return llvm::any_of(value(contraction).operands,
                        [&](const Use& use) { return value(use.value).op == Op::kDequant; });
  }

  // For each value, the contractions that it depends on with no other one and no sum between. A
  // value that depends on exactly two pairable ones pairs them. Sums do not count: a norm scales
  // both.
  void find_pairs() {
    std::vector<llvm::SmallVector<ValueId, 4>> reach(chain_.num_values());
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      const Value& v = value(id);
      if (v.op == Op::kContract) reach[id] = {id};
      if (v.op == Op::kContract || is_reduction(v.op)) continue;
      for (const Use& use : v.operands) {
        for (ValueId anchor : reach[use.value]) {
          if (!llvm::is_contained(reach[id], anchor)) reach[id].push_back(anchor);
        }
      }
      if (reach[id].size() != 2) continue;
      const ValueId first = std::min(reach[id][0], reach[id][1]);
      const ValueId second = std::max(reach[id][0], reach[id][1]);
      if (sets_.partner[first] < 0 && sets_.partner[second] < 0 && pairable(first, second)) {
        sets_.partner[first] = second;
        sets_.partner[second] = first;
      }
    }
  }

  // Terms are counted at compile time, so that a k-tile's product is known by its number.
  bool is_summand(ValueId id) const {
    if (value(id).op != Op::kContract || sets_.partner[id] >= 0 || is_dequantised(id)) return false;
    const Contraction& c = *info(id).contraction;
    const bool k_grouped = value(id).ragged && c.ragged_group->result >= 0;
    return !k_grouped && llvm::none_of(c.k, is_symbolic_or_empty);
  }

  // Contractions that the instructions of one kernel can add: one math mode, one division of the
  // rows into groups, and the same dimensions of the result from the same side.
  bool addable(ValueId first, ValueId second) const {
    const Value& a = value(first);
    const Value& b = value(second);
    const int rank = info(first).type.rank();
    if (a.true_f32 != b.true_f32 || a.fast_accum != b.fast_accum ||
        info(a.operands[0].value).type.dtype != info(b.operands[0].value).type.dtype ||
        a.ragged.has_value() != b.ragged.has_value()) {
      return false;
    }
    const Contraction& x = *info(first).contraction;
    const Contraction& y = *info(second).contraction;
    if (a.ragged && (a.ragged->ends != b.ragged->ends || info(first).rows != info(second).rows)) {
      return false;
    }
    const auto agree = [&](bool mirrored) {
      return llvm::all_of(llvm::seq(0, rank), [&](int d) {
        return result_side(x, d) == side_if(result_side(y, d), mirrored);
      });
    };
    return (agree(false) || (!a.ragged && agree(true))) && may_join(first, second);
  }

  static ResultSide side_if(ResultSide side, bool mirrored) {
    if (!mirrored || side == ResultSide::kBatch) return side;
    return side == ResultSide::kLeft ? ResultSide::kRight : ResultSide::kLeft;
  }

  // An addition of two values of its own shape, element by element.
  bool adds_in_place(ValueId id) const {
    const Value& v = value(id);
    if (v.op != Op::kAdd) return false;
    for (size_t i = 0; i < v.operands.size(); ++i) {
      if (info(v.operands[i].value).type.shape != info(id).type.shape) return false;
      const auto& dims = info(id).operand_dims[i];
      for (size_t d = 0; d < dims.size(); ++d) {
        if (dims[d] != static_cast<int>(d)) return false;
      }
      if (info(id).operand_group[i] >= 0) return false;
    }
    return v.operands[0].value != v.operands[1].value;
  }

  // The sum that `id` is by itself: one contraction, or what its operands are, added; each of them
  // has no other use.
  std::optional<ContractionSum> sum_at(ValueId id,
                                       llvm::ArrayRef<std::optional<ContractionSum>> known) const {
    ContractionSum sum;
    sum.value = id;
    if (is_summand(id)) {
      sum.contractions.push_back(id);
      return sum;
    }
    if (!adds_in_place(id)) return std::nullopt;
    for (const Use& use : value(id).operands) {
      const auto& part = known[use.value];
      if (!part || uses_[use.value] != 1) return std::nullopt;
      if (!sum.contractions.empty() && !addable(sum.contractions[0], part->contractions[0]))
        return std::nullopt;
      llvm::append_range(sum.contractions, part->contractions);
      llvm::append_range(sum.additions, part->additions);
    }
    if (sum.contractions.size() > size_t{kMaxSegments}) return std::nullopt;
    sum.additions.push_back(id);
    llvm::sort(sum.contractions);
    llvm::sort(sum.additions);
    return sum;
  }

  // The largest sums: none is a part of another.
  void find_sums() {
    std::vector<std::optional<ContractionSum>> known(chain_.num_values());
    for (ValueId id = 0; id < chain_.num_values(); ++id) known[id] = sum_at(id, known);
    for (ValueId id = chain_.num_values() - 1; id >= 0; --id) {
      const auto& sum = known[id];
      if (!sum || sum->contractions.size() < 2 || sets_.sum_of[sum->contractions[0]] >= 0) continue;
      for (ValueId part : sum->contractions)
        sets_.sum_of[part] = static_cast<int>(sets_.sums.size());
      sets_.sums.push_back(*sum);
    }
  }

  const VerifiedChain& chain_;
  const UnlikeAnchors unlike_;
  mutable bool has_unlike_apart_ = false;
  std::vector<int> uses_;  // outputs included
  AnchorSets sets_;
};

}  // namespace

ResultSide result_side(const Contraction& contraction, int dim) {
  const auto has = [&](const auto& labels) {
    return llvm::any_of(labels, [&](const ContractionLabel& l) { return l.result == dim; });
  };
  if (has(contraction.m)) return ResultSide::kLeft;
  return has(contraction.n) ? ResultSide::kRight : ResultSide::kBatch;
}

bool is_mirrored(const Contraction& a, const Contraction& b, int rank) {
  for (int d = 0; d < rank; ++d) {
    if (result_side(a, d) != result_side(b, d)) return true;
  }
  return false;
}

AnchorSets find_anchor_sets(const VerifiedChain& chain, UnlikeAnchors unlike) {
  return AnchorFinder(chain, unlike).find();
}

}  // namespace catenary
