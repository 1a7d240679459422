// SPDX-License-Identifier: Apache-2.0
// C ABI: the chains of a gradient and their operands.
#include "ir/gradient/gradient.h"

#include "runtime/c_api/c_api.h"

// An operand's arrays, which a binding points to.
struct ctn_gradient {
  struct Operand {
    std::vector<int64_t> dims, strides;
    std::vector<int32_t> parameter_dims;
    catenary::TensorType type;
  };
  catenary::Gradient gradient;
  std::vector<std::vector<Operand>> operands;  // by chain
};

namespace catenary::c_api {
namespace {

static_assert(static_cast<int>(Recompute::kBudget) == CTN_RECOMPUTE_BUDGET);
static_assert(static_cast<int>(GradientPass::kWgrad) == CTN_WGRAD);
static_assert(static_cast<int>(GradientKind::kOutput) == CTN_GRADIENT_OUTPUT);
static_assert(static_cast<int>(GradientKind::kScalarGradient) == CTN_GRADIENT_OF_SCALAR);
static_assert(static_cast<int>(GradientKind::kAccumulator) == CTN_GRADIENT_ACCUMULATOR);

Error read_names(const char* const* names, size_t count, const char* argument,
                 std::vector<std::string>& out) {
  if (count == 0) return Error::success();
  if (Error error = require(names, argument)) return error;
  for (size_t i = 0; i < count; ++i) {
    if (Error error = require(names[i], argument)) return error;
    out.emplace_back(names[i]);
  }
  return Error::success();
}

Expected<GradientOptions> read_options(const ctn_gradient_options* options) {
  GradientOptions result;
  if (options == nullptr) return result;
  ctn_gradient_options given{};
  if (Error error = read_struct(options, "options", given)) return error;
  if (Error error = read_names(given.wanted, given.num_wanted, "options->wanted", result.wanted)) {
    return error;
  }
  if (Error error =
          read_names(given.outputs, given.num_outputs, "options->outputs", result.outputs)) {
    return error;
  }
  if (given.recompute < CTN_RECOMPUTE_NONE || given.recompute > CTN_RECOMPUTE_UNSTORED) {
    return make_error(ErrorCode::kInvalidArgument,
                      "options->recompute is {}: use a value of ctn_recompute", given.recompute);
  }
  result.recompute = static_cast<Recompute>(given.recompute);
  result.save_budget = given.save_budget;
  result.save_f32 = given.save_f32 != 0;
  result.f32_weights = given.f32_weights != 0;
  result.accumulate = given.accumulate != 0;
  return result;
}

ctn_gradient::Operand operand_of(const TensorType& type, const GradientOperand& operand) {
  ctn_gradient::Operand result;
  result.type = type;
  for (const Dim& dim : type.shape) result.dims.push_back(dim.symbolic ? CTN_SYMBOL : dim.size);
  result.strides.assign(type.strides.begin(), type.strides.end());
  result.parameter_dims.assign(operand.dims.begin(), operand.dims.end());
  return result;
}

std::vector<ctn_gradient::Operand> operands_of(const GradientChain& part) {
  std::vector<ctn_gradient::Operand> result;
  for (ValueId id : part.chain.parameters()) {
    result.push_back(operand_of(part.chain.info(id).type, part.operands[result.size()]));
  }
  for (int i = 0; i < static_cast<int>(part.chain.chain().outputs.size()); ++i) {
    result.push_back(operand_of(part.chain.output_type(i), part.operands[result.size()]));
  }
  return result;
}

Error check_index(size_t index, size_t count, const char* argument, const char* what) {
  if (index < count) return Error::success();
  return make_error(ErrorCode::kInvalidArgument, "{} is {}, and there are {} {}: use 0 to {}",
                    argument, index, count, what, count - 1);
}

bool is_of_parameter(GradientKind kind) {
  return kind == GradientKind::kInputGradient || kind == GradientKind::kWeightGradient ||
         kind == GradientKind::kScalarGradient || kind == GradientKind::kAccumulator;
}

}  // namespace
}  // namespace catenary::c_api

using namespace catenary;
using namespace catenary::c_api;

ctn_status ctn_chain_gradient(const ctn_chain* chain, const ctn_gradient_options* options,
                              ctn_gradient** gradient) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", gradient, "gradient")) return error;
    Expected<GradientOptions> given = read_options(options);
    if (!given) return given.takeError();
    Expected<VerifiedChain> verified = verify(ordered(*chain));
    if (!verified) return verified.takeError();
    Expected<Gradient> made = make_gradient(*verified, *given);
    if (!made) return made.takeError();
    auto result = std::make_unique<ctn_gradient>();
    result->gradient = std::move(*made);
    for (const GradientChain& part : result->gradient.chains) {
      result->operands.push_back(operands_of(part));
    }
    *gradient = result.release();
    return Error::success();
  });
}

void ctn_gradient_destroy(ctn_gradient* gradient) { delete gradient; }

ctn_status ctn_gradient_count(const ctn_gradient* gradient, size_t* count) {
  return guarded([&]() -> Error {
    if (Error error = require(gradient, "gradient", count, "count")) return error;
    *count = gradient->gradient.chains.size();
    return Error::success();
  });
}

ctn_status ctn_gradient_saved_bytes(const ctn_gradient* gradient, int64_t* bytes) {
  return guarded([&]() -> Error {
    if (Error error = require(gradient, "gradient", bytes, "bytes")) return error;
    *bytes = gradient->gradient.saved_bytes;
    return Error::success();
  });
}

ctn_status ctn_gradient_chain(const ctn_gradient* gradient, size_t index, ctn_chain** chain,
                              ctn_pass* pass) {
  return guarded([&]() -> Error {
    if (Error error = require(gradient, "gradient", chain, "chain")) return error;
    const auto& chains = gradient->gradient.chains;
    if (Error error = check_index(index, chains.size(), "index", "chains")) return error;
    auto copy = std::make_unique<ctn_chain>();
    copy->chain = chains[index].chain.chain();
    for (ValueId id = 0; id < chains[index].chain.num_values(); ++id) {
      copy->info.push_back(chains[index].chain.info(id));
    }
    if (pass != nullptr) *pass = static_cast<ctn_pass>(chains[index].pass);
    *chain = copy.release();
    return Error::success();
  });
}

ctn_status ctn_gradient_operand_count(const ctn_gradient* gradient, size_t chain, size_t* count) {
  return guarded([&]() -> Error {
    if (Error error = require(gradient, "gradient", count, "count")) return error;
    const auto& chains = gradient->gradient.chains;
    if (Error error = check_index(chain, chains.size(), "chain", "chains")) return error;
    *count = chains[chain].operands.size();
    return Error::success();
  });
}

ctn_status ctn_gradient_binding(const ctn_gradient* gradient, size_t chain, size_t operand,
                                ctn_gradient_operand* binding) {
  return guarded([&]() -> Error {
    ctn_gradient_operand result{};
    if (Error error = require(gradient, "gradient")) return error;
    if (Error error = read_struct(binding, "binding", result)) return error;
    const auto& chains = gradient->gradient.chains;
    if (Error error = check_index(chain, chains.size(), "chain", "chains")) return error;
    const auto& operands = chains[chain].operands;
    if (Error error = check_index(operand, operands.size(), "operand", "operands")) return error;
    const GradientOperand& facts = operands[operand];
    const ctn_gradient::Operand& arrays = gradient->operands[chain][operand];
    result.kind = static_cast<ctn_gradient_kind>(facts.kind);
    result.index = facts.index;
    result.is_output = operand >= chains[chain].chain.parameters().size() ? 1 : 0;
    result.name = facts.name.c_str();
    result.dtype = static_cast<ctn_dtype>(arrays.type.dtype);
    result.rank = arrays.type.rank();
    result.dims = arrays.dims.data();
    result.strides = arrays.strides.data();
    result.bytes = span_bytes(arrays.type);
    result.parameter_dims = is_of_parameter(facts.kind) ? arrays.parameter_dims.data() : nullptr;
    const size_t size = binding->struct_size;
    *binding = result;
    binding->struct_size = size;
    return Error::success();
  });
}
