// SPDX-License-Identifier: Apache-2.0
// When callbacks of the user run. A callback may use the library, so it must not run while its
// thread holds a lock or does what other callers wait for.
#pragma once

#include <functional>
#include <vector>

namespace catenary {

// While one lives, the callbacks of this thread wait; the end of the outermost runs them, in order.
// Declared before the lock, so that it ends after it.
class CallbacksHeld {
 public:
  CallbacksHeld() noexcept;
  CallbacksHeld(const CallbacksHeld&) = delete;
  CallbacksHeld& operator=(const CallbacksHeld&) = delete;
  ~CallbacksHeld();  // what a callback throws is dropped

  // Whether one lives in this thread.
  static bool any() noexcept;
  // Keeps `call` for the end of the outermost, which there is. Throws std::bad_alloc.
  static void add(std::function<void()> call);

 private:
  std::vector<std::function<void()>> waiting_;
};

}  // namespace catenary
