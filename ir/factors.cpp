// SPDX-License-Identifier: Apache-2.0
#include "ir/factors.h"

#include <algorithm>
#include <numeric>

#include "ir/dimension_classes.h"
#include "ir/error.h"
#include "llvm/ADT/SmallSet.h"

namespace catenary {
namespace {

using Set = llvm::SmallSet<int, 4>;

class Finder {
 public:
  explicit Finder(const VerifiedChain& chain)
      : chain_(chain),
        classes_(chain),
        whole_(grouped_classes(chain, classes_)),
        sums_(chain.num_values()) {}

  Factors run() {
    for (ValueId id = 0; id < chain_.num_values(); ++id) add_sums(id);
    for (ValueId id = 0; id < chain_.num_values(); ++id) keep_repeated(id);
    keep_gaps();
    keep_symbols();
    return result();
  }

 private:
  int factor_of(ValueId id, int dim) const { return classes_.of(id, dim); }
  void keep(int factor) { whole_[factor] = true; }

  bool has(ValueId id, int factor) const {
    for (int d = 0; d < chain_.info(id).type.rank(); ++d) {
      if (factor_of(id, d) == factor) return true;
    }
    return false;
  }

  // What a value sums over, as far as it is linear in that sum; where it is not, the factor stays
  // whole.
  void add_sums(ValueId id) {
    const Value& value = chain_.value(id);
    const ValueInfo& info = chain_.info(id);
    for (size_t o = 0; o < value.operands.size(); ++o) {
      for (const int factor : sums_[value.operands[o].value]) {
        if (!is_linear(value, o, factor)) keep(factor);
        sums_[id].insert(factor);
      }
    }
    if (info.contraction) {
      for (const ContractionLabel& label : info.contraction->k) {
        sums_[id].insert(factor_of(value.operands[0].value, label.left));
      }
    }
    for (const int dim : info.summed) {
      const int factor = factor_of(value.operands[0].value, dim);
      if (value.op != Op::kSum) keep(factor);
      sums_[id].insert(factor);
    }
    for (const int factor : sums_[id]) {
      if (has(id, factor)) keep(factor);
    }
  }

  // Whether the value is the sum of its parts where operand `o` is a sum over `factor`.
  bool is_linear(const Value& value, size_t o, int factor) const {
    switch (value.op) {
      case Op::kCast:
      case Op::kNeg:
      case Op::kSum:
        return true;
      case Op::kAdd:
      case Op::kSub:
        return sums_[value.operands[1 - o].value].count(factor) > 0;
      case Op::kContract:
      case Op::kMul:
      case Op::kScale:
        return is_constant_over(value.operands[1 - o].value, factor);
      case Op::kDiv:
        return o == 0 && is_constant_over(value.operands[1].value, factor);
      default:
        return false;
    }
  }
  bool is_constant_over(ValueId id, int factor) const {
    return sums_[id].count(factor) == 0 && !has(id, factor);
  }

  void keep_repeated(ValueId id) {
    Set seen;
    for (int d = 0; d < chain_.info(id).type.rank(); ++d) {
      if (!seen.insert(factor_of(id, d)).second) keep(factor_of(id, d));
    }
  }

  // A tensor with gaps, or with elements that have several indices, has no parts without them.
  void keep_gaps() {
    const auto check = [&](ValueId id, const TensorType& type) {
      if (span_elements(type) == num_elements(type)) return;
      for (int d = 0; d < type.rank(); ++d) keep(factor_of(id, d));
    };
    for (const ValueId id : chain_.parameters()) check(id, chain_.info(id).type);
    for (size_t i = 0; i < chain_.chain().outputs.size(); ++i) {
      check(chain_.chain().outputs[i].value, chain_.output_type(static_cast<int>(i)));
    }
  }

  // The chain has one symbol, so all symbolic dimensions are divided or none.
  void keep_symbols() {
    Set symbolic;
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      for (int d = 0; d < chain_.info(id).type.rank(); ++d) {
        if (chain_.info(id).type.shape[d].symbolic) symbolic.insert(factor_of(id, d));
      }
    }
    if (symbolic.size() < 2) return;
    for (const int factor : symbolic) keep(factor);
  }

  int number(int factor, Factors& factors) {
    const auto it = std::find(numbered_.begin(), numbered_.end(), factor);
    if (it != numbered_.end()) return static_cast<int>(it - numbered_.begin());
    numbered_.push_back(factor);
    factors.divides.push_back(!whole_[factor]);
    return static_cast<int>(numbered_.size()) - 1;
  }

  Factors result() {
    Factors factors;
    std::vector<ValueId> values(chain_.parameters().begin(), chain_.parameters().end());
    for (const Output& output : chain_.chain().outputs) values.push_back(output.value);
    for (const ValueId id : values) {
      llvm::SmallVector<int, 4> dims;
      for (int d = 0; d < chain_.info(id).type.rank(); ++d) {
        dims.push_back(number(factor_of(id, d), factors));
      }
      factors.operands.push_back(std::move(dims));
    }
    for (const Output& output : chain_.chain().outputs) {
      llvm::SmallVector<int, 2> sums;
      for (const int factor : sums_[output.value]) {
        if (!whole_[factor] && llvm::is_contained(numbered_, factor))
          sums.push_back(number(factor, factors));
      }
      llvm::sort(sums);
      factors.sums.push_back(std::move(sums));
    }
    return factors;
  }

  const VerifiedChain& chain_;
  DimensionClasses classes_;  // a class is a factor
  std::vector<bool> whole_;   // by factor: does not divide
  std::vector<Set> sums_;     // by value
  std::vector<int> numbered_;
};

// Dense strides in the order of dimensions of `type`.
void set_dense(TensorType& type) {
  llvm::SmallVector<int, 4> order(type.shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return type.strides[a] > type.strides[b]; });
  i64 next = 1;
  for (const int d : llvm::reverse(order)) {
    type.strides[d] = next;
    next *= std::max<i64>(type.shape[d].size, 1);
  }
}

Error divide(TensorType& type, llvm::ArrayRef<int> factors, llvm::ArrayRef<i64> parts) {
  bool changed = false;
  for (size_t d = 0; d < factors.size(); ++d) {
    const i64 count = parts[factors[d]];
    if (type.shape[d].size % count != 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        "a dimension of {} has no {} equal parts: pass a divisor of the size",
                        type.shape[d].size, count);
    }
    type.shape[d].size /= count;
    changed |= count > 1;
  }
  if (changed) set_dense(type);
  return Error::success();
}

Error check_parts(const Factors& factors, llvm::ArrayRef<i64> parts) {
  if (parts.size() != factors.divides.size()) {
    return make_error(ErrorCode::kInvalidArgument, "the chain has {} factors, got {} numbers",
                      factors.divides.size(), parts.size());
  }
  for (size_t f = 0; f < parts.size(); ++f) {
    if (parts[f] >= 1 && (parts[f] == 1 || factors.divides[f])) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "factor {} cannot be divided into {} parts: pass 1, or a number of 1 or more "
                      "for a factor that divides",
                      f, parts[f]);
  }
  return Error::success();
}

}  // namespace

Factors find_factors(const VerifiedChain& chain) { return Finder(chain).run(); }

Expected<Chain> shard(const VerifiedChain& chain, llvm::ArrayRef<i64> parts) {
  const Factors factors = find_factors(chain);
  if (Error error = check_parts(factors, parts)) return error;
  Chain made = chain.chain();
  const size_t parameters = chain.parameters().size();
  for (size_t p = 0; p < factors.operands.size(); ++p) {
    const bool is_output = p >= parameters;
    const size_t o = p - parameters;
    TensorType type =
        is_output ? chain.output_type(static_cast<int>(o)) : chain.info(chain.parameters()[p]).type;
    for (int d = 0; d < type.rank(); ++d) {
      const i64 count = parts[factors.operands[p][d]];
      if (!type.shape[d].symbolic || count == 1) continue;
      made.symbol->lo = (chain.chain().symbol->lo + count - 1) / count;
      made.symbol->hi = chain.chain().symbol->hi / count;
    }
    if (Error error = divide(type, factors.operands[p], parts)) return error;
    if (is_output) {
      if (!made.outputs[o].strides.empty()) made.outputs[o].strides = type.strides;
    } else {
      made.values[chain.parameters()[p]].type = type;
    }
  }
  return made;
}

}  // namespace catenary
