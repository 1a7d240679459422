// SPDX-License-Identifier: Apache-2.0
// C ABI: launches of an executable, and evaluation of a chain on the host by the reference.
#include <limits>

#include "ir/reference/reference.h"
#include "ir/reference/reference_program.h"
#include "runtime/c_api/c_api.h"

namespace catenary::c_api {
namespace {

// disable_pdl is where the struct of older headers had padding: the size is the same.
static_assert(sizeof(ctn_launch_args) == 72);

constexpr int kMaxThreads = 1024;

// An array of `count` elements may be null only when it is empty.
Error require_array(const void* array, size_t count, const char* argument) {
  return count == 0 ? Error::success() : require(array, argument);
}

Error wrong_count(const char* what, size_t want, size_t got) {
  return make_error(ErrorCode::kInvalidArgument,
                    "the chain takes {} {}, got {}: pass one each, in the order of its parameters "
                    "and then its outputs",
                    want, what, got);
}

// The chain's symbol must be in its range, or 0 where it has none.
Error check_symbol(const Chain& chain, i64 symbol) {
  if (!chain.symbol) {
    if (symbol == 0) return Error::success();
    return make_error(ErrorCode::kInvalidArgument,
                      "args->symbol is {}, and the chain has no symbolic size: pass 0", symbol);
  }
  if (symbol >= chain.symbol->lo && symbol <= chain.symbol->hi) return Error::success();
  return make_error(ErrorCode::kInvalidArgument, "args->symbol is {}: {} must be in {}..{}", symbol,
                    chain.symbol->name, chain.symbol->lo, chain.symbol->hi);
}

// Binds the parameters. `tensors` and `scalars` have the lengths that the chain needs.
ReferenceInputs bind_inputs(const VerifiedChain& chain, const ctn_reference_args& args) {
  ReferenceInputs inputs;
  inputs.symbol = args.symbol;
  size_t tensor = 0;
  size_t scalar = 0;
  for (ValueId id : chain.parameters()) {
    const bool by_value = chain.value(id).role == Role::kScalar;
    const void* data =
        by_value ? static_cast<const void*>(&args.scalars[scalar++]) : args.tensors[tensor++];
    inputs.parameters.push_back({with_symbol(chain.info(id).type, args.symbol), data});
  }
  return inputs;
}

// Stores row-major `values`, rounded to the output's dtype, at its strides.
void store_output(const TensorType& type, const std::vector<Interval>& values, void* data) {
  llvm::SmallVector<i64, 8> index(type.rank(), 0);
  for (const Interval& value : values) {
    i64 offset = 0;
    for (int d = 0; d < type.rank(); ++d) offset += index[d] * type.strides[d];
    store_element(type.dtype, data, offset, value.value);
    advance(type.shape, index);
  }
}

Error run_reference(const VerifiedChain& chain, const ctn_reference_args& args) {
  const size_t num_outputs = chain.chain().outputs.size();
  size_t num_scalars = 0;
  for (ValueId id : chain.parameters()) num_scalars += chain.value(id).role == Role::kScalar;
  const size_t num_inputs = chain.parameters().size() - num_scalars;
  if (args.num_tensors != num_inputs + num_outputs) {
    return wrong_count("tensors", num_inputs + num_outputs, args.num_tensors);
  }
  if (args.num_scalars != num_scalars) {
    return wrong_count("scalars", num_scalars, args.num_scalars);
  }
  if (Error error = require_array(args.tensors, args.num_tensors, "args->tensors")) return error;
  if (Error error = require_array(args.scalars, args.num_scalars, "args->scalars")) return error;
  if (args.threads < 0 || args.threads > kMaxThreads) {
    return make_error(ErrorCode::kInvalidArgument,
                      "args->threads is {}: use 0 for one per core, or 1 to {}", args.threads,
                      kMaxThreads);
  }
  if (Error error = check_symbol(chain.chain(), args.symbol)) return error;

  const ReferenceInputs inputs = bind_inputs(chain, args);
  size_t tensor = 0;
  const auto check_data = [&](const TensorType& type) -> Error {
    const size_t i = tensor++;
    if (args.tensors[i] != nullptr || num_elements(type) == 0) return Error::success();
    return make_error(ErrorCode::kInvalidArgument,
                      "tensor {} is null: pass the host address of its {}", i, to_string(type));
  };
  for (size_t p = 0; p < inputs.parameters.size(); ++p) {
    if (chain.value(chain.parameters()[p]).role == Role::kScalar) continue;
    if (Error error = check_data(inputs.parameters[p].type)) return error;
  }
  std::vector<TensorType> types;
  for (size_t i = 0; i < num_outputs; ++i) {
    types.push_back(with_symbol(chain.output_type(static_cast<int>(i)), args.symbol));
    if (Error error = check_data(types.back())) return error;
  }
  Expected<Reference> reference = Reference::create(chain, inputs);
  if (!reference) return reference.takeError();
  const std::vector<std::vector<Interval>> results = reference->evaluate(args.threads);
  for (size_t i = 0; i < num_outputs; ++i) {
    store_output(types[i], results[i], args.tensors[num_inputs + i]);
  }
  return Error::success();
}

}  // namespace
}  // namespace catenary::c_api

using namespace catenary;
using namespace catenary::c_api;

ctn_status ctn_executable_launch(const ctn_executable* executable, const ctn_launch_args* args) {
  return guarded_launch([&]() -> Error {
    ctn_launch_args given;
    if (Error error = require(executable, "executable")) return error;
    if (Error error = read_struct(args, "args", given)) return error;
    if (Error error = require_array(given.tensors, given.num_tensors, "args->tensors")) {
      return error;
    }
    if (Error error = require_array(given.scalars, given.num_scalars, "args->scalars")) {
      return error;
    }
    LaunchArguments launch;
    launch.tensors = {given.tensors, given.num_tensors};
    launch.scalars = {given.scalars, given.num_scalars};
    launch.symbol = given.symbol;
    launch.workspace = given.workspace;
    launch.stream = static_cast<cuda::Stream>(given.stream);
    launch.allow_pdl = given.allow_pdl != 0;
    launch.disable_pdl = given.disable_pdl != 0;
    return executable->executable->launch(launch);
  });
}

ctn_status ctn_executable_workspace_bytes(const ctn_executable* executable, int64_t* bytes) {
  return guarded([&]() -> Error {
    if (Error error = require(executable, "executable", bytes, "bytes")) return error;
    *bytes = executable->executable->workspace_bytes();
    return Error::success();
  });
}

ctn_status ctn_executable_compiled(const ctn_executable* executable, ctn_compiled** compiled) {
  return guarded([&]() -> Error {
    if (Error error = require(executable, "executable", compiled, "compiled")) return error;
    *compiled = new ctn_compiled{executable->executable->record()};
    return Error::success();
  });
}

void ctn_executable_destroy(ctn_executable* executable) { delete executable; }

ctn_status ctn_reference_run(const ctn_chain* chain, const ctn_reference_args* args) {
  return guarded([&]() -> Error {
    ctn_reference_args given{};
    if (Error error = require(chain, "chain")) return error;
    if (Error error = read_struct(args, "args", given)) return error;
    Expected<VerifiedChain> verified = verify(ordered(*chain));
    if (!verified) return verified.takeError();
    return run_reference(*verified, given);
  });
}
