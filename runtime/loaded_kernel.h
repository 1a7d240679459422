// SPDX-License-Identifier: Apache-2.0
// Cubin -> a function on one device. What is slow, or forbidden during stream capture, happens
// here: load, force the lazy load, raise the limit of dynamic shared memory. Knows no plan and no
// arguments.
#pragma once

#include <memory>

#include "compiler/emit/source.h"
#include "runtime/driver/api.h"

namespace catenary {

class LoadedKernel {
 public:
  // Loads `cubin` into the current context of this thread and allows the kernel `dynamic_smem`
  // bytes of dynamic shared memory. Errors: Driver::error().
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

// For its lifetime, driver calls of this thread that capture forbids are allowed: they do not break
// a capture on a stream that this library does not know.
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

// kNotWarmedCapture if `stream` is being captured. The null stream checks all blocking streams of
// the current context. A capture on a non-blocking stream is found only if that stream is given.
Error refuse_capture(const cuda::Driver& driver, cuda::Stream stream);

}  // namespace catenary
