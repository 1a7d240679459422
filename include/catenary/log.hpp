// SPDX-License-Identifier: Apache-2.0
// The library's log as a C++ callback. Part of catenary.hpp.
#ifndef CATENARY_LOG_HPP
#define CATENARY_LOG_HPP

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "Catenary's C++ headers need C++20: compile with -std=c++20 (C: include catenary/catenary.h)"
#else

#include <functional>
#include <memory>
#include <mutex>

#include "catenary/catenary.h"
#include "catenary/error.hpp"

namespace ctn {

// What is logged; each level has the lines of those before it.
enum class LogLevel : ctn_log_level {
  off = CTN_LOG_OFF,
  warn = CTN_LOG_WARN,
  info = CTN_LOG_INFO,
  debug = CTN_LOG_DEBUG
};

// Gets one line of the log, which is valid during the call.
using LogCallback = std::function<void(LogLevel level, const char* line)>;

// Sends the log of the whole process, up to `level`, to `callback`, one call at a time, from any
// thread. What the callback throws is dropped. Not to be called from a callback.
inline void set_log(LogCallback callback, LogLevel level) {
  // Never destroyed: threads may log while the process ends.
  static std::mutex& mutex = *new std::mutex;
  static std::unique_ptr<LogCallback>& current = *new std::unique_ptr<LogCallback>;
  auto next = std::make_unique<LogCallback>(std::move(callback));
  const std::lock_guard lock(mutex);
  check(ctn_set_log(
      [](void* user, ctn_log_level at, const char* line) {
        (*static_cast<LogCallback*>(user))(static_cast<LogLevel>(at), line);
      },
      next.get(), static_cast<ctn_log_level>(level)));
  current = std::move(next);  // the one before is not called again
}

// The log as CATENARY_LOG says, to stderr.
inline void reset_log() { ctn_reset_log(); }

}  // namespace ctn

#endif  // C++20
#endif  // CATENARY_LOG_HPP
