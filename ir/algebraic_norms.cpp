// SPDX-License-Identifier: Apache-2.0
#include "ir/algebraic_norms.h"

#include <map>

#include "ir/dependence.h"
#include "ir/rewrite.h"
#include "ir/row_products.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

struct Factor {
  ValueId value = -1;
  bool divides = false;
};

// n = x * rows * columns, but for roundings.
struct ScaledRows {
  ValueId x = -1;
  int k_dim = -1;
  llvm::SmallVector<Factor, 2> rows;     // one number for each row, or for all
  llvm::SmallVector<Factor, 2> columns;  // vectors along K
};

// Finds the operands that are rewritten.
class NormFinder {
 public:
  explicit NormFinder(const VerifiedChain& chain)
      : chain_(chain), depend_(depend_on_reductions(chain)), users_(chain.num_values()) {
    for (ValueId id = 0; id < chain.num_values(); ++id) {
      for (const Use& use : value(id).operands) users_[use.value].push_back(id);
    }
  }

  std::map<ValueId, ScaledRows> run(std::vector<std::string>& kept) const {
    std::map<ValueId, ScaledRows> found;
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      if (!depend_[id] || !is_matrix_of_contraction(id)) continue;
      ScaledRows norm;
      const std::string refusal = trace(id, norm);
      if (refusal.empty()) {
        found.emplace(id, std::move(norm));
      } else {
        kept.push_back(fmt::format("'{}' keeps its roundings: {}", value(id).name, refusal));
      }
    }
    return found;
  }

 private:
  const Value& value(ValueId id) const { return chain_.value(id); }
  const TensorType& type(ValueId id) const { return chain_.info(id).type; }

  bool is_matrix_of_contraction(ValueId id) const {
    return type(id).rank() == 2 && !is_reduction(value(id).op) &&
           llvm::any_of(users_[id], [&](ValueId user) { return value(user).op == Op::kContract; });
  }

  // Why the operand is not rewritten; empty: it is.
  std::string trace(ValueId id, ScaledRows& norm) const {
    if (llvm::any_of(chain_.chain().outputs, [&](const Output& o) { return o.value == id; }))
      return "the caller wants it";
    for (ValueId user : users_[id]) {
      const int dim = summed_dim_of_rows(chain_, user, id);
      if (dim < 0 || (norm.k_dim >= 0 && dim != norm.k_dim))
        return fmt::format("'{}' does not only sum products of its rows", value(user).name);
      norm.k_dim = dim;
    }
    if (!take_factors(id, norm))
      return "it is no matrix times numbers for each row that depend on a reduction";
    return dtype_refusal(id, norm);
  }

  std::string dtype_refusal(ValueId id, const ScaledRows& norm) const {
    const std::string& x = value(norm.x).name;
    if (depend_[norm.x] && value(norm.x).op != Op::kCast)
      return fmt::format(
          "'{}', which is scaled, depends on a reduction too, as the difference "
          "from a mean does, and is not rounded",
          x);
    const DType from = type(norm.x).dtype, to = type(id).dtype;
    if (to == DType::kF16 && (from != DType::kF16 || !norm.columns.empty()))
      return fmt::format("'{}' times a gain, or in f32, may be too large for f16", x);
    if (to == DType::kF32 && from != DType::kF32)
      return fmt::format("'{}' is {} and the product's operands are f32", x, dtype_text(from));
    return "";
  }

  bool is_same_matrix(ValueId id, int i) const {
    const auto& dims = chain_.info(id).operand_dims[i];
    return chain_.info(id).operand_group[i] < 0 && dims.size() == 2 && dims[0] == 0 &&
           dims[1] == 1 && type(value(id).operands[i].value).shape == type(id).shape;
  }

  // Appends operand `i` of a product to the factors, if it is none of the matrix.
  bool take_factor(ValueId id, int i, ScaledRows& norm) const {
    const ValueInfo& info = chain_.info(id);
    const Factor factor{value(id).operands[i].value, value(id).op == Op::kDiv};
    const int rank = type(factor.value).rank();
    const auto& dims = info.operand_dims[i];
    if (info.operand_group[i] >= 0 || rank > 1) return false;
    const bool column = rank == 1 && dims[norm.k_dim] == 0;
    (column ? norm.columns : norm.rows).push_back(factor);
    return true;
  }

  // Takes the factors of casts and products, down to the last number for each row that depends on a
  // reduction. False: there is none.
  bool take_factors(ValueId id, ScaledRows& norm) const {
    ScaledRows all = norm;
    all.x = id;
    bool found = false;
    while (true) {
      const Value& v = value(all.x);
      if (v.op == Op::kCast) {
        const DType dtype = v.type.dtype;
        if (dtype != DType::kBF16 && dtype != DType::kF16 && dtype != DType::kF32) break;
        all.x = v.operands[0].value;
        continue;
      }
      if (v.op != Op::kMul && v.op != Op::kDiv) break;
      const bool matrix_right = v.op == Op::kMul && !is_same_matrix(all.x, 0);
      const int matrix = matrix_right ? 1 : 0;
      if (!is_same_matrix(all.x, matrix) || !take_factor(all.x, 1 - matrix, all)) break;
      const ValueId factor = v.operands[1 - matrix].value;
      const bool of_row = !all.rows.empty() && all.rows.back().value == factor;
      all.x = v.operands[matrix].value;
      if (!of_row || !depend_[factor] || type(factor).rank() != 1) continue;
      norm = all;
      found = true;
    }
    return found;
  }

  const VerifiedChain& chain_;
  std::vector<bool> depend_;  // on reductions, by elementwise ops and casts only
  std::vector<std::vector<ValueId>> users_;
};

// Writes the chain anew.
class FormWriter {
 public:
  FormWriter(const VerifiedChain& chain, const std::map<ValueId, ScaledRows>& norms)
      : chain_(chain), norms_(norms), new_id_(chain.num_values(), -1), names_(chain.chain()) {}

  Expected<VerifiedChain> run() {
    const Chain& given = chain_.chain();
    form_ = given;
    form_.words.algebraic_norms = false;
    form_.values.clear();
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      if (const auto norm = norms_.find(id); norm != norms_.end()) {
        write_operand(id, norm->second);
      } else if (given.values[id].op == Op::kContract) {
        write_contraction(id);
      } else {
        new_id_[id] = form_.append(renumbered(id));
      }
    }
    for (Output& output : form_.outputs) {
      output.value = new_id_[output.value];
      if (output.in_place >= 0) output.in_place = new_id_[output.in_place];
    }
    drop_unused(form_);
    return verify(std::move(form_));
  }

 private:
  Value renumbered(ValueId id) const {
    Value value = chain_.value(id);
    for (Use& use : value.operands) use.value = new_id_[use.value];
    if (value.ragged) value.ragged->ends = new_id_[value.ragged->ends];
    return value;
  }

  // The product of all numbers for each row: one row scale.
  ValueId write_scale(const std::string& name, llvm::ArrayRef<Factor> rows) {
    const auto multiplies = llvm::find_if(rows, [&](const Factor& f) { return !f.divides; });
    ValueId scale = -1;
    if (multiplies == rows.end()) {
      scale = form_.constant(1, names_.make(name, "_one"));
    } else {
      scale = new_id_[multiplies->value];
    }
    for (const Factor& factor : rows) {
      if (&factor == multiplies) continue;
      scale = form_.elementwise(factor.divides ? Op::kDiv : Op::kMul,
                                {Use{scale, ""}, Use{new_id_[factor.value], ""}}, {},
                                names_.make(name, "_scale"));
    }
    return scale;
  }

  // n without its row scale, and that scale.
  void write_operand(ValueId id, const ScaledRows& norm) {
    const std::string& name = chain_.value(id).name;
    scales_[id] = write_scale(name, norm.rows);
    ValueId product = new_id_[norm.x];
    const char* const labels = norm.k_dim == 1 ? "mk" : "km";
    for (const Factor& factor : norm.columns) {
      product = form_.elementwise(factor.divides ? Op::kDiv : Op::kMul,
                                  {Use{product, labels}, Use{new_id_[factor.value], "k"}}, {},
                                  names_.make(name, "_gained"));
    }
    const DType dtype = chain_.info(id).type.dtype;
    const bool rounded = norm.columns.empty() && chain_.info(norm.x).type.dtype == dtype;
    new_id_[id] = rounded || dtype == DType::kF32 ? product : form_.cast(product, dtype, name);
  }

  // The contraction, and its result times the row scales of its operands.
  void write_contraction(ValueId id) {
    const Value& given = chain_.value(id);
    const Contraction& c = *chain_.info(id).contraction;
    Value value = renumbered(id);
    llvm::SmallVector<std::pair<ValueId, char>, 2> scales;
    for (int side = 0; side < 2; ++side) {
      const auto scale = scales_.find(given.operands[side].value);
      if (scale == scales_.end()) continue;
      scales.push_back({scale->second, side == 0 ? c.m[0].label : c.n[0].label});
    }
    if (!scales.empty()) value.name = names_.make(given.name, "_unscaled");
    ValueId result = form_.append(std::move(value));
    for (size_t i = 0; i < scales.size(); ++i) {
      const bool last = i + 1 == scales.size();
      result = form_.elementwise(
          Op::kMul, {Use{result, ""}, Use{scales[i].first, std::string(1, scales[i].second)}}, {},
          last ? given.name : names_.make(given.name, "_scaled"));
    }
    new_id_[id] = result;
  }

  const VerifiedChain& chain_;
  const std::map<ValueId, ScaledRows>& norms_;
  std::vector<ValueId> new_id_;
  std::map<ValueId, ValueId> scales_;  // of an operand of the given chain, in the form
  FreshNames names_;
  Chain form_;
};

}  // namespace

AlgebraicForm algebraic_form(const VerifiedChain& chain) {
  AlgebraicForm form;
  const auto norms = NormFinder(chain).run(form.kept);
  if (norms.empty()) return form;
  Expected<VerifiedChain> written = FormWriter(chain, norms).run();
  if (!written) {
    form.kept.push_back("the algebraic form is no valid chain: " +
                        take_report(written.takeError()).message);
    return form;
  }
  form.chain = std::move(*written);
  for (const auto& [id, norm] : norms) {
    form.rewritten.push_back(
        fmt::format("'{}' is the rows of '{}' without their scale, which the products of '{}' get "
                    "after their sums",
                    chain.value(id).name, chain.value(norm.x).name, chain.value(id).name));
  }
  return form;
}

}  // namespace catenary
