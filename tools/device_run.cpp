// SPDX-License-Identifier: Apache-2.0
#include "tools/device_run.h"

#include <algorithm>

#include "tools/progress.h"

namespace catenary::tools {
namespace {

constexpr i64 kGuardBytes = 4096;
constexpr u8 kUnwritten = 0xff;

i64 bytes_of(const TensorType& type) { return span_bytes(type); }

void* address(const cuda::DeviceBuffer& buffer, i64 offset) {
  return reinterpret_cast<void*>(buffer.get() + static_cast<cuda::DevicePtr>(offset));
}

// The arguments of a launch, and their device memory.
struct Arguments {
  std::vector<cuda::DeviceBuffer> buffers;
  std::vector<void*> tensors;
  std::vector<float> scalars;
  void* workspace = nullptr;
};

// With the bytes of the input that it is in place of, if there is one.
Error add_output(const TensorType& type, const HostTensor* input, Arguments& arguments) {
  auto buffer = cuda::DeviceBuffer::allocate(bytes_of(type) + 2 * kGuardBytes);
  if (!buffer) return buffer.takeError();
  if (Error error = buffer->fill(kUnwritten)) return error;
  if (input != nullptr) {
    if (Error error = buffer->upload(input->data, bytes_of(type), kGuardBytes)) return error;
  }
  arguments.tensors.push_back(address(*buffer, kGuardBytes));
  arguments.buffers.push_back(std::move(*buffer));
  return Error::success();
}

// Outputs in place of an input are its memory, between guard bands.
Error add_outputs(const VerifiedChain& chain, const ReferenceInputs& inputs,
                  llvm::ArrayRef<TensorType> types, Arguments& arguments) {
  for (size_t i = 0; i < types.size(); ++i) {
    const ValueId id = chain.chain().outputs[i].in_place;
    if (id < 0) {
      if (Error error = add_output(types[i], nullptr, arguments)) return error;
      continue;
    }
    size_t position = 0;  // among the parameters
    size_t tensor = 0;    // among those that are no scalars
    for (; chain.parameters()[position] != id; ++position) {
      tensor += chain.value(chain.parameters()[position]).role != Role::kScalar;
    }
    if (Error error = add_output(types[i], &inputs.parameters[position], arguments)) return error;
    arguments.tensors[tensor] = arguments.tensors.back();
  }
  return Error::success();
}

Error add_inputs(const VerifiedChain& chain, const ReferenceInputs& inputs, Arguments& arguments) {
  for (size_t p = 0; p < inputs.parameters.size(); ++p) {
    const HostTensor& tensor = inputs.parameters[p];
    if (chain.value(chain.parameters()[p]).role == Role::kScalar) {
      arguments.scalars.push_back(static_cast<float>(load_element(DType::kF32, tensor.data, 0)));
      continue;
    }
    Expected<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::allocate(bytes_of(tensor.type));
    if (!buffer) return buffer.takeError();
    if (Error error = buffer->upload(tensor.data, bytes_of(tensor.type))) return error;
    arguments.tensors.push_back(address(*buffer, 0));
    arguments.buffers.push_back(std::move(*buffer));
  }
  return Error::success();
}

Error add_workspace(i64 bytes, Arguments& arguments) {
  if (bytes == 0) return Error::success();
  auto buffer = cuda::DeviceBuffer::allocate(bytes);
  if (!buffer) return buffer.takeError();
  if (Error error = buffer->fill(kUnwritten)) return error;
  arguments.workspace = address(*buffer, 0);
  arguments.buffers.push_back(std::move(*buffer));
  return Error::success();
}

Error check_guard(const cuda::DeviceBuffer& buffer, i64 offset, const std::string& name,
                  const char* where) {
  std::vector<u8> guard(kGuardBytes);
  if (Error error = buffer.download(guard.data(), kGuardBytes, offset)) return error;
  const auto written = std::ranges::count_if(guard, [](u8 byte) { return byte != kUnwritten; });
  if (written == 0) return Error::success();
  return make_error(
      ErrorCode::kMismatch,
      "{} bytes {} output '{}' were written: a kernel of this chain writes outside of "
      "its output; please report the chain",
      written, where, name);
}

Expected<HostOutput> fetch(const cuda::DeviceBuffer& buffer, TensorType type,
                           const std::string& name) {
  HostOutput output{std::move(type), {}};
  const i64 bytes = bytes_of(output.type);
  output.bytes.resize(static_cast<size_t>(bytes));
  if (Error error = buffer.download(output.bytes.data(), bytes, kGuardBytes)) return error;
  if (Error error = check_guard(buffer, 0, name, "before")) return error;
  if (Error error = check_guard(buffer, kGuardBytes + bytes, name, "after")) return error;
  return output;
}

}  // namespace

Expected<std::vector<HostOutput>> run_on_device(const Executable& executable,
                                                const VerifiedChain& chain,
                                                const ReferenceInputs& inputs) {
  Expected<cuda::ScopedContext> scope = cuda::ScopedContext::primary(executable.device());
  if (!scope) return scope.takeError();
  std::vector<TensorType> types;
  Arguments arguments;
  if (Error error = add_inputs(chain, inputs, arguments)) return error;
  const size_t first_output = arguments.buffers.size();
  for (size_t i = 0; i < chain.chain().outputs.size(); ++i) {
    types.push_back(with_symbol(chain.output_type(static_cast<int>(i)), inputs.symbol));
  }
  if (Error error = add_outputs(chain, inputs, types, arguments)) return error;
  if (Error error = add_workspace(executable.workspace_bytes(), arguments)) return error;
  LaunchArguments launch;
  launch.tensors = arguments.tensors;
  launch.scalars = arguments.scalars;
  launch.symbol = inputs.symbol;
  launch.workspace = arguments.workspace;
  const Progress progress("running the kernels");
  if (Error error = executable.launch(launch)) return error;
  std::vector<HostOutput> outputs;
  const std::vector<std::string> names = output_names(chain);
  for (size_t i = 0; i < types.size(); ++i) {
    Expected<HostOutput> output = fetch(arguments.buffers[first_output + i], types[i], names[i]);
    if (!output) return output.takeError();
    outputs.push_back(std::move(*output));
  }
  return outputs;
}

}  // namespace catenary::tools
