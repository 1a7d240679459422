// SPDX-License-Identifier: Apache-2.0
#include "adapters/torch/operators.h"

#include <cstring>
#include <mutex>
#include <stdexcept>

#include "adapters/torch/call.h"
#include "adapters/torch/forward_mode.h"
#include "adapters/torch/versions.h"
#include "ir/default_numerics.h"
#include "ir/names.h"
#include "llvm/ADT/ScopeExit.h"

namespace catenary::torch_adapter {
namespace {

// run1 to run4: the chain's parameters in order, without scalars, to as many outputs. train1 to
// train4 are the same; Python gives them the gradients that `gradients` names.
constexpr const char* kSchemas[] = {
    "run1(Tensor[] inputs, int key, float[] scalars=[]) -> Tensor",
    "run2(Tensor[] inputs, int key, float[] scalars=[]) -> (Tensor, Tensor)",
    "run3(Tensor[] inputs, int key, float[] scalars=[]) -> (Tensor, Tensor, Tensor)",
    "run4(Tensor[] inputs, int key, float[] scalars=[]) -> (Tensor, Tensor, Tensor, Tensor)",
    "train1(Tensor[] inputs, int key, float[] scalars, int gradients) -> Tensor",
    "train2(Tensor[] inputs, int key, float[] scalars, int gradients) -> (Tensor, Tensor)",
    "train3(Tensor[] inputs, int key, float[] scalars, int gradients) -> (Tensor, Tensor, "
    "Tensor)",
    "train4(Tensor[] inputs, int key, float[] scalars, int gradients) -> (Tensor, Tensor, Tensor, "
    "Tensor)",
    "run_out(Tensor[] inputs, Tensor(a!)[] outs, int key, float[] scalars=[]) -> ()",
};

Shim& the_shim() {
  static Shim shim;
  return shim;
}

ForwardMode& the_forward_mode() {
  static ForwardMode mode;
  return mode;
}

Versions& the_versions() {
  static Versions versions;
  return versions;
}

std::mutex& registration_mutex() {
  static std::mutex mutex;
  return mutex;
}

bool& is_registered() {
  static bool registered = false;
  return registered;
}

// An exception is torch's only way for the error of an operator.
[[noreturn]] void fail(Error error) { throw std::runtime_error(error_sentence(std::move(error))); }

template <typename Handle>
Handle handle_of(Boxed boxed) {
  Handle handle;
  std::memcpy(&handle, &boxed, sizeof handle);
  return handle;
}

double float_of(Boxed boxed) {
  double number;
  std::memcpy(&number, &boxed, sizeof number);
  return number;
}

// The items of a list, which is deleted; `take` gets each.
template <typename Take>
Error read_list(const Shim& shim, Boxed boxed, const Take& take) {
  const auto list = handle_of<ListHandle>(boxed);
  const auto done = llvm::make_scope_exit([&] { shim.torch_delete_list(list); });
  size_t size = 0;
  if (Error error = shim_error(shim.torch_list_size(list, &size), "torch_list_size")) return error;
  for (size_t i = 0; i < size; ++i) {
    Boxed item = 0;
    if (Error error = shim_error(shim.torch_list_get_item(list, i, &item), "torch_list_get_item")) {
      return error;
    }
    take(item);
  }
  return Error::success();
}

Error read_tensors(const Shim& shim, Boxed list, Tensors& tensors) {
  return read_list(shim, list,
                   [&](Boxed item) { tensors.emplace_back(&shim, handle_of<TensorHandle>(item)); });
}

Error read_arguments(const Shim& shim, const Boxed* stack, CallArguments& arguments, i64& key) {
  size_t next = 0;
  Error inputs = read_tensors(shim, stack[next++], arguments.inputs);
  Error outputs = arguments.given_outputs ? read_tensors(shim, stack[next++], arguments.outputs)
                                          : Error::success();
  key = static_cast<i64>(stack[next++]);
  Error scalars = read_list(shim, stack[next], [&](Boxed item) {
    arguments.scalars.push_back(static_cast<float>(float_of(item)));
  });
  return llvm::joinErrors(llvm::joinErrors(std::move(inputs), std::move(outputs)),
                          std::move(scalars));
}

// The result has no tangent: without this error it would seem to depend on none.
Error check_tangents(const CallArguments& arguments) {
  const ForwardMode& mode = the_forward_mode();
  if (!mode.is_active()) return Error::success();
  const auto has_one = [&](const OwnedTensor& tensor) { return mode.has_tangent(tensor.get()); };
  if (llvm::none_of(arguments.inputs, has_one) && llvm::none_of(arguments.outputs, has_one)) {
    return Error::success();
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "a tensor of chain {} has a forward-mode tangent, and chains have gradients in "
                    "reverse mode only: use torch.func.vjp, grad or jacrev",
                    quoted(arguments.form->chain.chain().name));
}

void run(Boxed* stack, uint64_t num_results, bool on_gpu) {
  const Shim& shim = the_shim();
  CallArguments arguments;
  arguments.on_gpu = on_gpu;
  arguments.given_outputs = num_results == 0;
  i64 key = 0;
  if (Error error = read_arguments(shim, stack, arguments, key)) fail(std::move(error));
  Expected<const Form*> form = Registry::process().find(key);
  if (!form) fail(form.takeError());
  arguments.form = *form;
  if (Error error = check_tangents(arguments)) fail(std::move(error));
  const size_t outputs = arguments.form->outputs.size();
  if (num_results != 0 && outputs != num_results) {
    fail(make_error(ErrorCode::kInvalidArgument,
                    "the chain has {} outputs, and run{} returns {}: call run{}", outputs,
                    num_results, num_results, outputs));
  }
  if (Error error = call(shim, arguments)) fail(std::move(error));
  if (arguments.given_outputs) {
    for (const OwnedTensor& output : arguments.outputs) the_versions().count(output.get());
  }
  for (uint64_t i = 0; i < num_results; ++i) {
    TensorHandle handle = arguments.outputs[i].release();
    stack[i] = 0;
    std::memcpy(&stack[i], &handle, sizeof handle);
  }
}

void run_on_cpu(Boxed* stack, uint64_t, uint64_t num_results) {
  run(stack, num_results, /*on_gpu=*/false);
}
void run_on_gpu(Boxed* stack, uint64_t, uint64_t num_results) {
  run(stack, num_results, /*on_gpu=*/true);
}

std::string name_of(const char* schema) { return std::string(schema, std::strchr(schema, '(')); }

Error define_schemas(const Shim& shim) {
  LibraryHandle library = nullptr;
  if (Error error =
          shim_error(shim.aoti_torch_library_init_def("catenary", __FILE__, __LINE__, &library),
                     "aoti_torch_library_init_def")) {
    return error;
  }
  for (const char* schema : kSchemas) {
    if (Error error =
            shim_error(shim.aoti_torch_library_def(library, schema), "aoti_torch_library_def")) {
      return error;
    }
  }
  return Error::success();
}

Error implement(const Shim& shim, const char* dispatch_key, BoxedKernel kernel) {
  LibraryHandle library = nullptr;
  if (Error error = shim_error(
          shim.aoti_torch_library_init_impl("catenary", dispatch_key, __FILE__, __LINE__, &library),
          "aoti_torch_library_init_impl")) {
    return error;
  }
  for (const char* schema : kSchemas) {
    if (Error error = shim_error(
            shim.torch_library_impl(library, name_of(schema).c_str(), kernel, kShimVersion),
            "torch_library_impl")) {
      return error;
    }
  }
  return Error::success();
}

}  // namespace

Error register_operators(const OperatorOptions& options) {
  const std::lock_guard lock(registration_mutex());
  if (is_registered()) return Error::success();
  Expected<Shim> shim = open_shim(options.libtorch_cpu, options.libtorch_cuda);
  if (!shim) return shim.takeError();
  Expected<Versions> versions = Versions::open(options.libtorch_cpu);
  if (!versions) return versions.takeError();
  the_shim() = *shim;
  the_versions() = *versions;
  the_forward_mode() = ForwardMode::open(options.libtorch_cpu);
  if (options.define_schemas) {
    if (Error error = define_schemas(*shim)) return error;
  }
  if (Error error = implement(*shim, "CPU", run_on_cpu)) return error;
  if (!options.libtorch_cuda.empty()) {
    if (Error error = implement(*shim, "CUDA", run_on_gpu)) return error;
  }
  is_registered() = true;
  return Error::success();
}

const Shim* registered_shim() {
  const std::lock_guard lock(registration_mutex());
  return is_registered() ? &the_shim() : nullptr;
}

std::string error_sentence(Error error) {
  ErrorReport report = take_report(std::move(error));
  return fmt::format("{} [catenary {}]", report.message, error_code_name(report.code));
}

}  // namespace catenary::torch_adapter
