// SPDX-License-Identifier: Apache-2.0
// A small chain with a separate allocation per tensor, ready to launch; for the modes other than
// --configs.
#pragma once

#include "ir/random/fill.h"
#include "tests/gpu/suite.h"

namespace catenary::gpu_suite {

class BoundChain {
 public:
  // Parses, compiles, loads; fills inputs with `kind` and ragged ends with `ends`. Outputs and
  // workspace stay as allocated.
  static Expected<BoundChain> make(Suite& suite, const std::string& text, i64 symbol, FillKind kind,
                                   u64 seed, const PlanOptions& plan = {},
                                   const std::vector<i32>& ends = {});

  const Executable& executable() const { return *executable_; }
  std::shared_ptr<const CompiledChain> compiled() const { return compiled_; }
  const VerifiedChain& chain() const { return compiled_->chain; }

  // Arguments with this chain's memory; they point into the object.
  LaunchArguments arguments(cuda::Stream stream);
  std::vector<void*>& tensors() { return tensors_; }
  size_t first_output() const { return first_output_; }
  void* workspace() const { return reinterpret_cast<void*>(workspace_.get()); }
  i64 tensor_bytes(size_t i) const { return buffers_[i].bytes(); }

  // Fills the memory of output `i` on the stream; waits for the stream and reads it.
  Error poison(Suite& suite, size_t i, u8 byte);
  Expected<std::vector<u8>> read(Suite& suite, size_t i) const;

 private:
  std::shared_ptr<const CompiledChain> compiled_;
  std::shared_ptr<const Executable> executable_;
  std::vector<cuda::DeviceBuffer> buffers_;  // tensors in launch order
  cuda::DeviceBuffer workspace_;
  std::vector<void*> tensors_;
  std::vector<float> scalars_;
  size_t first_output_ = 0;
  i64 symbol_ = 0;
};

}  // namespace catenary::gpu_suite
