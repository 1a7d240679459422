// SPDX-License-Identifier: Apache-2.0
#include "ir/summed_products.h"

namespace catenary {
namespace {

// The most results for each batch entry.
constexpr i64 kMostResults = 8;

bool are_few(llvm::ArrayRef<ContractionLabel> labels) {
  i64 results = 1;
  for (const ContractionLabel& label : labels) {
    if (label.size.symbolic || label.size.size > kMostResults) return false;
    results *= label.size.size;
  }
  return results <= kMostResults;
}

bool is_summed_product(const VerifiedChain& chain, ValueId id) {
  const Value& value = chain.value(id);
  if (value.op != Op::kContract || value.ragged) return false;
  for (const Use& use : value.operands) {
    const ValueInfo& operand = chain.info(use.value);
    const DTypeInfo dtype = dtype_info(operand.type.dtype);
    if (dtype.kind != DTypeKind::kFloat || dtype.bits != 16 || operand.rows) return false;
  }
  const Contraction& contraction = *chain.info(id).contraction;
  const bool one_has_all = contraction.m.empty() || contraction.n.empty();
  return one_has_all && are_few(contraction.m) && are_few(contraction.n);
}

// Writes the chain anew, with a product and a sum for each of them.
class Writer {
 public:
  explicit Writer(const VerifiedChain& chain)
      : chain_(chain), new_id_(chain.num_values(), -1), names_(chain.chain()) {}

  Expected<VerifiedChain> run(std::vector<std::string>& rewritten) {
    const Chain& given = chain_.chain();
    form_ = given;
    form_.values.clear();
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      Value value = given.values[id];
      for (Use& use : value.operands) use.value = new_id_[use.value];
      if (value.ragged) value.ragged->ends = new_id_[value.ragged->ends];
      if (is_summed_product(chain_, id)) {
        rewritten.push_back(fmt::format("'{}' is a sum of products", value.name));
        new_id_[id] = write_sum(std::move(value));
      } else {
        new_id_[id] = form_.append(std::move(value));
      }
    }
    for (Output& output : form_.outputs) {
      output.value = new_id_[output.value];
      if (output.in_place >= 0) output.in_place = new_id_[output.in_place];
    }
    return verify(std::move(form_));
  }

 private:
  // The first operand of the product has all labels, which are those of the sum's terms.
  ValueId write_sum(Value contraction) {
    const std::string_view equation = contraction.equation;
    const size_t comma = equation.find(','), arrow = equation.find("->");
    Use left{contraction.operands[0].value, std::string(equation.substr(0, comma))};
    Use right{contraction.operands[1].value,
              std::string(equation.substr(comma + 1, arrow - comma - 1))};
    if (left.labels.size() < right.labels.size()) std::swap(left, right);
    std::string terms = left.labels + std::string(equation.substr(arrow));
    const ValueId product = form_.elementwise(Op::kMul, {std::move(left), std::move(right)}, {},
                                              names_.make(contraction.name, "_products"));
    Value sum;
    sum.name = contraction.name;
    sum.op = Op::kSum;
    sum.equation = std::move(terms);
    sum.operands = {Use{product, ""}};
    sum.at = contraction.at;
    form_.values[product].at = contraction.at;
    return form_.append(std::move(sum));
  }

  const VerifiedChain& chain_;
  std::vector<ValueId> new_id_;
  FreshNames names_;
  Chain form_;
};

}  // namespace

RewrittenChain summed_products(const VerifiedChain& chain) {
  bool has_work = false;
  for (ValueId id = 0; id < chain.num_values(); ++id) has_work |= is_summed_product(chain, id);
  if (!has_work) return {};
  std::vector<std::string> clauses;
  Expected<VerifiedChain> written = Writer(chain).run(clauses);
  return rewritten_chain(std::move(written), std::move(clauses));
}

}  // namespace catenary
