// SPDX-License-Identifier: Apache-2.0
#include "ir/canonical_form.h"

#include "ir/dimension_classes.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

bool is_16bit_float(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

// Is the value a cast of the elements as they lie?
bool is_plain_cast(const VerifiedChain& chain, ValueId id) {
  const Value& value = chain.value(id);
  if (value.op != Op::kCast || value.ragged) return false;
  const ValueInfo& info = chain.info(id);
  if (info.type.shape != chain.info(value.operands[0].value).type.shape) return false;
  for (int d = 0; d < info.type.rank(); ++d) {
    if (info.operand_dims[0][d] != d) return false;
  }
  return info.operand_group.empty() || info.operand_group[0] < 0;
}

// May `user` read what `cast`, the value `id` of the form, casts?
bool reads_through(const VerifiedChain& chain, const Value& user, ValueId id, const Value& cast) {
  if (!is_plain_cast(chain, id)) return false;
  const DType from = chain.info(cast.operands[0].value).type.dtype;
  const DType to = chain.info(id).type.dtype;
  if (from == to) return true;
  const bool widens = is_elementwise(user.op) || is_reduction(user.op) || user.op == Op::kCast;
  return widens && is_16bit_float(from) && to == DType::kF32;
}

// The form without values that nothing reads. `clauses`: what to say where a value of this name is
// one of them.
RewrittenChain finished(Chain form, llvm::ArrayRef<std::pair<std::string, std::string>> clauses) {
  drop_unused(form);
  std::vector<std::string> dropped;
  for (const auto& [name, clause] : clauses) {
    if (llvm::none_of(form.values, [&](const Value& value) { return value.name == name; }))
      dropped.push_back(clause);
  }
  return rewritten_chain(verify(std::move(form)), std::move(dropped));
}

// The chain without casts that change nothing.
RewrittenChain without_casts(const VerifiedChain& chain) {
  Chain form = chain.chain();
  std::vector<bool> passed(chain.num_values());
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    Value& user = form.values[id];
    for (Use& use : user.operands) {
      while (reads_through(chain, user, use.value, form.values[use.value])) {
        passed[use.value] = true;
        if (use.labels.empty() && (is_elementwise(user.op) || user.op == Op::kCast))
          use.labels = chain.info(use.value).labels;
        use.value = form.values[use.value].operands[0].value;
      }
    }
  }
  if (llvm::none_of(passed, [](bool it) { return it; })) return {};
  std::vector<std::pair<std::string, std::string>> clauses;
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    const std::string& name = chain.value(id).name;
    if (passed[id])
      clauses.push_back({name, fmt::format("'{}' is a cast that changes nothing", name)});
  }
  return finished(std::move(form), clauses);
}

// Do two values have the same elements? Their operands are compared as they are.
bool is_same_value(const Value& a, const Value& b) {
  if (a.op != b.op || a.operands != b.operands) return false;
  Value renamed = b;
  renamed.name = a.name;
  return a == renamed;
}

bool is_anchor(Op op) { return op == Op::kContract || is_reduction(op); }

// The chain whose products and reductions are computed once each, of operands that are equal too.
// What only elementwise ops read stays: a kernel may compute it again for less than a load.
RewrittenChain without_repetition(const VerifiedChain& chain) {
  Chain form = chain.chain();
  std::vector<Value> keys;  // with the first of equal operands in place of each
  std::vector<ValueId> first;
  std::vector<std::pair<std::string, std::string>> clauses;
  bool changed = false;
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    Value& value = form.values[id];
    Value key = value;
    for (Use& use : key.operands) use.value = first[use.value];
    for (size_t i = 0; i < key.operands.size(); ++i) {
      ValueId& operand = value.operands[i].value;
      const bool is_read = is_anchor(value.op) || is_anchor(form.values[operand].op);
      if (!is_read || operand == key.operands[i].value) continue;
      operand = key.operands[i].value;
      changed = true;
    }
    const auto same = llvm::find_if(keys, [&](const Value& k) { return is_same_value(k, key); });
    const bool is_new = same == keys.end() || value.op == Op::kParameter;
    first.push_back(is_new ? id : static_cast<ValueId>(same - keys.begin()));
    keys.push_back(std::move(key));
    if (is_new || !is_anchor(value.op)) continue;
    clauses.push_back({value.name, fmt::format("'{}' is computed once, as '{}'", value.name,
                                               form.values[first[id]].name)});
  }
  return changed ? finished(std::move(form), clauses) : RewrittenChain();
}

// Which classes of dimensions are merged into the one before them.
class Merger {
 public:
  explicit Merger(const VerifiedChain& chain)
      : chain_(chain),
        classes_(chain),
        next_(classes_.size(), kUnseen),
        previous_(classes_.size(), kUnseen),
        apart_(grouped_classes(chain, classes_)),
        inner_(classes_.size()) {
    for (ValueId id = 0; id < chain.num_values(); ++id) {
      follow(id);
      keep_apart(id);
    }
    for (ValueId id : chain.parameters()) keep_gaps(id, chain.info(id).type);
    for (size_t i = 0; i < outputs().size(); ++i) {
      keep_gaps(outputs()[i].value, chain.output_type(static_cast<int>(i)));
      if (outputs()[i].in_place >= 0) keep_unlike(outputs()[i].value, outputs()[i].in_place);
    }
    for (ValueId id = 0; id < chain.num_values(); ++id) merge(id);
  }

  RewrittenChain run() const {
    if (llvm::none_of(inner_, [](bool it) { return it; })) return {};
    Chain form = chain_.chain();
    std::vector<std::string> merged;
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      Value& value = form.values[id];
      const bool named = value.op == Op::kParameter || is_output(id);
      if (named && has_inner(id)) merged.push_back(fmt::format("'{}'", value.name));
      if (value.op == Op::kParameter) {
        value.type = merged_type(id, chain_.info(id).type);
      } else {
        relabel(id, value);
      }
    }
    for (size_t i = 0; i < form.outputs.size(); ++i) {
      Output& output = form.outputs[i];
      if (output.strides.empty()) continue;
      output.strides = merged_type(output.value, chain_.output_type(static_cast<int>(i))).strides;
    }
    std::vector<std::string> clauses{
        fmt::format("dimensions that always follow each other are one, those of {}",
                    merged.empty() ? "values between" : fmt::to_string(fmt::join(merged, ", ")))};
    return rewritten_chain(verify(std::move(form)), std::move(clauses));
  }

 private:
  static constexpr int kUnseen = -1;
  static constexpr int kNone = -2;  // nothing, or not the same everywhere

  const std::vector<Output>& outputs() const { return chain_.chain().outputs; }
  const TensorType& type(ValueId id) const { return chain_.info(id).type; }
  bool is_output(ValueId id) const {
    return llvm::any_of(outputs(), [&](const Output& output) { return output.value == id; });
  }
  void keep(ValueId id, int dim) {
    if (dim >= 0) apart_[classes_.of(id, dim)] = true;
  }

  // Notes which classes are beside each other in the value.
  void follow(ValueId id) {
    const int rank = type(id).rank();
    const auto note = [](int& known, int given) {
      known = known == kUnseen || known == given ? given : kNone;
    };
    for (int d = 0; d < rank; ++d) {
      const int own = classes_.of(id, d);
      note(next_[own], d + 1 < rank ? classes_.of(id, d + 1) : kNone);
      note(previous_[own], d > 0 ? classes_.of(id, d - 1) : kNone);
    }
  }

  // An output has the dimensions of the input whose memory it takes.
  void keep_unlike(ValueId output, ValueId input) {
    for (int d = 0; d < type(input).rank(); ++d) {
      if (classes_.of(output, d) == classes_.of(input, d)) continue;
      keep(output, d);
      keep(input, d);
    }
  }

  // Dimensions of size 1 that are broadcast stay.
  void keep_apart(ValueId id) {
    const Value& value = chain_.value(id);
    if (!is_elementwise(value.op) && value.op != Op::kCast) return;
    for (size_t o = 0; o < value.operands.size(); ++o)
      keep_broadcast(id, value.operands[o].value, chain_.info(id).operand_dims[o]);
  }

  void keep_all(ValueId id) {
    for (int d = 0; d < type(id).rank(); ++d) keep(id, d);
  }

  // An operand with dimensions of size 1 that are broadcast is aligned by its rank: it stays, and
  // so do the dimensions that it is broadcast along.
  void keep_broadcast(ValueId id, ValueId operand, llvm::ArrayRef<int> dims) {
    const int rank = static_cast<int>(dims.size());
    const auto is_mapped = [&](int d) {
      return dims[d] >= 0 && type(operand).shape[dims[d]] == type(id).shape[d];
    };
    int mapped = 0;
    for (int d = 0; d < rank; ++d) mapped += is_mapped(d);
    if (mapped == type(operand).rank()) return;
    keep_all(operand);
    for (int d = 0; d < rank; ++d) {
      if (!is_mapped(d)) keep(id, d);
    }
  }

  // Dimensions that do not follow each other in memory stay. The stride of a size of 1 is not used.
  void keep_gaps(ValueId id, const TensorType& in_memory) {
    int outer = -1;
    for (int d = 0; d < in_memory.rank(); ++d) {
      const i64 size = in_memory.shape[d].size;
      if (size == 1) continue;
      const bool follows = outer < 0 || in_memory.strides[outer] == in_memory.strides[d] * size;
      if (!follows) next_[classes_.of(id, d - 1)] = kNone;
      outer = d;
    }
  }

  // Merges what follows each dimension of the value, as long as the product is a size.
  void merge(ValueId id) {
    std::optional<Dim> whole;
    for (int d = 0; d < type(id).rank(); ++d) {
      const Dim dim = type(id).shape[d];
      const int own = classes_.of(id, d);
      const bool follows = whole && may_follow(classes_.of(id, d - 1), own);
      inner_[own] = follows && is_size(*whole, dim);
      whole = inner_[own] ? Dim{whole->size * dim.size, whole->symbolic || dim.symbolic} : dim;
    }
  }

  // May the two be one? A kernel's coordinates have 32 bits.
  static bool is_size(const Dim& outer, const Dim& inner) {
    constexpr i64 kMost = i64{1} << 31;
    if (outer.symbolic || inner.symbolic) return (outer.symbolic ? inner : outer) == Dim{1, false};
    return inner.size == 0 || outer.size <= kMost / inner.size;
  }

  bool may_follow(int before, int own) const {
    return before != own && next_[before] == own && previous_[own] == before && !apart_[before] &&
           !apart_[own];
  }

  bool is_inner(ValueId id, int dim) const { return inner_[classes_.of(id, dim)]; }
  bool has_inner(ValueId id) const {
    for (int d = 0; d < type(id).rank(); ++d) {
      if (is_inner(id, d)) return true;
    }
    return false;
  }

  TensorType merged_type(ValueId id, const TensorType& given) const {
    TensorType merged = given;
    merged.shape.clear();
    merged.strides.clear();
    for (int d = 0; d < given.rank(); ++d) {
      const Dim dim = given.shape[d];
      if (!is_inner(id, d)) {
        merged.shape.push_back(dim);
        merged.strides.push_back(given.strides[d]);
        continue;
      }
      Dim& whole = merged.shape.back();
      if (dim.size != 1 || dim.symbolic) merged.strides.back() = given.strides[d];
      whole = Dim{whole.size * dim.size, whole.symbolic || dim.symbolic};
    }
    return merged;
  }

  // The labels of the dimensions that a value keeps. `labels`: one for each dimension, or none.
  std::string merged_labels(ValueId id, std::string_view labels) const {
    std::string kept;
    for (size_t d = 0; d < labels.size(); ++d) {
      if (!is_inner(id, static_cast<int>(d))) kept += labels[d];
    }
    return kept;
  }

  void relabel(ValueId id, Value& value) const {
    for (Use& use : value.operands) use.labels = merged_labels(use.value, use.labels);
    if (value.equation.empty()) return;
    const std::string_view equation = value.equation;
    const size_t arrow = equation.find("->");
    std::string_view left = equation.substr(0, arrow);
    std::string merged;
    for (size_t o = 0; o < value.operands.size(); ++o) {
      const size_t comma = std::min(left.find(','), left.size());
      if (o > 0) merged += ',';
      merged += merged_labels(value.operands[o].value, left.substr(0, comma));
      left.remove_prefix(std::min(comma + 1, left.size()));
    }
    value.equation = merged + "->" + merged_labels(id, equation.substr(arrow + 2));
  }

  const VerifiedChain& chain_;
  DimensionClasses classes_;
  std::vector<int> next_;  // the class that follows, by class
  std::vector<int> previous_;
  std::vector<bool> apart_;
  std::vector<bool> inner_;  // merged into the one before
};

}  // namespace

RewrittenChain canonical_form(const VerifiedChain& chain) {
  RewrittenChain form;
  const auto then = [&](auto rewrite) {
    RewrittenChain next = rewrite(form.chain ? *form.chain : chain);
    if (!next.chain) return;
    form.chain = std::move(next.chain);
    llvm::append_range(form.rewritten, next.rewritten);
  };
  then(without_casts);
  then(without_repetition);
  then([](const VerifiedChain& given) { return Merger(given).run(); });
  return form;
}

std::optional<TensorType> with_merged_dimensions(const TensorType& type,
                                                 llvm::ArrayRef<Dim> shape) {
  TensorType merged = type;
  merged.shape.assign(shape.begin(), shape.end());
  merged.strides = contiguous_strides(merged.shape);
  if (num_elements(type) == 0)
    return num_elements(merged) == 0 ? std::optional(merged) : std::nullopt;
  const int rank = type.rank();
  int d = 0;
  for (int m = 0; m < merged.rank(); ++m) {
    i64 size = 1;
    // Sizes of 1 after the last dimension that this one needs are its own as long as more are left
    // than others need.
    const auto takes = [&] {
      return d < rank && (size != shape[m].size ||
                          (type.shape[d].size == 1 && rank - d > merged.rank() - m - 1));
    };
    for (bool first = true; takes(); first = false, ++d) {
      const i64 inner = type.shape[d].size, stride = type.strides[d];
      const bool follows = first || size == 1 || inner == 1 || merged.strides[m] == stride * inner;
      if (!follows) return std::nullopt;
      if (first || inner != 1) merged.strides[m] = stride;
      size *= inner;
    }
    if (size != shape[m].size) return std::nullopt;
  }
  return d == rank ? std::optional(merged) : std::nullopt;
}

}  // namespace catenary
