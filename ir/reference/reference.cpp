// SPDX-License-Identifier: Apache-2.0
// Binds tensors and evaluates the oracle. Anchors (contractions, reductions) are computed in order,
// as whole tensors, or element by element with a memo when only samples are needed; elementwise
// values on demand (reference_program).
#include "ir/reference/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "ir/canonical_form.h"
#include "ir/dense_map.h"
#include "ir/forms.h"
#include "ir/parallel.h"
#include "ir/reference/reference_contract.h"
#include "ir/reference/reference_dequant.h"
#include "ir/reference/reference_interval.h"
#include "ir/reference/reference_program.h"

CATENARY_DENSE_MAP_GROWTH(catenary::i64, catenary::Interval)

namespace catenary {
namespace {

constexpr i64 kChunk = 4096;  // elements per elementwise work item

bool is_anchor(Op op) { return op == Op::kContract || is_reduction(op); }

}  // namespace

class ReferenceState {
 public:
  ReferenceState(const VerifiedChain& chain, std::vector<TensorType> types,
                 std::vector<const void*> data)
      : chain_(chain), types_(std::move(types)), data_(std::move(data)), memo_(types_.size()) {
    for (ValueId id = 0; id < chain.num_values(); ++id) {
      ends_.push_back(ragged_ends(id));
      const Op op = chain.value(id).op;
      const bool program = op != Op::kParameter && op != Op::kDequant;
      programs_.emplace_back(program ? std::make_unique<ReferenceProgram>(chain, types_, data_, id)
                                     : nullptr);
      dequants_.emplace_back(
          op == Op::kDequant ? std::make_unique<DequantTask>(chain, types_, data_, id) : nullptr);
      const bool contract = chain.value(id).op == Op::kContract;
      tasks_.emplace_back(contract ? std::make_unique<ContractionTask>(chain, types_, id, ends_[id])
                                   : nullptr);
    }
  }

  // The same without the elements that have been computed.
  std::unique_ptr<ReferenceState> with_no_elements() const {
    return std::make_unique<ReferenceState>(chain_, types_, data_);
  }

  std::vector<std::vector<Interval>> evaluate(int threads) const {
    Tensors tensors(types_.size());
    for (ValueId id = 0; id < chain_.num_values(); ++id) {
      const Value& value = chain_.value(id);
      if (value.op == Op::kContract) {
        const ContractionOperand left = operand(value.operands[0].value, threads, tensors);
        const ContractionOperand right = operand(value.operands[1].value, threads, tensors);
        tensors[id].resize(num_elements(types_[id]));
        tasks_[id]->evaluate(left, right, threads, tensors[id]);
      } else if (is_reduction(value.op)) {
        std::vector<Interval>& result = tensors[id];
        result.resize(num_elements(types_[id]));
        parallel_for(static_cast<i64>(result.size()), threads, [&](i64 i) {
          result[i] = reduce_element(id, i, [&](ValueId anchor, i64 index) {
            return stored_element(anchor, index, tensors);
          });
        });
      }
    }
    std::vector<std::vector<Interval>> outputs;
    for (const Output& output : chain_.chain().outputs) {
      outputs.push_back(whole(output.value, threads, tensors));
    }
    return outputs;
  }

  Interval output_element(int i, i64 index) {
    return element(chain_.chain().outputs[i].value, index);
  }

 private:
  // Per value: every element in row-major order, if all are needed.
  using Tensors = std::vector<std::vector<Interval>>;

  std::vector<i64> ragged_ends(ValueId id) const {
    std::vector<i64> ends;
    if (!chain_.value(id).ragged) return ends;
    const ValueId parameter = chain_.value(id).ragged->ends;
    for (i64 g = 0; g < types_[parameter].shape[0].size; ++g) {
      ends.push_back(static_cast<i64>(
          load_element(DType::kI32, data_[parameter], g * types_[parameter].strides[0])));
    }
    return ends;
  }

  Interval stored_element(ValueId id, i64 index, const Tensors& tensors) const {
    return dequants_[id] ? dequants_[id]->element(index) : tensors[id][index];
  }

  // All elements of a computed value; its anchors are already computed.
  std::vector<Interval> whole(ValueId id, int threads, const Tensors& tensors) const {
    if (is_anchor(chain_.value(id).op)) return tensors[id];
    const TensorType& type = types_[id];
    std::vector<Interval> result(num_elements(type));
    const i64 size = static_cast<i64>(result.size());
    if (dequants_[id]) {
      parallel_for(size, threads, [&](i64 i) { result[i] = dequants_[id]->element(i); });
      return result;
    }
    parallel_for(ceil_div(size, kChunk), threads, [&](i64 chunk) {
      std::vector<Interval> scratch;
      llvm::SmallVector<i64, 4> at;
      unravel(chunk * kChunk, type.shape, at);
      for (i64 i = chunk * kChunk; i < std::min(size, (chunk + 1) * kChunk); ++i) {
        result[i] = programs_[id]->evaluate(
            at, [&](ValueId anchor, i64 index) { return stored_element(anchor, index, tensors); },
            scratch);
        advance(type.shape, at);
      }
    });
    return result;
  }

  ContractionOperand operand(ValueId id, int threads, Tensors& tensors) const {
    ContractionOperand operand;
    operand.dtype = types_[id].dtype;
    operand.data = data_[id];
    if (chain_.value(id).op == Op::kParameter) return operand;
    if (tensors[id].empty()) tensors[id] = whole(id, threads, tensors);
    operand.computed = tensors[id];
    return operand;
  }

  // Calls `visit` with every term of a reduction's element; returns their number.
  i64 each_term(ValueId id, i64 index, AnchorSource anchor,
                llvm::function_ref<void(const Interval&)> visit) const {
    const ValueInfo& info = chain_.info(id);
    const ValueId source = chain_.value(id).operands[0].value;
    llvm::SmallVector<i64, 4> result_at, summed_at;
    llvm::SmallVector<Dim, 4> summed_shape;
    unravel(index, types_[id].shape, result_at);
    llvm::SmallVector<i64, 4> at(types_[source].rank(), 0);
    for (size_t d = 0; d < result_at.size(); ++d) {
      if (info.operand_dims[0][d] >= 0) at[info.operand_dims[0][d]] = result_at[d];
    }
    i64 terms = 1;
    i64 first_row = 0;  // of the group, in the dimension that is divided
    for (int d : info.summed) {
      summed_shape.push_back(types_[source].shape[d]);
      if (info.grouped_terms && d == info.grouped_terms->dim) {
        const i64 group = result_at[info.grouped_terms->group];
        first_row = group > 0 ? ends_[id][group - 1] : 0;
        summed_shape.back() = {ends_[id][group] - first_row, false};
      }
      terms *= summed_shape.back().size;
    }
    summed_at.assign(summed_shape.size(), 0);
    std::vector<Interval> scratch;
    for (i64 t = 0; t < terms; ++t) {
      for (size_t d = 0; d < summed_at.size(); ++d) at[info.summed[d]] = summed_at[d];
      if (info.grouped_terms) at[info.grouped_terms->dim] += first_row;
      visit(program_element(source, at, anchor, scratch));
      advance(summed_shape, summed_at);
    }
    return terms;
  }

  Interval reduce_element(ValueId id, i64 index, AnchorSource anchor) const {
    if (chain_.value(id).op == Op::kReduceMax) {
      Interval largest{-std::numeric_limits<double>::infinity(), 0};
      each_term(id, index, anchor, [&](const Interval& x) {
        largest = apply_op(Op::kMax, {largest, x}, {0, 0});
      });
      return largest;
    }
    double sum = 0, magnitudes = 0, errors = 0;  // magnitudes: of finite terms
    bool integers = true;
    const i64 terms = each_term(id, index, anchor, [&](const Interval& x) {
      sum += x.value;
      if (std::isfinite(x.value)) magnitudes += std::fabs(x.value);
      errors += x.error;
      integers = integers && x.error == 0 && x.value == std::nearbyint(x.value);
    });
    return sum_interval(sum, magnitudes, errors, terms, integers);
  }

  Interval program_element(ValueId id, llvm::ArrayRef<i64> at, AnchorSource anchor,
                           std::vector<Interval>& scratch) const {
    if (programs_[id]) return programs_[id]->evaluate(at, anchor, scratch);
    i64 offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * types_[id].strides[d];
    return {load_element(types_[id].dtype, data_[id], offset), 0};
  }

  // One element of a computed value; computes anchors on demand.
  Interval element(ValueId id, i64 index) {
    if (dequants_[id]) return dequants_[id]->element(index);
    llvm::SmallVector<i64, 4> at;
    unravel(index, types_[id].shape, at);
    std::vector<Interval> scratch;
    return program_element(
        id, at, [&](ValueId anchor, i64 i) { return anchor_element(anchor, i); }, scratch);
  }

  Interval anchor_element(ValueId id, i64 index) {
    if (dequants_[id]) return dequants_[id]->element(index);
    const auto found = memo_[id].find(index);
    if (found != memo_[id].end()) return found->second;
    Interval result;
    const Value& value = chain_.value(id);
    if (is_reduction(value.op)) {
      result = reduce_element(id, index, [&](ValueId a, i64 i) { return anchor_element(a, i); });
    } else {
      result = tasks_[id]->element(index, [&](int side, i64 offset) {
        const ValueId operand = value.operands[side].value;
        if (chain_.value(operand).op != Op::kParameter) return element(operand, offset);
        return Interval{load_element(types_[operand].dtype, data_[operand], offset), 0};
      });
    }
    memo_[id].try_emplace(index, result);
    return result;
  }

  const VerifiedChain& chain_;
  std::vector<TensorType> types_;       // per value: no symbol; strides of its storage
  std::vector<const void*> data_;       // per value; null unless a parameter
  std::vector<std::vector<i64>> ends_;  // per value with a ragged label
  std::vector<std::unique_ptr<ReferenceProgram>> programs_;  // per computed value
  std::vector<std::unique_ptr<DequantTask>> dequants_;       // per dequant
  std::vector<std::unique_ptr<ContractionTask>> tasks_;      // per contraction
  std::vector<llvm::DenseMap<i64, Interval>> memo_;          // per anchor
};

namespace {

Error check_binding(const Value& value, const TensorType& declared, const HostTensor& bound,
                    TensorType& type) {
  const TensorType& given = bound.type;
  if (given.dtype != declared.dtype || given.shape != declared.shape ||
      given.packed != declared.packed ||
      (!given.strides.empty() && given.strides.size() != given.shape.size())) {
    TensorType plain = declared;
    plain.strides.clear();
    plain.align = 16;
    return make_error(ErrorCode::kInvalidArgument,
                      "parameter '{}' is bound to a tensor {}: bind a tensor {}", value.name,
                      to_string(given), to_string(plain));
  }
  type = given;
  if (type.strides.empty()) type.strides = contiguous_strides(type.shape);
  if (!bound.data && num_elements(type) > 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "parameter '{}' is bound to a null pointer: give the address of its {} "
                      "elements",
                      value.name, num_elements(type));
  }
  return Error::success();
}

Error check_symbol(const Chain& chain, i64 symbol) {
  if (!chain.symbol || (symbol >= chain.symbol->lo && symbol <= chain.symbol->hi)) {
    return Error::success();
  }
  return make_error(ErrorCode::kInvalidArgument, "symbol '{}' is {}: give a size of {} to {}",
                    chain.symbol->name, symbol, chain.symbol->lo, chain.symbol->hi);
}

// Ends ascend and stay within the size of the ragged label.
Error check_ends(const VerifiedChain& chain, ValueId id, i64 symbol,
                 llvm::ArrayRef<TensorType> types, llvm::ArrayRef<const void*> data) {
  const RaggedLabel& ragged = *chain.value(id).ragged;
  const Dim divided = ragged_dim(chain, id);
  const i64 size = divided.symbolic ? symbol : divided.size;
  const TensorType& type = types[ragged.ends];
  i64 before = 0;
  for (i64 g = 0; g < type.shape[0].size; ++g) {
    const i64 end =
        static_cast<i64>(load_element(DType::kI32, data[ragged.ends], g * type.strides[0]));
    if (end < before || end > size) {
      return make_error(ErrorCode::kInvalidArgument,
                        "entry {} of ends '{}' is {}: ends must ascend and be in {} to {}", g,
                        chain.value(ragged.ends).name, end, before, size);
    }
    before = end;
  }
  return Error::success();
}

// The bindings with the dimensions of a form, which may have several as one (canonical_form.h).
Expected<ReferenceInputs> bound_to(const VerifiedChain& form, const ReferenceInputs& inputs) {
  ReferenceInputs bound = inputs;
  for (size_t i = 0; i < bound.parameters.size(); ++i) {
    TensorType& type = bound.parameters[i].type;
    const ValueId id = form.parameters()[i];
    const TensorType declared = with_symbol(form.info(id).type, inputs.symbol);
    if (type.shape == declared.shape) continue;
    if (type.strides.empty()) type.strides = contiguous_strides(type.shape);
    const auto merged = with_merged_dimensions(type, declared.shape);
    if (!merged) {
      return make_error(ErrorCode::kInvalidArgument,
                        "parameter '{}' is bound to a tensor {}, in whose memory dimensions do not "
                        "follow each other as in the chain: bind one with the chain's strides",
                        form.value(id).name, to_string(type));
    }
    type = *merged;
  }
  return bound;
}

Expected<std::unique_ptr<ReferenceState>> make_state(const VerifiedChain& chain,
                                                     const ReferenceInputs& inputs) {
  std::vector<TensorType> types;
  std::vector<const void*> data(chain.num_values(), nullptr);
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    types.push_back(with_symbol(chain.info(id).type, inputs.symbol));
    types.back().strides = contiguous_strides(types.back().shape);
  }
  for (size_t i = 0; i < inputs.parameters.size(); ++i) {
    const ValueId id = chain.parameters()[i];
    const TensorType declared = types[id];
    if (Error e = check_binding(chain.value(id), declared, inputs.parameters[i], types[id])) {
      return e;
    }
    data[id] = inputs.parameters[i].data;
  }
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    if (!chain.value(id).ragged) continue;
    if (Error e = check_ends(chain, id, inputs.symbol, types, data)) return e;
  }
  return std::make_unique<ReferenceState>(chain, std::move(types), std::move(data));
}

}  // namespace

Reference::Reference() = default;
Reference::Reference(Reference&&) noexcept = default;
Reference& Reference::operator=(Reference&&) noexcept = default;
Reference::~Reference() = default;

Expected<Reference> Reference::create(const VerifiedChain& chain, const ReferenceInputs& inputs) {
  if (inputs.parameters.size() != chain.parameters().size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "chain '{}' has {} parameters but {} tensors are bound: bind one for each",
                      chain.chain().name, chain.parameters().size(), inputs.parameters.size());
  }
  if (Error e = check_symbol(chain.chain(), inputs.symbol)) return e;
  Reference reference;
  auto state = make_state(chain, inputs);
  if (!state) return state.takeError();
  reference.state_ = std::move(*state);
  const Chain& given = chain.chain();
  if (!given.words.algebraic_norms && !given.words.rounded_weights) return reference;
  const ChainForms forms =
      other_forms(chain, given.words.algebraic_norms, given.words.rounded_weights);
  for (const ChainForm& form : forms.all) {
    auto bound = bound_to(*form.chain, inputs);
    if (!bound) return bound.takeError();
    auto form_state = make_state(*form.chain, *bound);
    if (!form_state) return form_state.takeError();
    reference.forms_.push_back({form.chain, std::move(*form_state)});
  }
  return reference;
}

std::vector<std::vector<Interval>> Reference::evaluate(int threads) const {
  std::vector<std::vector<Interval>> outputs = state_->evaluate(threads);
  for (const Form& form : forms_) {
    const std::vector<std::vector<Interval>> other = form.state->evaluate(threads);
    for (size_t i = 0; i < outputs.size(); ++i) {
      for (size_t e = 0; e < outputs[i].size(); ++e)
        outputs[i][e] = either_interval(outputs[i][e], other[i][e]);
    }
  }
  return outputs;
}

Interval Reference::output_element(int i, i64 index) {
  Interval interval = state_->output_element(i, index);
  for (const Form& form : forms_)
    interval = either_interval(interval, form.state->output_element(i, index));
  return interval;
}

Reference Reference::with_no_elements() const {
  Reference reference;
  reference.state_ = state_->with_no_elements();
  for (const Form& form : forms_)
    reference.forms_.push_back({form.chain, form.state->with_no_elements()});
  return reference;
}

std::vector<Interval> Reference::output_elements(int i, llvm::ArrayRef<i64> indices,
                                                 int threads) const {
  const i64 count = static_cast<i64>(indices.size());
  const i64 cores = threads > 0 ? threads : std::thread::hardware_concurrency();
  const i64 shares = std::clamp<i64>(cores, 1, std::max<i64>(count, 1));
  std::vector<Interval> elements(indices.size());
  parallel_for(shares, threads, [&](i64 share) {
    Reference reference = with_no_elements();
    for (i64 e = count * share / shares; e < count * (share + 1) / shares; ++e)
      elements[e] = reference.output_element(i, indices[e]);
  });
  return elements;
}

namespace {

// fp8 sums keep 14 bits: fewer terms of integers in [-2, 2] than 16-bit ones are exact.
bool is_exact_contraction(const VerifiedChain& chain, ValueId id) {
  const auto& contraction = chain.info(id).contraction;
  if (!contraction) return true;
  i64 terms = 1;
  for (const ContractionLabel& label : contraction->k) terms *= label.size.size;
  const SumRule rule = sum_rule(chain, id);
  const bool scaled = rule == SumRule::kFp8Scaled;
  if (!scaled && rule != SumRule::kFp8 && rule != SumRule::kFp8Fast) return true;
  const double magnitude = scaled ? 4 : 2;
  return is_exact_sum(rule, terms, magnitude, magnitude);
}

}  // namespace

bool chain_is_exact(const VerifiedChain& chain) {
  if (chain.chain().words.rounded_weights && !other_forms(chain, false, true).all.empty())
    return false;
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    if (!is_exact_contraction(chain, id)) return false;
  }
  for (const Value& value : chain.chain().values) {
    if (!op_info(value.op).exact) return false;
    const bool f32_operands =
        value.op == Op::kContract && llvm::all_of(value.operands, [&](const Use& use) {
          return chain.info(use.value).type.dtype == DType::kF32 &&
                 chain.value(use.value).op != Op::kDequant;
        });
    for (const Use& use : value.operands) {
      const Op source = chain.value(use.value).op;
      if (source == Op::kCast) return false;
      if (f32_operands && !value.true_f32 && source != Op::kParameter) return false;
    }
    if (value.op == Op::kConstant && value.attributes[0] != std::nearbyint(value.attributes[0])) {
      return false;
    }
    if (value.op == Op::kPow && value.attributes[0] < 0) return false;
    if (value.op == Op::kClamp) {
      for (double bound : value.attributes) {
        if (bound != std::nearbyint(bound)) return false;
      }
    }
  }
  return true;
}

}  // namespace catenary
