// SPDX-License-Identifier: Apache-2.0
#include "ir/log.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <mutex>
#include <string_view>
#include <type_traits>

#include "ir/callbacks.h"
#include "ir/file_limit.h"

namespace catenary {
namespace {

constexpr const char* kNames[] = {"off", "warn", "info", "debug"};
constexpr i32 kNotRead = -1;  // CATENARY_LOG
constexpr size_t kLineBytes = 8 << 10;

struct Line {
  LogLevel level;
  std::string text;
  Line* next = nullptr;
};

// The callback runs without the mutex. A thread that logs meanwhile leaves its line to the thread
// that delivers, and does not wait: the callback may wait for it, as for one that compiles.
struct Log {
  std::mutex mutex;  // guards what follows
  LogCallback callback = nullptr;
  void* user = nullptr;
  std::atomic<i32> level{kNotRead};  // is read without the mutex too
  Line* first = nullptr;             // the lines to deliver, in order
  Line* last = nullptr;
  // The process with a thread that takes the lines, and with one whose callback runs. 0: none. In a
  // child of fork() those threads do not exist.
  pid_t delivering = 0;
  std::atomic<pid_t> calling{0};
  std::atomic<u32> changing{0};  // threads in set_log(), whose turn is before the next line
};

// Threads may log until the process ends, so it has no destructor. logs() may not throw, so it
// needs no memory.
static_assert(std::is_trivially_destructible_v<Log>);
constinit Log the_log_of_all;

Log& the_log() { return the_log_of_all; }

// The lines of a callback that uses the library are lost: each would be another call.
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
void write_stderr(LogLevel level, const std::string& line) noexcept try {
  const char* const what =
      level == LogLevel::kWarn ? "warning" : kNames[static_cast<size_t>(level)];
  const std::string text = fmt::format("catenary: {}: {}\n", what, line);
  const WriteSignalBlocked pipe(SIGPIPE);
  const FileLimitIsAnError limit;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
} catch (...) {
}

// Null: there is none. Under the mutex.
std::unique_ptr<Line> take_line(Log& log) {
  std::unique_ptr<Line> line(log.first);
  if (!line) return nullptr;
  log.first = line->next;
  if (log.first == nullptr) log.last = nullptr;
  return line;
}

// Calls the callback with the mutex free, and then gives set_log() its turn.
void call_callback(Log& log, const Line& line, std::unique_lock<std::mutex>& lock) {
  const LogCallback callback = log.callback;
  void* const user = log.user;
  log.calling = ::getpid();
  lock.unlock();
  in_callback = true;
  try {
    callback(user, static_cast<i32>(line.level), line.text.c_str());
  } catch (...) {
  }
  in_callback = false;
  lock.lock();
  log.calling = 0;
  lock.unlock();
  log.calling.notify_all();
  while (const u32 threads = log.changing) log.changing.wait(threads);
  lock.lock();
}

void deliver(LogLevel level, std::string text) {
  Log& log = the_log();
  std::unique_ptr<Line> added(new Line{level, std::move(text)});
  std::unique_lock lock(log.mutex);
  Line*& end = log.last == nullptr ? log.first : log.last->next;
  end = log.last = added.release();
  if (log.delivering == ::getpid()) return;
  log.delivering = ::getpid();
  while (const std::unique_ptr<Line> line = take_line(log)) {
    if (static_cast<i32>(line->level) > log.level.load()) continue;
    if (log.callback == nullptr) {
      write_stderr(line->level, line->text);
    } else {
      call_callback(log, *line, lock);
    }
  }
  log.delivering = 0;
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
  ++log.changing;
  std::unique_lock lock(log.mutex);
  const pid_t self = ::getpid();
  while (log.calling == self && !in_callback) {
    lock.unlock();
    log.calling.wait(self);
    lock.lock();
  }
  log.callback = callback;
  log.user = user;
  log.level = static_cast<i32>(level);
  lock.unlock();
  --log.changing;
  log.changing.notify_all();
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
    std::string text = message_text(line, kLineBytes);
    if (CallbacksHeld::any()) {
      CallbacksHeld::add([level, text] { deliver(level, text); });
    } else {
      deliver(level, std::move(text));
    }
  } catch (...) {
  }
}

}  // namespace catenary
