// SPDX-License-Identifier: Apache-2.0
// Cubin -> a function that can be launched on one device. Everything slow or forbidden during
// stream capture happens here: loading, forcing the lazy load, raising the shared-memory limit.
// Knows no plan and no arguments.
#pragma once

#include <memory>

#include "compiler/emit/source.h"
#include "runtime/driver/api.h"

namespace catenary {

class LoadedKernel {
 public:
  // Loads `cubin` into the context that is current on this thread and allows the kernel
  // `dynamic_smem` bytes of dynamic shared memory. Errors are the driver's (Driver::error).
  static Expected<std::shared_ptr<const LoadedKernel>> load(const cuda::Driver& driver,
                                                            const Cubin& cubin, i64 dynamic_smem);

  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
  ~LoadedKernel();

  cuda::Function function() const { return function_; }

 private:
  explicit LoadedKernel(const cuda::Driver& driver) : driver_(driver) {}
  const cuda::Driver& driver_;
  cuda::Library library_ = nullptr;
  cuda::Function function_ = nullptr;
};

// While it lives, calls of this thread that capture forbids are allowed and do not break a capture
// that this library cannot see.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const cuda::Driver& driver);
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture();

 private:
  const cuda::Driver& driver_;
  int mode_ = cuda::kCaptureModeRelaxed;
  bool exchanged_ = false;
};

// kNotWarmedCapture when `stream` is being captured. The null stream answers for the blocking
// streams of the current context; a capture on a non-blocking stream shows only when that stream is
// asked about.
Error refuse_capture(const cuda::Driver& driver, cuda::Stream stream);

}  // namespace catenary
