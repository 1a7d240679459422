// SPDX-License-Identifier: Apache-2.0
#include "ir/callbacks.h"

#include <utility>

namespace catenary {
namespace {

// A plain pointer: threads may log after the end of their thread-local objects.
thread_local CallbacksHeld* outermost = nullptr;

}  // namespace

CallbacksHeld::CallbacksHeld() noexcept {
  if (outermost == nullptr) outermost = this;
}

CallbacksHeld::~CallbacksHeld() {
  if (outermost != this) return;
  outermost = nullptr;
  for (const std::function<void()>& call : waiting_) {
    try {
      call();
    } catch (...) {
    }
  }
}

bool CallbacksHeld::any() noexcept { return outermost != nullptr; }

void CallbacksHeld::add(std::function<void()> call) {
  outermost->waiting_.push_back(std::move(call));
}

}  // namespace catenary
