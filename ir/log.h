// SPDX-License-Identifier: Apache-2.0
// What the library does, as text: one line per event. Nothing depends on the log: a line that
// cannot be made or written is lost.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "ir/error.h"

namespace catenary {

// Values are part of the C ABI (ctn_log_level in catenary.h).
enum class LogLevel : i32 {
  kOff = 0,
  kWarn = 1,   // problems that do not stop the library
  kInfo = 2,   // what was planned, compiled, found and loaded, with times
  kDebug = 3,  // keys, files, reasons of misses, processes
};

using LogCallback = void (*)(void* user, i32 level, const char* line);

// Process-wide. Lines up to `level` go to `callback`, one at a time, from any thread; null: to
// stderr as "catenary: info: ...". After the return the previous callback is not called again,
// unless set_log() was called from it. No lock is held while a callback runs: it may use the
// library, and threads that log meanwhile do not wait.
void set_log(LogCallback callback, void* user, LogLevel level);

// The first state again: CATENARY_LOG=off|warn|info|debug says the level, and lines go to stderr;
// unset: off.
void reset_log();

// Whether lines of this level go anywhere. Takes no lock.
bool logs(LogLevel level) noexcept;

// Gives one line to the log.
void write_log(LogLevel level, const std::string& line) noexcept;

template <typename... Args>
void log_event(LogLevel level, fmt::format_string<Args...> format, Args&&... args) noexcept {
  if (!logs(level)) return;
  try {
    write_log(level, message_format(format, std::forward<Args>(args)...));
  } catch (...) {
  }
}

// Milliseconds since it was made.
class LogTimer {
 public:
  double ms() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace catenary
