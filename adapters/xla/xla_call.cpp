// SPDX-License-Identifier: Apache-2.0
// The custom calls of JAX: ctn_xla_cuda and ctn_xla_host, for every stage of a call. Attributes:
// chain (text), key (Chain.key), symbol (its size; 0 without one), scalars (f32, left out without
// one), host (of ctn_xla_host: a value of Host). Operands are the tensor parameters in order;
// results are the outputs, then, for kernels that need one, a workspace.
#include <cstring>

#include "adapters/program/program.h"
#include "adapters/xla/xla_ffi.h"
#include "ir/default_numerics.h"

namespace catenary::xla {
namespace {

using adapters::Host;
using adapters::Program;

Error* fail(const CallFrame& frame, const char* message, int32_t code) {
  ErrorCreate error{sizeof error, nullptr, message, code};
  return frame.api->error_create(&error);
}

int32_t code_of(ctn_status status) {
  switch (status) {
    case CTN_INVALID_ARGUMENT:
    case CTN_PARSE:
    case CTN_INVALID_CHAIN:
      return kInvalidArgument;
    case CTN_UNSUPPORTED:
      return kUnimplemented;
    case CTN_RESOURCE_LIMIT:
    case CTN_OUT_OF_MEMORY:
      return kResourceExhausted;
    case CTN_INTERNAL:
      return kInternal;
    default:
      return kFailedPrecondition;
  }
}

const void* attribute(const CallFrame& frame, std::string_view name, int32_t type) {
  for (int64_t i = 0; i < frame.attributes.size; ++i) {
    const Bytes& found = *frame.attributes.names[i];
    if (std::string_view(found.data, found.size) != name) continue;
    return frame.attributes.types[i] == type ? frame.attributes.values[i] : nullptr;
  }
  return nullptr;
}

int64_t integer(const CallFrame& frame, std::string_view name) {
  const auto* scalar = static_cast<const Scalar*>(attribute(frame, name, kScalar));
  if (scalar == nullptr || scalar->dtype != kS64) {
    throw std::invalid_argument("the call has no 64-bit integer '" + std::string(name) +
                                "': make it by catenary.jax");
  }
  int64_t value = 0;
  std::memcpy(&value, scalar->value, sizeof value);
  return value;
}

std::vector<float> scalars(const CallFrame& frame) {
  const auto* array = static_cast<const Array*>(attribute(frame, "scalars", kArray));
  if (array == nullptr || array->dtype != kF32) return {};
  std::vector<float> values(array->size);
  std::memcpy(values.data(), array->data, array->size * sizeof(float));
  return values;
}

std::shared_ptr<Program> program(const CallFrame& frame) {
  const auto* text = static_cast<const Bytes*>(attribute(frame, "chain", kString));
  if (text == nullptr) {
    throw std::invalid_argument("the call has no text 'chain': make it by catenary.jax");
  }
  return Program::find(integer(frame, "key"), {text->data, text->size});
}

int32_t xla_dtype(ctn::DType dtype) {
  switch (dtype) {
    case ctn::DType::bf16:
      return kBF16;
    case ctn::DType::f16:
      return kF16;
    case ctn::DType::f32:
      return kF32;
    case ctn::DType::i32:
      return kS32;
    case ctn::DType::e4m3:
      return kF8E4M3FN;
    case ctn::DType::e5m2:
      return kF8E5M2;
    case ctn::DType::i8:
    case ctn::DType::i4:
    case ctn::DType::u4:
      break;  // bytes
  }
  return kS8;
}

int64_t elements(const Buffer& buffer) {
  int64_t count = 1;
  for (int64_t d = 0; d < buffer.rank; ++d) count *= buffer.dims[d];
  return count;
}

// Elements of the buffer that holds a tensor: its bytes, where it is packed or has 4 bits.
int64_t wanted_elements(const ctn::Operand& tensor, int64_t symbol) {
  const bool nibbles = tensor.dtype == ctn::DType::i4 || tensor.dtype == ctn::DType::u4;
  if (tensor.packed || nibbles) return tensor.bytes;
  int64_t want = 1;
  for (const int64_t size : tensor.dims) want *= size == ctn::symbol ? symbol : size;
  return want;
}

// A buffer must have as many elements as the chain's tensor. The order of its dimensions is left to
// the caller, since the memory is the same. Bytes may be unsigned.
void check_buffer(const ctn::Operand& tensor, const Buffer& buffer, int64_t symbol) {
  const int64_t want = wanted_elements(tensor, symbol);
  const int32_t dtype = xla_dtype(tensor.dtype);
  const bool same = buffer.dtype == dtype || (dtype == kS8 && buffer.dtype == kU8);
  if (same && elements(buffer) == want) return;
  throw std::invalid_argument(
      "the buffer of '" + tensor.name + "' has " + std::to_string(elements(buffer)) +
      " elements of XLA's type " + std::to_string(buffer.dtype) + ", and the chain takes " +
      std::to_string(want) + " of type " + std::to_string(xla_dtype(tensor.dtype)));
}

// Addresses of tensors() of the program, and the workspace as the result after them.
struct Arguments {
  std::vector<void*> tensors;
  void* workspace = nullptr;
  int64_t workspace_bytes = 0;
};

Arguments arguments(const CallFrame& frame, const Program& program, int64_t symbol) {
  const std::vector<ctn::Operand>& tensors = program.tensors();
  const size_t num_inputs = tensors.size() - program.num_outputs();
  const auto extra = frame.results.size - static_cast<int64_t>(program.num_outputs());
  if (frame.arguments.size != static_cast<int64_t>(num_inputs) || extra < 0 || extra > 1) {
    throw std::invalid_argument("the call has " + std::to_string(frame.arguments.size) +
                                " operands and " + std::to_string(frame.results.size) +
                                " results, and the chain has " + std::to_string(num_inputs) +
                                " and " + std::to_string(program.num_outputs()));
  }
  Arguments result;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Buffer& buffer =
        i < num_inputs ? *frame.arguments.buffers[i] : *frame.results.buffers[i - num_inputs];
    check_buffer(tensors[i], buffer, symbol);
    result.tensors.push_back(buffer.data);
  }
  if (extra == 1) {
    const Buffer& workspace = *frame.results.buffers[program.num_outputs()];
    result.workspace = workspace.data;
    result.workspace_bytes = elements(workspace);
  }
  return result;
}

// An error that XLA made for this call, which destroys it.
class GivenError {
 public:
  GivenError(const Api& api, Error* error) : api_(api), error_(error) {}
  GivenError(const GivenError&) = delete;
  GivenError& operator=(const GivenError&) = delete;
  ~GivenError() {
    ErrorDestroy destroy{sizeof destroy, nullptr, error_};
    api_.error_destroy(&destroy);
  }
  std::string message() const {
    ErrorMessage get{sizeof get, nullptr, error_, nullptr, 0};
    api_.error_message(&get);
    return get.message == nullptr ? "" : get.message;
  }

 private:
  const Api& api_;
  Error* error_;
};

// Throws with `what` and XLA's reason if `error` is one.
void require(const CallFrame& frame, Error* error, const std::string& what) {
  if (error == nullptr) return;
  const GivenError given(*frame.api, error);
  throw std::invalid_argument(what + " (" + given.message() + "): run it on a CUDA device");
}

int device(const CallFrame& frame) {
  // Versions before 0.2 end before this entry.
  if (frame.api->struct_size < sizeof(Api) || frame.api->device_ordinal == nullptr) return 0;
  DeviceOrdinalGet get{sizeof get, nullptr, frame.context, 0};
  require(frame, frame.api->device_ordinal(&get), "XLA does not say which device the call is on");
  return get.ordinal;
}

void* stream(const CallFrame& frame) {
  StreamGet get{sizeof get, nullptr, frame.context, nullptr};
  require(frame, frame.api->stream_get(&get), "XLA gives the call no stream");
  return get.stream;
}

void launch(const CallFrame& frame) {
  const std::shared_ptr<Program> found = program(frame);
  const ctn::Executable& executable = found->on_device(device(frame));
  ctn::LaunchOptions options;
  options.symbol = integer(frame, "symbol");
  options.scalars = scalars(frame);
  const Arguments given = arguments(frame, *found, options.symbol);
  if (given.workspace_bytes < executable.workspace_bytes()) {
    throw std::invalid_argument("the workspace has " + std::to_string(given.workspace_bytes) +
                                " bytes, and the kernels need " +
                                std::to_string(executable.workspace_bytes()) +
                                ": trace the call again on a process that has the device");
  }
  options.workspace = given.workspace;
  const std::vector<const void*> tensors(given.tensors.begin(), given.tensors.end());
  executable.launch(stream(frame), tensors, options);
}

void run_on_host(const CallFrame& frame) {
  const int64_t host = integer(frame, "host");
  if (host != 0 && host != 1) {
    throw std::invalid_argument("host is " + std::to_string(host) + ": use a value of Host");
  }
  const std::shared_ptr<Program> found = program(frame);
  const int64_t symbol = integer(frame, "symbol");
  found->run_on_host(static_cast<Host>(host), arguments(frame, *found, symbol).tensors,
                     scalars(frame), symbol);
}

// The chain is parsed when a call is instantiated and compiled when its device is known, so that
// executing it, which XLA may do inside a command buffer, only launches.
void run_stage(const CallFrame& frame, bool cuda) {
  if (frame.stage == kInstantiate) program(frame);
  if (frame.stage == kInitialize && cuda) program(frame)->on_device(device(frame));
  if (frame.stage != kExecute) return;
  if (cuda) {
    launch(frame);
  } else {
    run_on_host(frame);
  }
}

bool answer_metadata(const CallFrame& frame) {
  for (Extension* at = frame.extension; at != nullptr; at = at->next) {
    if (at->type != kMetadataExtension) continue;
    Metadata& metadata = *reinterpret_cast<MetadataExtension*>(at)->metadata;
    metadata.version.major = kMajor;
    metadata.version.minor = std::min(frame.api->version.minor, kMinor);
    metadata.traits = kCommandBufferCompatible;
    return true;
  }
  return false;
}

Error* handle(CallFrame* frame, bool cuda) noexcept {
  if (answer_metadata(*frame)) return nullptr;
  const DefaultNumerics numerics;
  try {
    run_stage(*frame, cuda);
    return nullptr;
  } catch (const ctn::Error& error) {
    return fail(*frame, error.what(), code_of(error.code()));
  } catch (const std::bad_alloc&) {
    return fail(*frame, "out of memory: the call may be repeated", kResourceExhausted);
  } catch (const std::exception& error) {
    return fail(*frame, error.what(), kInvalidArgument);
  }
}

}  // namespace
}  // namespace catenary::xla

extern "C" {
CTN_API void* ctn_xla_cuda(void* frame);
CTN_API void* ctn_xla_host(void* frame);
}

void* ctn_xla_cuda(void* frame) {
  return catenary::xla::handle(static_cast<catenary::xla::CallFrame*>(frame), true);
}

void* ctn_xla_host(void* frame) {
  return catenary::xla::handle(static_cast<catenary::xla::CallFrame*>(frame), false);
}
