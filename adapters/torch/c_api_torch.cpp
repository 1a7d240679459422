// SPDX-License-Identifier: Apache-2.0
// C ABI: the operators in PyTorch, and the chains that they run.
#include "adapters/torch/describe.h"
#include "adapters/torch/direct.h"
#include "adapters/torch/host_run.h"
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

ctn_status ctn_torch_direct(const ctn_torch_direct_options* options, void** function) {
  return guarded([&]() -> Error {
    ctn_torch_direct_options given{};
    if (Error error = require(function, "function")) return error;
    if (Error error = read_struct(options, "options", given)) return error;
    if (Error error = require(given.libc10, "options->libc10", given.libtorch_cpu,
                              "options->libtorch_cpu", given.exchange, "options->exchange")) {
      return error;
    }
    if (Error error = require(given.tensor_type, "options->tensor_type", given.parameter_type,
                              "options->parameter_type", given.empty_cpu, "options->empty_cpu")) {
      return error;
    }
    if (Error error = require(given.dtypes, "options->dtypes", given.admit, "options->admit")) {
      return error;
    }
    const Shim* shim = registered_shim();
    if (shim == nullptr) {
      return make_error(ErrorCode::kUnsupported,
                        "the operators are not registered: call ctn_torch_register first");
    }
    const auto object = [](void* pointer) { return static_cast<python::Object*>(pointer); };
    Expected<python::Object*> made = make_direct(
        *shim, {given.libc10, given.libtorch_cpu, given.exchange, object(given.tensor_type),
                object(given.parameter_type), object(given.empty_cpu), object(given.empty_cuda),
                object(given.dtypes), object(given.admit)});
    if (!made) return made.takeError();
    *function = *made;
    return Error::success();
  });
}

ctn_status ctn_torch_add_chain(const ctn_chain* chain, ctn_torch_layouts layouts, int64_t* key) {
  return guarded([&]() -> Error {
    if (Error error = require(chain, "chain", key, "key")) return error;
    const ctn_torch_layouts rule = layouts & ~CTN_TORCH_ALLOW_PDL;
    if (rule != CTN_TORCH_EXACT && rule != CTN_TORCH_FROM_TENSORS) {
      return make_error(ErrorCode::kInvalidArgument,
                        "layouts is {}: use values of ctn_torch_layouts", layouts);
    }
    Expected<VerifiedChain> verified = verify(ordered(*chain));
    if (!verified) return verified.takeError();
    Expected<i64> added = Registry::process().add(
        std::move(*verified),
        rule == CTN_TORCH_EXACT ? LayoutRule::kExact : LayoutRule::kFromTensors,
        (layouts & CTN_TORCH_ALLOW_PDL) != 0);
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
    Expected<const Form*> form = Registry::process().find(key);
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

ctn_status ctn_torch_set_pdl(int32_t allow) {
  return guarded([&]() -> Error {
    Registry::process().set_pdl(allow != 0);
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

namespace {

// Handles of the ABI are the registry's own objects.
const Bound* bound_of(const ctn_torch_binding* binding) {
  return reinterpret_cast<const Bound*>(binding);
}

Expected<std::vector<TensorLayout>> read_layouts(llvm::ArrayRef<ctn_torch_tensor> tensors,
                                                 Signature& signature) {
  std::vector<TensorLayout> layouts;
  for (const ctn_torch_tensor& tensor : tensors) {
    const bool known = (tensor.dtype >= CTN_BF16 && tensor.dtype <= CTN_I8) ||
                       tensor.dtype == CTN_E4M3 || tensor.dtype == CTN_E5M2;
    if (!known || tensor.rank < 0 || tensor.rank > kMaxRank) {
      return make_error(
          ErrorCode::kInvalidArgument,
          "tensor {} has dtype {} and {} dimensions: use CTN_BF16 to CTN_I8, CTN_E4M3 "
          "or CTN_E5M2, and at most {} dimensions",
          layouts.size(), tensor.dtype, tensor.rank, kMaxRank);
    }
    const auto rank = static_cast<size_t>(tensor.rank);
    if (rank > 0) {
      if (Error error = require(tensor.sizes, "sizes", tensor.strides, "strides")) return error;
    }
    TensorLayout layout;
    layout.dtype = static_cast<DType>(tensor.dtype);
    layout.sizes.assign(tensor.sizes, tensor.sizes + rank);
    layout.strides.assign(tensor.strides, tensor.strides + rank);
    layout.align = alignment_of(tensor.address);
    add_tensor(signature, tensor.dtype, layout.align, {tensor.sizes, rank}, {tensor.strides, rank});
    layouts.push_back(std::move(layout));
  }
  return layouts;
}

// Set apart from the operators' signatures, whose dtypes are torch's numbers.
constexpr i64 kAbiSignature = i64{1} << 32;

}  // namespace

ctn_status ctn_torch_bind(int64_t key, const ctn_torch_tensor* tensors, size_t num_tensors,
                          int32_t on_gpu, int32_t device, void* stream,
                          const ctn_torch_binding** binding) {
  return guarded([&]() -> Error {
    if (Error error = require(binding, "binding")) return error;
    if (num_tensors > 0) {
      if (Error error = require(tensors, "tensors")) return error;
    }
    Registry& registry = Registry::process();
    auto form = registry.find(key);
    if (!form) return form.takeError();
    const Place place = on_gpu != 0 ? Place::kGpu : registry.host_place();
    Signature signature = {key, static_cast<i64>(place) | kAbiSignature, device};
    auto layouts = read_layouts({tensors, num_tensors}, signature);
    if (!layouts) return layouts.takeError();
    const Bound* bound = registry.lookup(signature);
    if (bound == nullptr) {
      auto made = registry.bind(**form, *layouts, signature, place, device,
                                static_cast<cuda::Stream>(stream));
      if (!made) return made.takeError();
      bound = *made;
    }
    *binding = reinterpret_cast<const ctn_torch_binding*>(bound);
    return Error::success();
  });
}

namespace {

Error check_index(size_t index, size_t count, const char* what) {
  if (index < count) return Error::success();
  return make_error(ErrorCode::kInvalidArgument, "index {} names no {}: there are {}", index, what,
                    count);
}

}  // namespace

ctn_status ctn_torch_binding_output(const ctn_torch_binding* binding, size_t index,
                                    ctn_torch_tensor* output) {
  return guarded([&]() -> Error {
    if (Error error = require(binding, "binding", output, "output")) return error;
    const std::vector<TensorLayout>& outputs = bound_of(binding)->special.outputs;
    if (Error error = check_index(index, outputs.size(), "output")) return error;
    static_assert(sizeof(i64) == sizeof(int64_t));
    output->dtype = static_cast<ctn_dtype>(outputs[index].dtype);
    output->rank = static_cast<int32_t>(outputs[index].sizes.size());
    output->sizes = reinterpret_cast<const int64_t*>(outputs[index].sizes.data());
    output->strides = reinterpret_cast<const int64_t*>(outputs[index].strides.data());
    return Error::success();
  });
}

ctn_status ctn_torch_binding_copied(const ctn_torch_binding* binding, size_t index,
                                    int32_t* copied) {
  return guarded([&]() -> Error {
    if (Error error = require(binding, "binding", copied, "copied")) return error;
    const std::vector<bool>& all = bound_of(binding)->special.copied;
    if (Error error = check_index(index, all.size(), "tensor")) return error;
    *copied = all[index] ? 1 : 0;
    return Error::success();
  });
}

ctn_status ctn_torch_binding_workspace(const ctn_torch_binding* binding, int64_t* bytes) {
  return guarded([&]() -> Error {
    if (Error error = require(binding, "binding", bytes, "bytes")) return error;
    const Bound& bound = *bound_of(binding);
    *bytes = bound.place == Place::kGpu ? bound.executable->workspace_bytes() : 0;
    return Error::success();
  });
}

ctn_status ctn_torch_launch(const ctn_torch_binding* binding, const ctn_launch_args* args) {
  return guarded([&]() -> Error {
    ctn_launch_args given;
    if (Error error = require(binding, "binding")) return error;
    if (Error error = read_struct(args, "args", given)) return error;
    const Bound& bound = *bound_of(binding);
    const size_t tensors = bound.form->tensors.size() + bound.form->outputs.size();
    if (given.num_tensors != tensors || given.num_scalars != bound.form->num_scalars) {
      return make_error(ErrorCode::kInvalidArgument,
                        "the chain takes {} tensors and {} scalars, got {} and {}", tensors,
                        bound.form->num_scalars, given.num_tensors, given.num_scalars);
    }
    LaunchArguments launch;
    launch.tensors = {given.tensors, given.num_tensors};
    launch.scalars = {given.scalars, given.num_scalars};
    if (bound.place != Place::kGpu) return run_on_host(bound, launch.tensors, launch.scalars);
    launch.symbol = bound.special.symbol;
    launch.workspace = given.workspace;
    launch.stream = static_cast<cuda::Stream>(given.stream);
    launch.allow_pdl = given.allow_pdl != 0 || Registry::process().allow_pdl(*bound.form);
    launch.disable_pdl = given.disable_pdl != 0;
    return bound.executable->launch(launch);
  });
}
