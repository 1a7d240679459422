// SPDX-License-Identifier: Apache-2.0
// The warnings of an engine's parts: one line per distinct problem.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <string>

#include "shared/int.h"

namespace catenary {

inline constexpr size_t kMaxWarningBytes = 8 << 10;  // of one warning: a path and its reason

// Thread-safe. The callback may use what warns: it runs without a lock, and after a CallbacksHeld.
class Warnings {
 public:
  // Without a callback the lines go to the log.
  explicit Warnings(std::function<void(const std::string&)> callback)
      : callback_(std::move(callback)) {}

  // Gives one line, unless it has been given before.
  void warn(const std::string& line);

 private:
  const std::function<void(const std::string&)> callback_;
  std::mutex mutex_;  // guards given_
  std::set<std::string> given_;
};

}  // namespace catenary
