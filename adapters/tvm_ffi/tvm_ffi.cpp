// SPDX-License-Identifier: Apache-2.0
// Functions of TVM's FFI, found by name in this library (tvm_ffi.load_module): prepare, run,
// workspace_bytes. A chain is named by its key; callers allocate outputs and the workspace.
#include "adapters/tvm_ffi/tvm_ffi.h"

#include <dlfcn.h>

#include <climits>
#include <optional>

#include "adapters/program/program.h"
#include "catenary/dlpack.hpp"
#include "ir/default_numerics.h"

namespace catenary::tvm_ffi {
namespace {

using adapters::Host;
using adapters::Program;
using Arguments = std::span<const Any>;

constexpr const char* kRun = "run(key, parameters..., outputs..., [workspace])";

// A function of libtvm_ffi, which the process has loaded when it calls us.
template <typename Function>
Function runtime(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

int fail(const char* kind, const char* message) {
  using SetError = void (*)(const char*, const char*);
  static const auto set = runtime<SetError>("TVMFFIErrorSetRaisedFromCStr");
  if (set != nullptr) set(kind, message);
  return -1;
}

[[noreturn]] void wrong(size_t index, const char* want) {
  throw std::invalid_argument("argument " + std::to_string(index) + " is not " + want);
}

std::string_view text(Arguments arguments, size_t i) {
  const Any& any = arguments[i];
  if (any.type == kRawText) return any.text;
  if (any.type == kSmallText) return {any.bytes, any.small_size};
  if (any.type != kText) wrong(i, "chain text");
  const auto* bytes =
      reinterpret_cast<const ByteArray*>(static_cast<const char*>(any.pointer) + kObjectHeader);
  return {bytes->data, bytes->size};
}

int64_t integer(Arguments arguments, size_t i) {
  if (arguments[i].type != kInt) wrong(i, "an integer");
  return arguments[i].integer;
}

int device_number(Arguments arguments, size_t i) {
  const int64_t number = integer(arguments, i);
  if (number >= 0 && number <= INT_MAX) return static_cast<int>(number);
  throw std::invalid_argument("device_id is " + std::to_string(number) +
                              ": pass the number of a device, from 0");
}

float number(Arguments arguments, size_t i) {
  const Any& any = arguments[i];
  if (any.type == kFloat) return static_cast<float>(any.number);
  if (any.type == kInt) return static_cast<float>(any.integer);
  wrong(i, "a number, and the chain has a scalar there");
}

const ctn::DLPackTensor* tensor(Arguments arguments, size_t i) {
  const Any& any = arguments[i];
  if (any.type == kDLTensor) return static_cast<const ctn::DLPackTensor*>(any.pointer);
  if (any.type != kTensor) wrong(i, "a tensor");
  return reinterpret_cast<const ctn::DLPackTensor*>(static_cast<const char*>(any.pointer) +
                                                    kObjectHeader);
}

std::shared_ptr<Program> program(Arguments arguments) {
  std::shared_ptr<Program> found = Program::known(integer(arguments, 0));
  if (found) return found;
  throw std::invalid_argument("the key " + std::to_string(arguments[0].integer) +
                              " names no chain of this process: call prepare first");
}

void need(Arguments arguments, size_t least, const char* signature) {
  if (arguments.size() >= least) return;
  throw std::invalid_argument("got " + std::to_string(arguments.size()) + " arguments: call " +
                              signature);
}

// prepare(text, device_type, device_id) -> key. On a GPU the chain is compiled and loaded.
int64_t prepare(Arguments arguments) {
  need(arguments, 3, "prepare(text, device_type, device_id)");
  const std::shared_ptr<Program> made = Program::of(ctn::Chain::parse(text(arguments, 0)));
  const int64_t type = integer(arguments, 1);
  if (type != kCpu && type != kCuda) {
    throw std::invalid_argument("device_type is " + std::to_string(type) +
                                ": use 1 for the CPU or 2 for CUDA");
  }
  if (type == kCuda) made->on_device(device_number(arguments, 2));
  return made->key();
}

// workspace_bytes(key, device_id) -> bytes of device memory that run() needs; aligned to 256.
int64_t workspace_bytes(Arguments arguments) {
  need(arguments, 2, "workspace_bytes(key, device_id)");
  return program(arguments)->on_device(device_number(arguments, 1)).workspace_bytes();
}

struct Run {
  std::vector<const ctn::DLPackTensor*> tensors;
  std::vector<float> scalars;
  const ctn::DLPackTensor* workspace = nullptr;
};

// The arguments after the key: parameters in order, outputs, a workspace.
Run read_run(Arguments arguments, const ctn::Operands& chain) {
  Run run;
  size_t next = 1;
  for (const ctn::Operand& operand : chain.operands) {
    need(arguments, next + 1, kRun);
    if (!operand.is_output && operand.role == CTN_SCALAR) {
      run.scalars.push_back(number(arguments, next++));
    } else {
      run.tensors.push_back(tensor(arguments, next++));
    }
  }
  if (next < arguments.size()) run.workspace = tensor(arguments, next++);
  if (next < arguments.size()) {
    throw std::invalid_argument("got " + std::to_string(arguments.size()) + " arguments: call " +
                                kRun);
  }
  return run;
}

// Bytes of the tensor's elements from the first on without a gap; 0 if there are gaps.
int64_t contiguous_bytes(const ctn::DLPackTensor& tensor) {
  int64_t elements = 1;
  for (int32_t d = tensor.ndim; d-- > 0;) {
    const bool gap = tensor.strides != nullptr && tensor.strides[d] != elements;
    if (gap && tensor.shape[d] > 1) return 0;
    elements *= tensor.shape[d];
  }
  return elements * tensor.bits * tensor.lanes / 8;
}

// The address of a workspace with at least `bytes` bytes on `device`; null where none is needed.
void* workspace_of(const ctn::DLPackTensor* given, int64_t bytes, int device) {
  if (bytes == 0) return nullptr;
  const std::string need = "the kernels need a workspace of " + std::to_string(bytes) + " bytes";
  if (given == nullptr) throw std::invalid_argument(need + ": pass it after the outputs");
  if (given->device_type != kCuda || given->device_id != device) {
    throw std::invalid_argument(
        need + " on device " + std::to_string(device) + ", and it is on DLPack's device " +
        std::to_string(given->device_type) + ", number " + std::to_string(given->device_id) +
        ": allocate it where the tensors are");
  }
  if (const int64_t has = contiguous_bytes(*given); has < bytes) {
    throw std::invalid_argument(need + ", and it has " + std::to_string(has) +
                                " contiguous ones: ask workspace_bytes for the size");
  }
  return static_cast<char*>(given->data) + given->byte_offset;
}

void launch(Program& program, const Run& run, const ctn::DLPackArguments& bound, int device) {
  using GetStream = void* (*)(int32_t, int32_t);
  static const auto get_stream = runtime<GetStream>("TVMFFIEnvGetStream");
  const ctn::Executable& executable = program.on_device(device);
  ctn::LaunchOptions options;
  options.scalars = run.scalars;
  options.symbol = bound.symbol;
  options.workspace = workspace_of(run.workspace, executable.workspace_bytes(), device);
  executable.launch(get_stream == nullptr ? nullptr : get_stream(kCuda, device), bound.tensors,
                    options);
}

// run(key, parameters..., outputs..., [workspace]): on the current stream of the tensors' device;
// on the CPU by the simulator where that is the process's device, else by the reference.
void run(Arguments arguments) {
  need(arguments, 1, kRun);
  const std::shared_ptr<Program> found = program(arguments);
  const Run given = read_run(arguments, found->operands());
  const ctn::DLPackArguments bound = ctn::bind_dlpack(found->operands(), given.tensors);
  const ctn::DLPackTensor& first = *given.tensors.front();
  for (const ctn::DLPackTensor* tensor : given.tensors) {
    if (tensor->device_type == first.device_type && tensor->device_id == first.device_id) continue;
    throw std::invalid_argument("the tensors are on several devices: move all to one");
  }
  if (first.device_type == kCuda) return launch(*found, given, bound, first.device_id);
  if (first.device_type != kCpu) {
    throw std::invalid_argument("the tensors are on DLPack's device " +
                                std::to_string(first.device_type) + ": use the CPU or CUDA");
  }
  std::vector<void*> tensors;
  for (const void* address : bound.tensors) tensors.push_back(const_cast<void*>(address));
  found->run_on_host(ctn::is_simulator() ? Host::kSimulator : Host::kReference, tensors,
                     given.scalars, bound.symbol);
}

// No exception leaves the library: an error is set in TVM's runtime. A `body` returns the result.
template <typename Body>
int answer(const Any* arguments, int32_t count, Any* result, const Body& body) noexcept {
  const DefaultNumerics numerics;
  try {
    const std::optional<int64_t> value = body(Arguments(arguments, static_cast<size_t>(count)));
    *result = Any{value ? kInt : kNone, 0, {.integer = value.value_or(0)}};
    return 0;
  } catch (const ctn::Error& error) {
    return fail(error.code() == CTN_OUT_OF_MEMORY   ? "MemoryError"
                : error.code() <= CTN_INVALID_CHAIN ? "ValueError"
                                                    : "RuntimeError",
                error.what());
  } catch (const std::bad_alloc&) {
    return fail("MemoryError", "out of memory: the call may be repeated");
  } catch (const std::exception& error) {
    return fail("ValueError", error.what());
  }
}

}  // namespace
}  // namespace catenary::tvm_ffi

using catenary::tvm_ffi::answer;
using catenary::tvm_ffi::Any;

extern "C" {
CTN_API int __tvm_ffi_prepare(void* handle, const Any* arguments, int32_t count, Any* result);
CTN_API int __tvm_ffi_run(void* handle, const Any* arguments, int32_t count, Any* result);
CTN_API int __tvm_ffi_workspace_bytes(void* handle, const Any* arguments, int32_t count,
                                      Any* result);
}

int __tvm_ffi_prepare(void*, const Any* arguments, int32_t count, Any* result) {
  return answer(arguments, count, result, [](auto given) -> std::optional<int64_t> {
    return catenary::tvm_ffi::prepare(given);
  });
}

int __tvm_ffi_run(void*, const Any* arguments, int32_t count, Any* result) {
  return answer(arguments, count, result, [](auto given) -> std::optional<int64_t> {
    catenary::tvm_ffi::run(given);
    return std::nullopt;
  });
}

int __tvm_ffi_workspace_bytes(void*, const Any* arguments, int32_t count, Any* result) {
  return answer(arguments, count, result, [](auto given) -> std::optional<int64_t> {
    return catenary::tvm_ffi::workspace_bytes(given);
  });
}
