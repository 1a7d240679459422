// SPDX-License-Identifier: Apache-2.0
// C ABI: building a chain. Checks what the C language cannot (null, counts, enum numbers) and, by
// the rules of verify(), what a call adds: the call that breaks a rule reports it, and leaves the
// chain as it was.
#include <algorithm>

#include "ir/counted.h"
#include "ir/names.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "llvm/ADT/ScopeExit.h"
#include "runtime/c_api/c_api.h"

namespace catenary::c_api {
namespace {

static_assert(static_cast<int>(DType::kBF16) == CTN_BF16);
static_assert(static_cast<int>(DType::kF16) == CTN_F16);
static_assert(static_cast<int>(DType::kF32) == CTN_F32);
static_assert(static_cast<int>(DType::kI32) == CTN_I32);
static_assert(static_cast<int>(DType::kI8) == CTN_I8);
static_assert(static_cast<int>(DType::kI4) == CTN_I4);
static_assert(static_cast<int>(DType::kU4) == CTN_U4);
static_assert(static_cast<int>(DType::kE4M3) == CTN_E4M3);
static_assert(static_cast<int>(DType::kE5M2) == CTN_E5M2);
static_assert(static_cast<int>(Role::kInput) == CTN_INPUT);
static_assert(static_cast<int>(Role::kWeight) == CTN_WEIGHT);
static_assert(static_cast<int>(Role::kScalar) == CTN_SCALAR);

Expected<DType> read_dtype(ctn_dtype dtype, const std::string& argument) {
  if (dtype >= CTN_BF16 && dtype <= CTN_E5M2) return static_cast<DType>(dtype);
  return make_error(ErrorCode::kInvalidArgument, "{} is {}: use a value of ctn_dtype", argument,
                    dtype);
}

Error check_count(i64 count, i64 most, const std::string& argument) {
  if (count >= 0 && count <= most) return Error::success();
  return make_error(ErrorCode::kInvalidArgument, "{} is {}: use 0 to {}", argument, count, most);
}

Expected<TensorType> read_type(const Chain& chain, const ctn_parameter& given) {
  TensorType type;
  const std::string who = fmt::format("parameter {}: ", quoted(text_or_empty(given.name)));
  Expected<DType> dtype = read_dtype(given.dtype, who + "parameter->dtype");
  if (!dtype) return dtype.takeError();
  type.dtype = *dtype;
  if (Error error = check_count(given.rank, kMaxRank, who + "parameter->rank")) return error;
  if (given.rank > 0) {
    if (Error error = require(given.dims, "parameter->dims")) return error;
  }
  for (int d = 0; d < given.rank; ++d) {
    const bool symbolic = given.dims[d] == CTN_SYMBOL;
    if (symbolic && !chain.symbol) {
      return make_error(ErrorCode::kInvalidArgument,
                        "dimension {} of parameter {} is CTN_SYMBOL, and the chain has no symbol: "
                        "call ctn_chain_symbol first",
                        d, quoted(text_or_empty(given.name)));
    }
    type.shape.push_back({symbolic ? chain.symbol->hi : given.dims[d], symbolic});
  }
  if (given.strides != nullptr) type.strides.assign(given.strides, given.strides + given.rank);
  if (given.align != 0) type.align = given.align;
  type.packed = given.packed != 0;
  return type;
}

bool is_value(const Chain& chain, ValueId id) {
  return id >= 0 && static_cast<size_t>(id) < chain.values.size();
}

// Whether an operation has the name that Chain::append gives where the caller gives none.
bool is_unnamed(const Chain& chain, ValueId id) {
  const Value& value = chain.values[static_cast<size_t>(id)];
  return value.op != Op::kParameter && value.name == fmt::format("t{}", id);
}

// Runs `add`, which appends one value and returns its number, and undoes it if the value breaks a
// rule or memory runs out. Its operands are spare then: a call of the user may be two of this one.
template <typename Add>
Error append(ctn_chain& chain, ctn_value* value, const Add& add) {
  const size_t before = chain.chain.values.size();
  chain.spare.reserve(chain.spare.size() + 3);  // of the operands: no memory is needed below
  auto undo = llvm::make_scope_exit([&] {
    chain.chain.values.erase(chain.chain.values.begin() + static_cast<i64>(before),
                             chain.chain.values.end());
    chain.info.erase(chain.info.begin() + static_cast<i64>(std::min(before, chain.info.size())),
                     chain.info.end());
  });
  const ValueId id = add(chain.chain);
  if (Error error = check_last_value(chain.chain, chain.info)) {
    for (const Use& use : chain.chain.values.back().operands) {
      const bool known = use.value < id && is_value(chain.chain, use.value);
      if (known && is_unnamed(chain.chain, use.value)) chain.spare.push_back(use.value);
    }
    return error;
  }
  undo.release();
  *value = id;
  return Error::success();
}

// By value: whether it is spare and nothing uses it. What only such values use is spare too.
std::vector<bool> left_out(const ctn_chain& handle) {
  const Chain& chain = handle.chain;
  const size_t count = chain.values.size();
  std::vector<bool> used(count), spare(count);
  for (const ValueId id : handle.spare) spare[static_cast<size_t>(id)] = true;
  for (const Output& output : chain.outputs) {
    if (is_value(chain, output.value)) used[static_cast<size_t>(output.value)] = true;
  }
  // Uses come after definitions.
  for (size_t i = count; i-- > 0;) {
    spare[i] = spare[i] && !used[i];
    for (const Use& use : chain.values[i].operands) {
      if (!is_value(chain, use.value)) continue;
      const auto operand = static_cast<size_t>(use.value);
      if (!spare[i]) {
        used[operand] = true;
      } else if (is_unnamed(chain, use.value)) {
        spare[operand] = true;
      }
    }
  }
  return spare;
}

}  // namespace

Chain ordered(const ctn_chain& handle) {
  const Chain& chain = handle.chain;
  const std::vector<bool> spare = left_out(handle);
  const size_t count = chain.values.size();
  std::vector<ValueId> new_id(count);
  Chain result;
  result.name = chain.name;
  result.symbol = chain.symbol;
  result.words = chain.words;
  result.values.reserve(count);
  for (const bool parameters : {true, false}) {
    for (size_t i = 0; i < count; ++i) {
      if (spare[i] || (chain.values[i].op == Op::kParameter) != parameters) continue;
      new_id[i] = static_cast<ValueId>(result.values.size());
      result.values.push_back(chain.values[i]);
    }
  }
  // A number that names no value is kept, so that verify() can name it.
  const auto moved = [&](ValueId id) {
    return id >= 0 && static_cast<size_t>(id) < count ? new_id[id] : id;
  };
  for (Value& value : result.values) {
    for (Use& use : value.operands) use.value = moved(use.value);
    if (value.ragged) value.ragged->ends = moved(value.ragged->ends);
  }
  result.outputs = chain.outputs;
  for (Output& output : result.outputs) {
    output.value = moved(output.value);
    output.in_place = moved(output.in_place);
  }
  return result;
}

}  // namespace catenary::c_api

using namespace catenary;
using namespace catenary::c_api;

ctn_status ctn_chain_parse(const char* text, size_t length, ctn_chain** chain) {
  return guarded([&]() -> Error {
    if (Error error = require(text, "text", chain, "chain")) return error;
    Expected<Chain> parsed = parse(std::string_view(text, length));
    if (!parsed) return parsed.takeError();
    *chain = new ctn_chain{std::move(*parsed), {}};
    return Error::success();
  });
}

ctn_status ctn_chain_create(const char* name, ctn_chain** chain) {
  return guarded([&]() -> Error {
    if (Error error = require(name, "name", chain, "chain")) return error;
    auto fresh = std::make_unique<ctn_chain>();
    fresh->chain.name = name;
    if (Error error = check_chain_name(fresh->chain)) return error;
    *chain = fresh.release();
    return Error::success();
  });
}

void ctn_chain_destroy(ctn_chain* chain) { delete chain; }

ctn_status ctn_chain_print(const ctn_chain* chain, char** text) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", text, "text")) return error;
    // print() relies on the rules of a chain.
    Expected<VerifiedChain> verified = verify(ordered(*chain));
    if (!verified) return verified.takeError();
    *text = copy_text(print(verified->chain()));
    return Error::success();
  });
}

ctn_status ctn_chain_verify(const ctn_chain* chain) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain")) return error;
    return verify(ordered(*chain)).takeError();
  });
}

ctn_status ctn_chain_symbol(ctn_chain* chain, const char* name, int64_t lo, int64_t hi) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", name, "name")) return error;
    if (chain->chain.symbol) {
      return make_error(ErrorCode::kInvalidArgument,
                        "chain {} already has the symbol {}: a chain has one symbolic size",
                        quoted(chain->chain.name), quoted(chain->chain.symbol->name));
    }
    chain->chain.symbol = Symbol{name, lo, hi};
    auto undo = llvm::make_scope_exit([&] { chain->chain.symbol.reset(); });
    if (Error error = check_symbol(chain->chain)) return error;
    undo.release();
    return Error::success();
  });
}

ctn_status ctn_chain_word(ctn_chain* chain, const char* word) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", word, "word")) return error;
    Expected<const ChainWord*> found = find_word(word);
    if (!found) return found.takeError();
    chain->chain.words.*(*found)->member = true;
    return Error::success();
  });
}

ctn_status ctn_chain_parameter(ctn_chain* chain, const ctn_parameter* parameter, ctn_value* value) {
  return guarded([&]() -> Error {
    ctn_parameter given{};
    if (Error error = require(chain, "chain", value, "value")) return error;
    if (Error error = read_struct(parameter, "parameter", given, offsetof(ctn_parameter, packed))) {
      return error;
    }
    if (given.role < CTN_INPUT || given.role > CTN_SCALAR) {
      return make_error(ErrorCode::kInvalidArgument,
                        "parameter->role is {}: use a value of ctn_role", given.role);
    }
    Expected<TensorType> type = read_type(chain->chain, given);
    if (!type) return type.takeError();
    return append(*chain, value, [&](Chain& to) {
      return to.parameter(static_cast<Role>(given.role), text_or_empty(given.name),
                          std::move(*type));
    });
  });
}

ctn_status ctn_chain_constant(ctn_chain* chain, double number, const char* name, ctn_value* value) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", value, "value")) return error;
    const std::string given = text_or_empty(name);
    if (Error error =
            append(*chain, value, [&](Chain& to) { return to.constant(number, given); })) {
      return error;
    }
    if (given.empty()) chain->spare.push_back(*value);
    return Error::success();
  });
}

namespace {

// The label of `ragged`; nothing for null.
Error read_ragged(const ctn_ragged* ragged, std::optional<RaggedLabel>& label) {
  if (ragged == nullptr) return Error::success();
  ctn_ragged given{};
  if (Error error = read_struct(ragged, "ragged", given)) return error;
  label = RaggedLabel{given.label, given.group, given.ends};
  return Error::success();
}

}  // namespace

ctn_status ctn_chain_contract(ctn_chain* chain, const char* equation, ctn_value left,
                              ctn_value right, uint32_t flags, const ctn_ragged* ragged,
                              const char* name, ctn_value* value) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", equation, "equation", value, "value")) return error;
    if ((flags & ~(CTN_CONTRACT_TRUE_F32 | CTN_CONTRACT_FAST_ACCUM)) != 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        "flags is {:#x}: use 0, CTN_CONTRACT_TRUE_F32 or CTN_CONTRACT_FAST_ACCUM",
                        flags);
    }
    std::optional<RaggedLabel> label;
    if (Error error = read_ragged(ragged, label)) return error;
    return append(*chain, value, [&](Chain& to) {
      const ValueId id = to.contract(equation, left, right, text_or_empty(name));
      to.values.back().true_f32 = (flags & CTN_CONTRACT_TRUE_F32) != 0;
      to.values.back().fast_accum = (flags & CTN_CONTRACT_FAST_ACCUM) != 0;
      to.values.back().ragged = label;
      return id;
    });
  });
}

ctn_status ctn_chain_dequant(ctn_chain* chain, ctn_value q, ctn_value scale, ctn_value zero,
                             int64_t block_rows, int64_t block_columns, const char* name,
                             ctn_value* value) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", value, "value")) return error;
    llvm::SmallVector<ValueId, 3> operands = {q, scale};
    if (zero != -1) operands.push_back(zero);
    return append(*chain, value, [&](Chain& to) {
      return to.dequant(operands, {block_rows, block_columns}, text_or_empty(name));
    });
  });
}

namespace {

Error append_elementwise(ctn_chain* chain, const char* op, const ctn_use* operands,
                         size_t num_operands, const double* attributes, size_t num_attributes,
                         const std::optional<RaggedLabel>& ragged, const char* name,
                         ctn_value* value) {
  const std::optional<Op> found = find_op(op);
  if (!found || !is_elementwise(*found)) {
    return make_error(ErrorCode::kInvalidArgument, "op {} is not elementwise{}", quoted(op),
                      op_choices(op, true));
  }
  const OpInfo& info = op_info(*found);
  if (num_operands != static_cast<size_t>(info.arity)) {
    return make_error(ErrorCode::kInvalidArgument, "op {} takes {}, got {}", quoted(op),
                      counted(info.arity, "operand"), num_operands);
  }
  const size_t wanted = !info.attributes[0].empty() + !info.attributes[1].empty();
  if (num_attributes != wanted) {
    return make_error(ErrorCode::kInvalidArgument, "op {} takes {}, got {}", quoted(op),
                      counted(wanted, "attribute"), num_attributes);
  }
  if (wanted > 0) {
    if (Error error = require(attributes, "attributes")) return error;
  }
  llvm::SmallVector<Use, 2> uses;
  for (size_t i = 0; i < num_operands; ++i) {
    uses.push_back({operands[i].value, text_or_empty(operands[i].labels)});
  }
  return append(*chain, value, [&](Chain& to) {
    const ValueId id =
        to.elementwise(*found, uses, llvm::makeArrayRef(attributes, wanted), text_or_empty(name));
    to.values.back().ragged = ragged;
    return id;
  });
}

}  // namespace

ctn_status ctn_chain_elementwise(ctn_chain* chain, const char* op, const ctn_use* operands,
                                 size_t num_operands, const double* attributes,
                                 size_t num_attributes, const char* name, ctn_value* value) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", op, "op", operands, "operands", value, "value"))
      return error;
    return append_elementwise(chain, op, operands, num_operands, attributes, num_attributes,
                              std::nullopt, name, value);
  });
}

ctn_status ctn_chain_elementwise_by_group(ctn_chain* chain, const char* op, const ctn_use* operands,
                                          size_t num_operands, const double* attributes,
                                          size_t num_attributes, const ctn_ragged* ragged,
                                          const char* name, ctn_value* value) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", op, "op", operands, "operands", ragged, "ragged",
                              value, "value")) {
      return error;
    }
    std::optional<RaggedLabel> label;
    if (Error error = read_ragged(ragged, label)) return error;
    return append_elementwise(chain, op, operands, num_operands, attributes, num_attributes, label,
                              name, value);
  });
}

ctn_status ctn_chain_sum(ctn_chain* chain, const char* equation, ctn_value operand,
                         const char* name, ctn_value* value) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", equation, "equation", value, "value")) return error;
    return append(*chain, value,
                  [&](Chain& to) { return to.sum(equation, operand, text_or_empty(name)); });
  });
}

ctn_status ctn_chain_sum_by_group(ctn_chain* chain, const char* equation, ctn_value operand,
                                  const ctn_ragged* ragged, const char* name, ctn_value* value) {
  return guarded([&]() -> Error {
    if (Error error =
            require(chain, "chain", equation, "equation", ragged, "ragged", value, "value")) {
      return error;
    }
    std::optional<RaggedLabel> label;
    if (Error error = read_ragged(ragged, label)) return error;
    return append(*chain, value, [&](Chain& to) {
      const ValueId id = to.sum(equation, operand, text_or_empty(name));
      to.values.back().ragged = label;
      return id;
    });
  });
}

ctn_status ctn_chain_reduce(ctn_chain* chain, const char* op, const char* equation,
                            ctn_value operand, const char* name, ctn_value* value) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", op, "op", equation, "equation", value, "value")) {
      return error;
    }
    const std::optional<Op> found = find_op(op);
    if (!found || !is_reduction(*found)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "op {} is not a reduction: use sum or reduce_max", quoted(op));
    }
    return append(*chain, value, [&](Chain& to) {
      return to.reduce(*found, equation, operand, text_or_empty(name));
    });
  });
}

ctn_status ctn_chain_cast(ctn_chain* chain, ctn_value operand, ctn_dtype dtype, const char* name,
                          ctn_value* value) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", value, "value")) return error;
    Expected<DType> wanted = read_dtype(dtype, "dtype");
    if (!wanted) return wanted.takeError();
    return append(*chain, value,
                  [&](Chain& to) { return to.cast(operand, *wanted, text_or_empty(name)); });
  });
}

ctn_status ctn_chain_return(ctn_chain* chain, const ctn_output* output) {
  return guarded([&]() -> Error {
    ctn_output given{};
    if (Error error = require(chain, "chain")) return error;
    if (Error error = read_struct(output, "output", given, offsetof(ctn_output, in_place))) {
      return error;
    }
    Expected<DType> dtype = read_dtype(given.dtype, "output->dtype");
    if (!dtype) return dtype.takeError();
    if (Error error = check_count(given.num_strides, kMaxRank, "output->num_strides")) return error;
    if (given.num_strides > 0) {
      if (Error error = require(given.strides, "output->strides")) return error;
    }
    Output result;
    result.value = given.value;
    result.dtype = *dtype;
    if (given.num_strides > 0) {
      result.strides.assign(given.strides, given.strides + given.num_strides);
    }
    if (given.align != 0) result.align = given.align;
    if (given.in_place != 0) result.in_place = given.in_place - 1;
    chain->chain.outputs.push_back(std::move(result));
    auto undo = llvm::make_scope_exit([&] { chain->chain.outputs.pop_back(); });
    if (Error error = check_last_output(chain->chain, chain->info)) return error;
    undo.release();
    return Error::success();
  });
}
