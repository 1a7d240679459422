// SPDX-License-Identifier: Apache-2.0
// C ABI: facts about a chain: its operands, its symbol, its identity, its plan.
#include "compiler/explain.h"
#include "ir/counted.h"
#include "ir/factors.h"
#include "ir/json.h"
#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "llvm/Support/SHA256.h"
#include "runtime/c_api/c_api.h"
#include "runtime/record/canonical.h"

// The chain, and the arrays that an operand points to.
struct ctn_operands {
  struct Operand {
    std::string name;
    bool output = false;
    catenary::Role role = catenary::Role::kInput;
    catenary::TensorType type;
    int in_place = -1;  // the operand whose memory it takes
    std::vector<int64_t> dims, strides;
  };
  std::optional<catenary::Symbol> symbol;
  std::vector<Operand> operands;
};

namespace catenary::c_api {
namespace {

ctn_operands::Operand operand_of(std::string name, const TensorType& type) {
  ctn_operands::Operand operand;
  operand.name = std::move(name);
  operand.type = type;
  for (const Dim& dim : type.shape) operand.dims.push_back(dim.symbolic ? CTN_SYMBOL : dim.size);
  operand.strides.assign(type.strides.begin(), type.strides.end());
  return operand;
}

ctn_operands operands_of(const VerifiedChain& chain) {
  ctn_operands result;
  result.symbol = chain.chain().symbol;
  for (ValueId id : chain.parameters()) {
    result.operands.push_back(operand_of(chain.value(id).name, chain.info(id).type));
    result.operands.back().role = chain.value(id).role;
  }
  for (int i = 0; i < static_cast<int>(chain.chain().outputs.size()); ++i) {
    const Output& output = chain.chain().outputs[i];
    result.operands.push_back(operand_of(chain.value(output.value).name, chain.output_type(i)));
    result.operands.back().output = true;
    // Parameters come first in a verified chain: a parameter's value is its number.
    result.operands.back().in_place = output.in_place;
  }
  return result;
}

template <typename Rows>
llvm::json::Array arrays_of(const Rows& rows) {
  llvm::json::Array result;
  for (const auto& row : rows) {
    llvm::json::Array numbers;
    for (const int number : row) numbers.push_back(number);
    result.push_back(std::move(numbers));
  }
  return result;
}

std::string factors_text(const Factors& factors) {
  llvm::json::Array divides;
  for (const bool each : factors.divides) divides.push_back(each);
  return json_text(llvm::json::Object{{"operands", arrays_of(factors.operands)},
                                      {"divides", std::move(divides)},
                                      {"sums", arrays_of(factors.sums)}},
                   0);
}

std::string explain(const VerifiedChain& chain, const Plan& plan, ctn_format format) {
  return format == CTN_TEXT ? explain_text(chain, plan) : json_text(explain_json(chain, plan));
}

}  // namespace
}  // namespace catenary::c_api

using namespace catenary;
using namespace catenary::c_api;

ctn_status ctn_chain_operands(const ctn_chain* chain, ctn_operands** operands) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", operands, "operands")) return error;
    Expected<VerifiedChain> verified = verify(ordered(*chain));
    if (!verified) return verified.takeError();
    *operands = new ctn_operands(operands_of(*verified));
    return Error::success();
  });
}

void ctn_operands_destroy(ctn_operands* operands) { delete operands; }

ctn_status ctn_operands_count(const ctn_operands* operands, size_t* count) {
  return guarded([&]() -> Error {
    if (Error error = require(operands, "operands", count, "count")) return error;
    *count = operands->operands.size();
    return Error::success();
  });
}

ctn_status ctn_operands_get(const ctn_operands* operands, size_t index, ctn_operand* operand) {
  return guarded([&]() -> Error {
    ctn_operand result{};
    if (Error error = require(operands, "operands")) return error;
    if (Error error = read_struct(operand, "operand", result)) return error;
    if (index >= operands->operands.size()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "index {} names no operand: the chain has {}, counted from 0", index,
                        counted(operands->operands.size(), "operand"));
    }
    const ctn_operands::Operand& facts = operands->operands[index];
    result.name = facts.name.c_str();
    result.is_output = facts.output ? 1 : 0;
    result.role = static_cast<ctn_role>(facts.role);
    result.dtype = static_cast<ctn_dtype>(facts.type.dtype);
    result.rank = facts.type.rank();
    result.dims = facts.dims.data();
    result.strides = facts.strides.data();
    result.align = facts.type.align;
    result.bytes = span_bytes(facts.type);
    result.in_place = facts.in_place + 1;
    result.packed = facts.type.packed ? 1 : 0;
    const size_t size = operand->struct_size;
    *operand = result;
    operand->struct_size = size;
    return Error::success();
  });
}

ctn_status ctn_operands_symbol(const ctn_operands* operands, const char** name, int64_t* lo,
                               int64_t* hi) {
  return guarded([&]() -> Error {
    if (Error error = require(operands, "operands", name, "name", lo, "lo", hi, "hi")) return error;
    *name = operands->symbol ? operands->symbol->name.c_str() : nullptr;
    *lo = operands->symbol ? operands->symbol->lo : 0;
    *hi = operands->symbol ? operands->symbol->hi : 0;
    return Error::success();
  });
}

ctn_status ctn_chain_digest(const ctn_chain* chain, char digest[65]) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", digest, "digest")) return error;
    Expected<VerifiedChain> verified = verify(ordered(*chain));
    if (!verified) return verified.takeError();
    const std::string text = canonical_text(*verified);
    KernelKey key;
    std::ranges::copy(llvm::SHA256::hash({reinterpret_cast<const u8*>(text.data()), text.size()}),
                      key.bytes.begin());
    std::memcpy(digest, key.hex().c_str(), 65);
    return Error::success();
  });
}

ctn_status ctn_chain_factors(const ctn_chain* chain, char** json) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", json, "json")) return error;
    Expected<VerifiedChain> verified = verify(ordered(*chain));
    if (!verified) return verified.takeError();
    *json = copy_text(factors_text(find_factors(*verified)));
    return Error::success();
  });
}

ctn_status ctn_chain_shard(const ctn_chain* chain, const int64_t* parts, size_t num_parts,
                           ctn_chain** made) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", made, "made")) return error;
    if (num_parts > 0) {
      if (Error error = require(parts, "parts")) return error;
    }
    Expected<VerifiedChain> verified = verify(ordered(*chain));
    if (!verified) return verified.takeError();
    const std::vector<i64> numbers(parts, parts + num_parts);
    Expected<Chain> result = shard(*verified, numbers);
    if (!result) return result.takeError();
    *made = new ctn_chain{std::move(*result), {}};
    return Error::success();
  });
}

ctn_status ctn_compiled_chain(const ctn_compiled* compiled, ctn_chain** chain) {
  return guarded([&]() -> Error {
    if (Error error = require(compiled, "compiled", chain, "chain")) return error;
    Expected<Chain> parsed = parse(compiled->record->text);
    if (!parsed) return parsed.takeError();
    *chain = new ctn_chain{std::move(*parsed), {}};
    return Error::success();
  });
}

ctn_status ctn_engine_explain(ctn_engine* engine, const ctn_chain* chain, const char* target,
                              ctn_format format, char** text) {
  return guarded([&]() -> Error {
    if (Error error = require(engine, "engine", chain, "chain", target, "target", text, "text")) {
      return error;
    }
    if (Error error = check_format(format)) return error;
    Expected<Target> found = find_target(target);
    if (!found) return found.takeError();
    Expected<VerifiedChain> verified = verify(ordered(*chain));
    if (!verified) return verified.takeError();
    Expected<Plan> plan = engine->engine.plan(*verified, *found);
    if (!plan) return plan.takeError();
    *text = copy_text(explain(*verified, *plan, format));
    return Error::success();
  });
}
