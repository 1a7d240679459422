// SPDX-License-Identifier: Apache-2.0
// The opaque handles that the simulator gives out. A handle that is destroyed or was never given
// out is detected before it is dereferenced, and is a fault with a name.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "ir/error.h"

namespace catenary::cuda {

// "[invalid_handle: ...]" as in the simulator's other faults.
inline Error invalid_handle(const char* kind, const void* handle, bool destroyed) {
  return make_error(ErrorCode::kSimulatorFault,
                    "{} {} {} [invalid_handle: a call gets only handles that the driver made and "
                    "that are not destroyed]",
                    kind, handle, destroyed ? "is destroyed" : "was not made by this driver");
}

// Thread-safe. A call that uses an object holds it: another thread may destroy the handle
// meanwhile.
template <typename T>
class Handles {
 public:
  explicit Handles(const char* kind) : kind_(kind) {}

  T* add(std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    T* handle = object.get();
    destroyed_.erase(handle);
    live_[handle] = std::move(object);
    return handle;
  }

  // kSimulatorFault: the handle is not live.
  Expected<std::shared_ptr<T>> find(T* handle) const {
    const std::lock_guard lock(mutex_);
    if (const auto it = live_.find(handle); it != live_.end()) return it->second;
    return invalid_handle(kind_, handle, destroyed_.count(handle) != 0);
  }

  // Ends the handle and returns its object. kSimulatorFault as find().
  Expected<std::shared_ptr<T>> remove(T* handle) {
    Expected<std::shared_ptr<T>> object = find(handle);
    const std::lock_guard lock(mutex_);
    // Only a message depends on it, so some may be forgotten in a program with many handles.
    if (destroyed_.size() >= kRemembered) destroyed_.clear();
    if (object && live_.erase(handle) != 0) destroyed_.insert(handle);
    return object;
  }

 private:
  static constexpr size_t kRemembered = 4096;

  const char* const kind_;
  mutable std::mutex mutex_;
  std::map<const T*, std::shared_ptr<T>> live_;
  std::set<const T*> destroyed_;
};

}  // namespace catenary::cuda
