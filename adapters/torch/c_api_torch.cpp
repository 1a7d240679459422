// SPDX-License-Identifier: Apache-2.0
// C ABI: the operators in PyTorch, and the chains that they run.
#include "adapters/torch/describe.h"
#include "adapters/torch/operators.h"
#include "adapters/torch/registry.h"
#include "ir/text/text.h"
#include "runtime/c_api/c_api.h"

using namespace catenary;
using namespace catenary::c_api;
using namespace catenary::torch_adapter;

ctn_status ctn_torch_register(const ctn_torch_options* options) {
  return guarded([&]() -> Error {
    ctn_torch_options given{};
    if (Error error = read_struct(options, "options", given)) return error;
    if (Error error = require(given.libtorch_cpu, "options->libtorch_cpu")) return error;
    OperatorOptions made;
    made.libtorch_cpu = given.libtorch_cpu;
    made.libtorch_cuda = text_or_empty(given.libtorch_cuda);
    made.define_schemas = given.define_schemas != 0;
    return register_operators(made);
  });
}

ctn_status ctn_torch_add_chain(const ctn_chain* chain, ctn_torch_layouts layouts, int64_t* key) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", key, "key")) return error;
    if (layouts != CTN_TORCH_EXACT && layouts != CTN_TORCH_FROM_TENSORS) {
      return make_error(ErrorCode::kInvalidArgument,
                        "layouts is {}: use a value of ctn_torch_layouts", layouts);
    }
    Expected<VerifiedChain> verified = verify(ordered(chain->chain));
    if (!verified) return verified.takeError();
    Expected<i64> added = Registry::process().add(
        std::move(*verified),
        layouts == CTN_TORCH_EXACT ? LayoutRule::kExact : LayoutRule::kFromTensors);
    if (!added) return added.takeError();
    *key = *added;
    return Error::success();
  });
}

ctn_status ctn_torch_add_pack(const ctn_pack* pack, size_t* count) {
  return guarded([&]() -> Error {
    if (Error error = require(pack, "pack")) return error;
    size_t added = 0;
    for (size_t i = 0; i < pack->pack->size(); ++i) {
      Expected<PackEntry> entry = pack->pack->entry(i);
      if (!entry) return entry.takeError();
      Expected<Chain> chain = parse(entry->record.text);
      if (!chain) return chain.takeError();
      Expected<VerifiedChain> verified = verify(std::move(*chain));
      if (!verified) return verified.takeError();
      Expected<i64> key = Registry::process().add(std::move(*verified), LayoutRule::kExact);
      if (!key) return key.takeError();
      ++added;
    }
    if (count != nullptr) *count = added;
    return Error::success();
  });
}

ctn_status ctn_torch_describe(int64_t key, char** json) {
  return guarded([&]() -> Error {
    if (Error error = require(json, "json")) return error;
    Expected<std::shared_ptr<const Form>> form = Registry::process().find(key);
    if (!form) return form.takeError();
    *json = copy_text(describe(**form));
    return Error::success();
  });
}

ctn_status ctn_torch_report(char** json) {
  return guarded([&]() -> Error {
    if (Error error = require(json, "json")) return error;
    *json = copy_text(Registry::process().report());
    return Error::success();
  });
}

ctn_status ctn_torch_use_engine(ctn_engine* engine) {
  return guarded([&]() -> Error {
    Registry::process().use(engine == nullptr ? nullptr : &engine->engine);
    return Error::success();
  });
}

ctn_status ctn_torch_set_host(ctn_torch_host host) {
  return guarded([&]() -> Error {
    if (host != CTN_TORCH_REFERENCE && host != CTN_TORCH_SIMULATOR) {
      return make_error(ErrorCode::kInvalidArgument, "host is {}: use a value of ctn_torch_host",
                        host);
    }
    if (host == CTN_TORCH_SIMULATOR) {
      Expected<bool> chosen = cuda::simulator_chosen();
      if (!chosen) return chosen.takeError();
      if (!*chosen) {
        return make_error(ErrorCode::kInvalidArgument,
                          "the simulator is not this process's device: set CATENARY_DEVICE=sim "
                          "before the process starts");
      }
    }
    Registry::process().set_host_place(host == CTN_TORCH_SIMULATOR ? Place::kSimulator
                                                                   : Place::kReference);
    return Error::success();
  });
}
