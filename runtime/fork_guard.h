// SPDX-License-Identifier: Apache-2.0
// fork() while another thread compiles leaves the child with locks that no thread releases. The
// caches, NVRTC and the loader hold such locks. The child refuses to compile instead of hanging.
#pragma once

#include <utility>

#include "ir/error.h"

namespace catenary {

// Held during a call that takes locks. May be nested.
class ForkGuard {
 public:
  // kInvalidArgument: this process is a child that was forked during such a call.
  static Expected<ForkGuard> enter();

  ForkGuard(ForkGuard&& other) noexcept : held_(std::exchange(other.held_, false)) {}
  ForkGuard& operator=(ForkGuard&&) = delete;
  ~ForkGuard();

 private:
  ForkGuard() = default;
  bool held_ = true;
};

}  // namespace catenary
