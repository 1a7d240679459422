// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/bound_chain.h"

#include <algorithm>
#include <cstring>

#include "ir/text/text.h"

namespace catenary::gpu_suite {

Expected<BoundChain> BoundChain::make(Suite& suite, const std::string& text, i64 symbol,
                                      FillKind kind, u64 seed, const PlanOptions& plan,
                                      const std::vector<i32>& ends) {
  Expected<Chain> parsed = parse(text);
  if (!parsed) return parsed.takeError();
  Engine engine(suite.engine_options(plan));
  auto compiled = engine.compile(std::move(*parsed), suite.target());
  if (!compiled) return compiled.takeError();
  auto executable = engine.load(*compiled, 0, suite.stream());
  if (!executable) return executable.takeError();

  BoundChain bound;
  bound.compiled_ = *compiled;
  bound.executable_ = *executable;
  bound.symbol_ = symbol;
  const VerifiedChain& chain = bound.chain();
  const ChainData data = fill_chain(chain, symbol, kind, seed);
  const auto add = [&](const void* bytes, i64 count) -> Error {
    Expected<cuda::DeviceBuffer> buffer = cuda::DeviceBuffer::allocate(std::max<i64>(count, 16));
    if (!buffer) return buffer.takeError();
    if (bytes != nullptr && count > 0) {
      if (Error error = buffer->upload(bytes, count)) return error;
    }
    bound.tensors_.push_back(reinterpret_cast<void*>(buffer->get()));
    bound.buffers_.push_back(std::move(*buffer));
    return Error::success();
  };
  for (size_t p = 0; p < chain.parameters().size(); ++p) {
    const ValueId id = chain.parameters()[p];
    const std::vector<std::byte>& bytes = data.buffers[p];
    if (chain.value(id).role == Role::kScalar) {
      float scalar = 0;
      std::memcpy(&scalar, bytes.data(), sizeof scalar);
      bound.scalars_.push_back(scalar);
      continue;
    }
    const bool is_ends = chain.info(id).type.dtype == DType::kI32 && !ends.empty();
    const void* from = is_ends ? static_cast<const void*>(ends.data()) : bytes.data();
    if (Error error = add(from, static_cast<i64>(bytes.size()))) return error;
  }
  bound.first_output_ = bound.buffers_.size();
  for (size_t i = 0; i < chain.chain().outputs.size(); ++i) {
    if (chain.chain().outputs[i].in_place >= 0) {
      return make_error(ErrorCode::kUnsupported, "BoundChain has memory of its own for outputs");
    }
    const TensorType type = with_symbol(chain.output_type(static_cast<int>(i)), symbol);
    if (Error error = add(nullptr, span_bytes(type))) return error;
  }
  Expected<cuda::DeviceBuffer> workspace =
      cuda::DeviceBuffer::allocate(bound.executable().workspace_bytes());
  if (!workspace) return workspace.takeError();
  bound.workspace_ = std::move(*workspace);
  // Uploads go through the default stream, launches through another.
  if (Error error = suite.check(suite.api().ctx_synchronize(), "waiting for uploads")) return error;
  return bound;
}

LaunchArguments BoundChain::arguments(cuda::Stream stream) {
  LaunchArguments arguments;
  arguments.tensors = tensors_;
  arguments.scalars = scalars_;
  arguments.symbol = symbol_;
  arguments.workspace = workspace();
  arguments.stream = stream;
  return arguments;
}

Error BoundChain::poison(Suite& suite, size_t i, u8 byte) {
  const cuda::DeviceBuffer& buffer = buffers_[first_output_ + i];
  return suite.check(suite.api().memset_d8_async(
                         buffer.get(), byte, static_cast<size_t>(buffer.bytes()), suite.stream()),
                     "filling an output");
}

Expected<std::vector<u8>> BoundChain::read(Suite& suite, size_t i) const {
  const cuda::DeviceBuffer& buffer = buffers_[first_output_ + i];
  if (Error error =
          suite.check(suite.api().stream_synchronize(suite.stream()), "waiting for launches")) {
    return error;
  }
  std::vector<u8> bytes(static_cast<size_t>(buffer.bytes()));
  if (Error error = buffer.download(bytes.data(), buffer.bytes())) return error;
  return bytes;
}

}  // namespace catenary::gpu_suite
