// SPDX-License-Identifier: Apache-2.0
#include "runtime/warnings.h"

#include "ir/callbacks.h"
#include "ir/error.h"
#include "ir/log.h"

namespace catenary {
namespace {

constexpr size_t kMaxWarnings = 1024;

}  // namespace

void Warnings::warn(const std::string& line) {
  {
    const std::lock_guard lock(mutex_);
    if (given_.size() >= kMaxWarnings || !given_.insert(line).second) return;
  }
  if (!callback_) {
    log_event(LogLevel::kWarn, "{}", line);
  } else if (CallbacksHeld::any()) {
    const auto call = [callback = callback_, text = message_text(line, kMaxWarningBytes)] {
      callback(text);
    };
    CallbacksHeld::add(call);
  } else {
    callback_(message_text(line, kMaxWarningBytes));
  }
}

}  // namespace catenary
