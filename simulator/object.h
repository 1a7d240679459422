// SPDX-License-Identifier: Apache-2.0
// A kernel compiled for the host, loaded into this process. simulate() binds it to a machine.
#pragma once

#include <memory>
#include <string>

#include "ir/error.h"
#include "llvm/ADT/ArrayRef.h"
#include "sim/machine.h"

namespace catenary::sim {

class Object {
 public:
  // Loads the bytes of a shared object (compiler/compile/host_compiler.h); each load is a separate
  // copy. kCacheIo: a file could not be written. kCompileFailed: the bytes are no loadable kernel.
  // kUnsupported: it is a kernel for another kMachineVersion.
  static Expected<std::shared_ptr<const Object>> load(llvm::ArrayRef<u8> image);

  // Wraps functions of this process: kernels that tests write in C++.
  static std::shared_ptr<const Object> over(BindFunction bind, CallFunction call);

  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object();

  BindFunction bind() const { return bind_; }
  CallFunction call() const { return call_; }
  // CTAs of an SM by the kernel's launch bounds, which share its registers.
  u32 min_ctas() const { return min_ctas_; }

 private:
  Object() = default;
  void* handle_ = nullptr;
  BindFunction bind_ = nullptr;
  CallFunction call_ = nullptr;
  u32 min_ctas_ = 1;
};

}  // namespace catenary::sim
