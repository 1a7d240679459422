// SPDX-License-Identifier: Apache-2.0
#include "ir/rounded_weights.h"

#include <map>

#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

// Writes the chain anew, with a cast after each weight for each dtype of its products.
class RoundedWriter {
 public:
  explicit RoundedWriter(const VerifiedChain& chain)
      : chain_(chain),
        dtypes_(chain.num_values()),
        new_id_(chain.num_values(), -1),
        names_(chain.chain()) {
    for (ValueId id = 0; id < chain.num_values(); ++id) {
      for (int side = 0; side < 2; ++side) {
        const auto dtype = dtype_of_product(id, side);
        if (!dtype) continue;
        auto& dtypes = dtypes_[chain.value(id).operands[side].value];
        if (!llvm::is_contained(dtypes, *dtype)) dtypes.push_back(*dtype);
      }
    }
  }

  bool has_work() const {
    return llvm::any_of(dtypes_, [](const auto& dtypes) { return !dtypes.empty(); });
  }

  Expected<VerifiedChain> run(std::vector<std::string>& rewritten) {
    const Chain& given = chain_.chain();
    form_ = given;
    form_.words.rounded_weights = false;
    form_.values.clear();
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      Value value = given.values[id];
      for (size_t i = 0; i < value.operands.size(); ++i) {
        const ValueId operand = value.operands[i].value;
        const auto dtype = dtype_of_product(id, static_cast<int>(i));
        value.operands[i].value = dtype ? casts_.at({operand, *dtype}) : new_id_[operand];
      }
      if (value.ragged) value.ragged->ends = new_id_[value.ragged->ends];
      new_id_[id] = form_.append(std::move(value));
      for (DType dtype : dtypes_[id]) write_cast(id, dtype, rewritten);
    }
    for (Output& output : form_.outputs) {
      output.value = new_id_[output.value];
      if (output.in_place >= 0) output.in_place = new_id_[output.in_place];
    }
    return verify(std::move(form_));
  }

 private:
  // What operand `side` of the contraction is rounded to; nothing: it stays, or there is none.
  std::optional<DType> dtype_of_product(ValueId id, int side) const {
    const Value& value = chain_.value(id);
    if (value.op != Op::kContract) return std::nullopt;
    const Value& weight = chain_.value(value.operands[side].value);
    if (weight.op != Op::kDequant) return std::nullopt;
    const DType stored = chain_.info(weight.operands[0].value).type.dtype;
    if (dtype_info(stored).kind != DTypeKind::kInteger) return std::nullopt;
    return chain_.info(value.operands[1 - side].value).type.dtype;
  }

  void write_cast(ValueId id, DType dtype, std::vector<std::string>& rewritten) {
    const std::string& name = chain_.value(id).name;
    casts_[{id, dtype}] =
        form_.cast(new_id_[id], dtype, names_.make(name, fmt::format("_{}", dtype_text(dtype))));
    rewritten.push_back(
        fmt::format("'{}' is rounded to {} before it is multiplied", name, dtype_text(dtype)));
  }

  const VerifiedChain& chain_;
  std::vector<llvm::SmallVector<DType, 2>> dtypes_;  // of the casts of each value
  std::vector<ValueId> new_id_;
  std::map<std::pair<ValueId, DType>, ValueId> casts_;  // in the form
  FreshNames names_;
  Chain form_;
};

}  // namespace

RewrittenChain rounded_form(const VerifiedChain& chain) {
  RoundedWriter writer(chain);
  if (!writer.has_work()) return {};
  std::vector<std::string> clauses;
  Expected<VerifiedChain> written = writer.run(clauses);
  return rewritten_chain(std::move(written), std::move(clauses));
}

}  // namespace catenary
