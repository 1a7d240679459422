// SPDX-License-Identifier: Apache-2.0
// What tests of the simulator's driver share: the driver, buffers of floats, a chain of one kernel.
#pragma once

#include <doctest/doctest.h>

#include "compiler/compile/host_compiler.h"
#include "runtime/driver/simulated_driver.h"
#include "runtime/engine.h"
#include "tests/support/affine_chain.h"
#include "tests/support/fake_driver.h"

namespace catenary::testing {

using namespace cuda;

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Like llvm::cantFail, which prints no message in a release build.
inline void must(Error error) {
  if (error) FAIL(take_report(std::move(error)).message);
}
template <typename T>
T must(Expected<T> result) {
  if (!result) FAIL(take_report(result.takeError()).message);
  return std::move(*result);
}

inline const cuda::Driver& driver() {
  must(cuda::use_simulator());
  return *must(cuda::Driver::get());
}
inline const cuda::Api& api() { return driver().api(); }

inline bool skipped() {
  auto compiler = HostCompiler::get();
  if (compiler) return false;
  llvm::consumeError(compiler.takeError());
  MESSAGE("skipped: no host compiler");
  return true;
}

inline EngineOptions for_host() {
  EngineOptions options = no_cache();
  options.backend = Backend::kHost;
  return options;
}

inline DeviceBuffer empty_buffer(i64 bytes) {
  REQUIRE(driver().simulated());
  return must(DeviceBuffer::allocate(bytes));
}

inline DeviceBuffer buffer_of(const std::vector<float>& values) {
  const i64 bytes = static_cast<i64>(values.size() * sizeof(float));
  DeviceBuffer buffer = empty_buffer(bytes);
  must(buffer.upload(values.data(), bytes));
  return buffer;
}

inline std::vector<float> floats_of(const DeviceBuffer& buffer) {
  std::vector<float> values(static_cast<size_t>(buffer.bytes()) / sizeof(float));
  must(buffer.download(values.data(), buffer.bytes()));
  return values;
}

inline void* address(const DeviceBuffer& buffer) { return reinterpret_cast<void*>(buffer.get()); }

// y = x + 1, 64 elements.
inline Chain increment_chain() {
  Chain chain;
  chain.name = "increment";
  TensorType type;
  type.shape = {{64, false}};
  const ValueId x = chain.parameter(Role::kInput, "x", type);
  const ValueId one = chain.constant(1);
  chain.returns(chain.elementwise(Op::kAdd, {Use{x, ""}, Use{one, ""}}, {}, "y"), DType::kF32);
  return chain;
}

inline LaunchArguments arguments_of(llvm::ArrayRef<void*> tensors, cuda::Stream stream = nullptr) {
  LaunchArguments arguments;
  arguments.tensors = tensors;
  arguments.stream = stream;
  return arguments;
}

}  // namespace catenary::testing
