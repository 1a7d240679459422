// SPDX-License-Identifier: Apache-2.0
// verify(): the rules of a whole chain, in this order: limits, names, the symbol, each value by the
// rules of its op (verify_types, verify_contract, verify_elementwise), outputs, unused values.
#include "ir/verify/verify.h"

#include <cmath>
#include <map>

#include "ir/counted.h"
#include "ir/default_numerics.h"
#include "ir/names.h"
#include "ir/verify/verify_parts.h"
#include "llvm/ADT/StringSet.h"

namespace catenary {
namespace {

constexpr int kMaxOutputs = 32;
constexpr i64 kMaxSymbol = i64{1} << 31;

Error check_counts(const Chain& chain) {
  const i64 parameters =
      llvm::count_if(chain.values, [](const Value& v) { return v.op == Op::kParameter; });
  const i64 ops = static_cast<i64>(chain.values.size()) - parameters;
  const i64 outputs = static_cast<i64>(chain.outputs.size());
  const auto over = [&](i64 count, int limit, std::string_view what) {
    return make_error(ErrorCode::kResourceLimit,
                      "chain {} has {} {}: split it into chains of at most {}", quoted(chain.name),
                      count, what, limit);
  };
  if (parameters > kMaxParameters) return over(parameters, kMaxParameters, "parameters");
  if (ops > kMaxOps) return over(ops, kMaxOps, "operations");
  if (outputs > kMaxOutputs) return over(outputs, kMaxOutputs, "outputs");
  return Error::success();
}

Error check_limits(const Chain& chain) {
  if (Error e = check_counts(chain)) return e;
  if (chain.outputs.empty()) {
    return make_error(ErrorCode::kInvalidChain,
                      "chain {} returns nothing: return a value, as in 'return y: bf16'",
                      quoted(chain.name));
  }
  return Error::success();
}

Error check_name(std::string_view name, std::string_view what, Location at,
                 llvm::StringSet<>& taken) {
  if (!is_identifier(name)) {
    return make_error_at(at, ErrorCode::kInvalidChain,
                         "{} {} is not an identifier: use letters, digits and '_', no digit first",
                         what, quoted(name));
  }
  if (name.size() > kMaxNameBytes) {
    return make_error_at(at, ErrorCode::kResourceLimit,
                         "{} {} has {} bytes: shorten it to at most {}", what, quoted(name),
                         name.size(), kMaxNameBytes);
  }
  if (!taken.insert(llvm::StringRef(name.data(), name.size())).second) {
    return make_error_at(at, ErrorCode::kInvalidChain, "{} {} is taken: choose another", what,
                         quoted(name));
  }
  return Error::success();
}

Error check_names(const Chain& chain) {
  llvm::StringSet<> taken;
  llvm::StringSet<> chains;  // a chain may have the name of one of its values
  if (Error e = check_name(chain.name, "chain name", {}, chains)) return e;
  if (chain.symbol) {
    if (Error e = check_name(chain.symbol->name, "symbol name", {}, taken)) return e;
  }
  for (const Value& value : chain.values) {
    if (Error e = check_name(value.name, "name", value.at, taken)) return e;
  }
  return Error::success();
}

Error check_range(const Symbol& symbol) {
  if (symbol.lo < 0 || symbol.hi < symbol.lo || symbol.hi > kMaxSymbol) {
    return make_error(ErrorCode::kInvalidChain,
                      "symbol {} has the range {}..{}: give bounds with 0 <= lo <= hi <= 2^31",
                      quoted(symbol.name), symbol.lo, symbol.hi);
  }
  return Error::success();
}

Error check_symbol_used(const Chain& chain) {
  if (!chain.symbol) return Error::success();
  const Symbol& symbol = *chain.symbol;
  if (Error e = check_range(symbol)) return e;
  for (const Value& value : chain.values) {
    if (llvm::any_of(value.type.shape, [](const Dim& dim) { return dim.symbolic; })) {
      return Error::success();
    }
  }
  return make_error(ErrorCode::kInvalidChain,
                    "symbol {} is not a dimension of any parameter: use it in a shape or remove it",
                    quoted(symbol.name));
}

// One id that `value` uses: it must exist, be defined before, and be an i32 tensor only if allowed.
Error check_reference(const Chain& chain, ValueId user, ValueId used) {
  const Value& value = chain.values[user];
  if (used < 0 || used >= static_cast<ValueId>(chain.values.size())) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} uses value number {}, which the chain does not have: use one of 0 to "
                         "{}",
                         quoted(value.name), used, chain.values.size() - 1);
  }
  if (used >= user) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} uses {}, which is not defined before it: swap them",
                         quoted(value.name), quoted(chain.values[used].name));
  }
  return Error::success();
}

Error check_operands(const Chain& chain, ValueId id) {
  const Value& value = chain.values[id];
  const OpInfo& info = op_info(value.op);
  const int count = static_cast<int>(value.operands.size());
  if (value.op == Op::kDequant ? count != 2 && count != 3 : count != info.arity) {
    return make_error_at(
        value.at, ErrorCode::kInvalidChain, "{} has {}: '{}' takes {}", quoted(value.name),
        counted(count, "operand"), info.text,
        value.op == Op::kDequant ? "q, a scale and perhaps a zero" : fmt::to_string(info.arity));
  }
  for (const Use& use : value.operands) {
    if (Error e = check_reference(chain, id, use.value)) return e;
    const Value& operand = chain.values[use.value];
    if (operand.op == Op::kDequant && value.op != Op::kContract) {
      if (Error e = check_dequant_user(chain, value, operand)) return e;
    }
    const bool integers =
        operand.op == Op::kParameter && dtype_info(operand.type.dtype).kind == DTypeKind::kInteger;
    if (integers && value.op != Op::kDequant) {
      return make_error_at(
          value.at, ErrorCode::kInvalidChain,
          "{} uses {}, which is {}, as an operand: only dequant takes integers, so "
          "multiply by dequant({}, scale) block (rows, columns) with contract",
          quoted(value.name), quoted(operand.name), dtype_text(operand.type.dtype),
          escaped(operand.name));
    }
    const bool index =
        operand.op == Op::kParameter && dtype_info(operand.type.dtype).kind == DTypeKind::kIndex;
    if (index && value.op != Op::kDequant) {
      return make_error_at(value.at, ErrorCode::kInvalidChain,
                           "{} uses {}, an i32 tensor, as an operand: i32 is only for ragged "
                           "ends, so declare it bf16, f16 or f32",
                           quoted(value.name), quoted(operand.name));
    }
  }
  if (!value.ragged) return Error::success();
  if (value.op == Op::kParameter || value.op == Op::kConstant || value.op == Op::kDequant) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} is a {} with a ragged label: only contractions, sums and elementwise "
                         "operations have one, so remove it",
                         quoted(value.name), info.text);
  }
  return check_reference(chain, id, value.ragged->ends);
}

// The least number that f32 rounds to infinity: half a unit above its largest.
constexpr double kRoundsToInfinity = 0x1.ffffffp127;

Error check_attributes(const Value& value) {
  for (size_t i = 0; i < 2; ++i) {
    const double attribute = value.attributes[i];
    if (op_info(value.op).attributes[i].empty()) break;
    const bool finite = std::fabs(attribute) < kRoundsToInfinity;  // false for NaN
    const bool lost = attribute != 0 && static_cast<float>(attribute) == 0;
    if (finite && !lost) continue;
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "attribute '{}' of {} is {}: give a number that is finite in f32, and not "
                         "so small that it is 0 there",
                         op_info(value.op).attributes[i], quoted(value.name), attribute);
  }
  return Error::success();
}

// Facts about value number context.info.size().
Expected<ValueInfo> check_value(const VerifyContext& context) {
  const Chain& chain = context.chain;
  const auto id = static_cast<ValueId>(context.info.size());
  const Value& value = chain.values[id];
  if (static_cast<size_t>(value.op) >= all_ops().size()) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} has operation number {}: use one of ops.def", quoted(value.name),
                         static_cast<int>(value.op));
  }
  if (dtype_info(value.type.dtype).bits == 0) {
    return make_error_at(value.at, ErrorCode::kInvalidChain,
                         "{} has dtype number {}: use one of dtype.def", quoted(value.name),
                         static_cast<int>(value.type.dtype));
  }
  if (Error e = check_operands(chain, id)) return e;
  if (Error e = check_attributes(value)) return e;
  switch (value.op) {
    case Op::kParameter:
      return check_parameter(context, value);
    case Op::kConstant:
      return ValueInfo{};
    case Op::kContract:
      return check_contract(context, value);
    case Op::kSum:
    case Op::kReduceMax:
      return check_reduction(context, value);
    case Op::kDequant:
      return check_dequant(context, value);
    default:
      return check_elementwise(context, value);
  }
}

// Parameters come first.
Error check_order(const VerifyContext& context, ValueId id) {
  if (id == 0 || !context.is_parameter(id) || context.is_parameter(id - 1)) return Error::success();
  return make_error_at(context.chain.values[id].at, ErrorCode::kInvalidChain,
                       "parameter {} comes after operation {}: declare parameters first",
                       quoted(context.name(id)), quoted(context.name(id - 1)));
}

// The input of an output that is in place of it; completes the output's layout.
Error check_in_place(const VerifyContext& context, int i, std::string_view who, TensorType& type) {
  const Chain& chain = context.chain;
  const Output& output = chain.outputs[i];
  const ValueId id = output.in_place;
  if (id < 0 || id >= static_cast<ValueId>(chain.values.size())) {
    return make_error_at(output.at, ErrorCode::kInvalidChain,
                         "{} is in place of value number {}, which the chain does not have: name "
                         "an input",
                         who, id);
  }
  const Value& input = chain.values[id];
  if (input.op != Op::kParameter || input.role != Role::kInput) {
    return make_error_at(output.at, ErrorCode::kInvalidChain,
                         "{} is in place of {}, {}: only an input is overwritten", who,
                         quoted(input.name),
                         input.op != Op::kParameter ? "a computed value"
                                                    : fmt::format("a {}", role_text(input.role)));
  }
  for (int other = 0; other < i; ++other) {
    if (chain.outputs[other].in_place != id) continue;
    return make_error_at(
        output.at, ErrorCode::kInvalidChain,
        "outputs {} and {} are both in place of {}: give one of them memory of its "
        "own",
        quoted(context.name(chain.outputs[other].value)), quoted(context.name(output.value)),
        quoted(input.name));
  }
  const TensorType& memory = context.info[id].type;
  if (type.dtype != memory.dtype || type.shape != memory.shape) {
    TensorType plain = memory;
    plain.strides.clear();
    plain.align = type.align = 16;
    type.strides.clear();
    return make_error_at(output.at, ErrorCode::kInvalidChain,
                         "{} is {} but in place of {}, which is {}: dtype and shape must be equal",
                         who, to_string(type), quoted(input.name), to_string(plain));
  }
  const bool other_strides = !output.strides.empty() && output.strides != memory.strides;
  if (other_strides || (output.align != 16 && output.align != memory.align)) {
    return make_error_at(output.at, ErrorCode::kInvalidChain,
                         "{} has {} of its own but is in place of {}: leave them out", who,
                         other_strides ? "strides" : "an align", quoted(input.name));
  }
  type.strides = memory.strides;
  type.align = memory.align;
  return Error::success();
}

Expected<TensorType> check_output(const VerifyContext& context, int i) {
  const Chain& chain = context.chain;
  const Output& output = chain.outputs[i];
  if (output.value < 0 || output.value >= static_cast<ValueId>(chain.values.size())) {
    return make_error_at(output.at, ErrorCode::kInvalidChain,
                         "output {} is value number {}, which the chain does not have: use one of "
                         "0 to {}",
                         i, output.value, static_cast<i64>(chain.values.size()) - 1);
  }
  const std::string who = fmt::format("output {}", quoted(context.name(output.value)));
  const Op op = chain.values[output.value].op;
  if (op == Op::kDequant) {
    const bool cast = has_rounded_form(chain, chain.values[output.value]);
    return make_error_at(output.at, ErrorCode::kInvalidChain,
                         "{} is a dequantised weight: only a contraction{} takes it, so return {}",
                         who, cast ? " or a cast to bf16 or f16" : "",
                         cast ? "one of these" : "the contraction");
  }
  if (op == Op::kParameter || op == Op::kConstant) {
    return make_error_at(output.at, ErrorCode::kInvalidChain,
                         "{} is not a computed value: return a cast of it to make a copy", who);
  }
  if (dtype_info(output.dtype).kind != DTypeKind::kFloat) {
    return make_error_at(output.at, ErrorCode::kInvalidChain,
                         "{} has dtype {}: return it as bf16, f16, f32, e4m3 or e5m2", who,
                         dtype_text(output.dtype));
  }
  TensorType type = context.info[output.value].type;
  type.dtype = output.dtype;
  type.strides = output.strides;
  type.align = output.align;
  if (output.in_place != -1) {
    if (Error e = check_in_place(context, i, who, type)) return e;
  }
  if (Error e = check_shape(chain, type, who, output.at)) return e;
  if (Error e = check_layout(chain, type, who, output.at)) return e;
  if (Error e = check_no_overlap(type, who, output.at)) return e;
  return type;
}

// Every parameter must be used, and every value reach an output.
Error check_all_used(const Chain& chain) {
  std::vector<bool> reached(chain.values.size());
  for (const Output& output : chain.outputs) reached[output.value] = true;
  // Uses come after definitions, so that one pass from the end suffices.
  for (size_t i = chain.values.size(); i-- > 0;) {
    const Value& value = chain.values[i];
    if (!reached[i]) {
      return value.op == Op::kParameter
                 ? make_error_at(value.at, ErrorCode::kInvalidChain,
                                 "parameter {} is not used: remove it", quoted(value.name))
                 : make_error_at(value.at, ErrorCode::kInvalidChain,
                                 "value {} reaches no output: return it or remove it",
                                 quoted(value.name));
    }
    for (const Use& use : value.operands) reached[use.value] = true;
    if (value.ragged) reached[value.ragged->ends] = true;
  }
  return Error::success();
}

// Adds the facts about the values that have none.
Error check_values(VerifyContext& context) {
  while (context.info.size() < context.chain.values.size()) {
    auto info = check_value(context);
    if (!info) return info.takeError();
    context.info.push_back(std::move(*info));
  }
  return Error::success();
}

}  // namespace

Dim ragged_dim(const VerifiedChain& chain, ValueId id) {
  const Value& value = chain.value(id);
  const ValueInfo& info = chain.info(id);
  if (info.grouped_terms)
    return chain.info(value.operands[0].value).type.shape[info.grouped_terms->dim];
  if (!info.contraction) return info.type.shape[info.rows->dim];
  for (const auto* labels : {&info.contraction->m, &info.contraction->k}) {
    for (const ContractionLabel& label : *labels) {
      if (label.label == value.ragged->label) return label.size;
    }
  }
  return {};
}

Error check_chain_name(const Chain& chain) {
  llvm::StringSet<> none;
  return check_name(chain.name, "chain name", {}, none);
}

Error check_symbol(const Chain& chain) {
  if (Error e = check_names(chain)) return e;
  return chain.symbol ? check_range(*chain.symbol) : Error::success();
}

Error check_last_value(const Chain& chain, std::vector<ValueInfo>& info) {
  if (Error e = check_counts(chain)) return e;
  if (Error e = check_names(chain)) return e;
  VerifyContext context{chain, std::exchange(info, {})};
  Error problem = check_values(context);
  info = std::move(context.info);
  return problem;
}

Error check_last_output(const Chain& chain, std::vector<ValueInfo>& info) {
  if (Error e = check_last_value(chain, info)) return e;
  const VerifyContext context{chain, info};
  return check_output(context, static_cast<int>(chain.outputs.size()) - 1).takeError();
}

Expected<VerifiedChain> verify(Chain chain) {
  const DefaultNumerics numerics;  // with flush-to-zero a small constant would be 0
  if (Error e = check_limits(chain)) return e;
  if (Error e = check_names(chain)) return e;
  if (Error e = check_symbol_used(chain)) return e;
  VerifiedChain verified;
  for (Value& value : chain.values) {
    for (Dim& dim : value.type.shape) {
      if (dim.symbolic && chain.symbol) dim.size = chain.symbol->hi;
    }
  }
  VerifyContext context{chain, {}};
  context.info.reserve(chain.values.size());
  for (ValueId id = 0; id < static_cast<ValueId>(chain.values.size()); ++id) {
    if (Error e = check_order(context, id)) return e;
    auto info = check_value(context);
    if (!info) return info.takeError();
    context.info.push_back(std::move(*info));
    if (context.is_parameter(id)) verified.parameters_.push_back(id);
  }
  for (int i = 0; i < static_cast<int>(chain.outputs.size()); ++i) {
    auto type = check_output(context, i);
    if (!type) return type.takeError();
    verified.outputs_.push_back(std::move(*type));
  }
  if (Error e = check_all_used(chain)) return e;
  verified.info_ = std::move(context.info);
  verified.chain_ = std::move(chain);
  return verified;
}

std::vector<std::string> output_names(const VerifiedChain& chain) {
  std::vector<std::string> names;
  std::map<ValueId, int> seen;
  for (const Output& output : chain.chain().outputs) {
    const std::string& name = chain.value(output.value).name;
    const int again = seen[output.value]++;
    names.push_back(again == 0 ? name : fmt::format("{}.{}", name, again));
  }
  return names;
}

}  // namespace catenary
