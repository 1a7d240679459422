// SPDX-License-Identifier: Apache-2.0
#include "ir/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "ir/file_limit.h"

namespace catenary {
namespace {

constexpr const char* kNames[] = {"off", "warn", "info", "debug"};
constexpr i32 kNotRead = -1;  // CATENARY_LOG
constexpr size_t kLineBytes = 8 << 10;

struct Log {
  std::mutex mutex;  // guards the callback
  LogCallback callback = nullptr;
  void* user = nullptr;
  std::atomic<i32> level{kNotRead};
};

// Threads may log until the process ends, so it has no destructor. logs() may not throw, so it
// needs no memory.
static_assert(std::is_trivially_destructible_v<Log>);
constinit Log the_log_of_all;

Log& the_log() { return the_log_of_all; }

// A callback that uses the library would wait for itself: its own lines are lost.
thread_local bool in_callback = false;

i32 level_of_environment() {
  const char* value = ::secure_getenv("CATENARY_LOG");
  const std::string_view text = value == nullptr ? "" : value;
  if (text.empty()) return static_cast<i32>(LogLevel::kOff);
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (text == kNames[i]) return static_cast<i32>(i);
  }
  return static_cast<i32>(LogLevel::kWarn);
}

bool environment_is_wrong() {
  const char* value = ::secure_getenv("CATENARY_LOG");
  if (value == nullptr || *value == '\0') return false;
  for (const char* name : kNames) {
    if (std::string_view(value) == name) return false;
  }
  return true;
}

// One write of one line: lines of several processes do not mix.
void write_stderr(LogLevel level, const std::string& line) {
  const char* const what =
      level == LogLevel::kWarn ? "warning" : kNames[static_cast<size_t>(level)];
  const std::string text = fmt::format("catenary: {}: {}\n", what, line);
  const WriteSignalBlocked pipe(SIGPIPE);
  const FileLimitIsAnError limit;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

void deliver(LogLevel level, const std::string& line) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (static_cast<i32>(level) > log.level.load()) return;
  if (log.callback == nullptr) return write_stderr(level, line);
  in_callback = true;
  try {
    log.callback(log.user, static_cast<i32>(level), line.c_str());
  } catch (...) {
  }
  in_callback = false;
}

void read_environment() {
  i32 not_read = kNotRead;
  if (!the_log().level.compare_exchange_strong(not_read, level_of_environment())) return;
  if (!environment_is_wrong()) return;
  log_event(LogLevel::kWarn, "CATENARY_LOG={} is not usable: give off, warn, info or debug",
            std::string(::secure_getenv("CATENARY_LOG")));
}

}  // namespace

void set_log(LogCallback callback, void* user, LogLevel level) {
  Log& log = the_log();
  std::unique_lock lock(log.mutex, std::defer_lock);
  if (!in_callback) lock.lock();  // else this thread holds it
  log.callback = callback;
  log.user = user;
  log.level = static_cast<i32>(level);
}

void reset_log() { set_log(nullptr, nullptr, static_cast<LogLevel>(kNotRead)); }

bool logs(LogLevel level) noexcept {
  const i32 most = the_log().level.load(std::memory_order_relaxed);
  if (most != kNotRead) return static_cast<i32>(level) <= most;
  try {
    read_environment();
  } catch (...) {
    return false;
  }
  return static_cast<i32>(level) <= the_log().level.load();
}

void write_log(LogLevel level, const std::string& line) noexcept {
  if (in_callback) return;
  try {
    deliver(level, message_text(line, kLineBytes));
  } catch (...) {
  }
}

}  // namespace catenary
