// SPDX-License-Identifier: Apache-2.0
#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "tools/output.h"
#include "tools/terminal.h"

namespace catenary::tools {
namespace {

constexpr int kBarWidth = 30;
constexpr int kLeastBarWidth = 10;

Progress* innermost = nullptr;

std::string numbers(const ProgressState& state) {
  const std::string time = duration_text(state.seconds);
  if (state.share <= 0) return time;
  double left = state.seconds * (1 - state.share) / state.share;
  if (state.limit_seconds > 0) left = std::clamp(state.limit_seconds - state.seconds, 0.0, left);
  return fmt::format("{:3.0f}%, {}, about {} left", 100 * state.share, time, duration_text(left));
}

}  // namespace

std::string progress_line(const ProgressState& state) {
  const std::string text = numbers(state);
  return fmt::format("{}: {}", state.what, text.substr(text.find_first_not_of(' ')));
}

std::string progress_bar(const ProgressState& state, int columns) {
  const std::string text = numbers(state);
  std::string bar;
  const int room = columns - static_cast<int>(state.what.size() + text.size()) - 4;
  if (state.share > 0 && room >= kLeastBarWidth) {
    const int width = std::min(room, kBarWidth);
    const int full = static_cast<int>(state.share * width);
    bar = fmt::format(" [{}{}]", std::string(full, '#'), std::string(width - full, '.'));
  }
  // The end says how long it takes: a long name loses its end instead.
  const int name = std::max(columns - static_cast<int>(bar.size() + text.size()) - 1, 0);
  return fmt::format("{:.{}}{} {}", state.what, name, bar, text).substr(0, columns);
}

Progress::Progress(std::string what, i64 total, double limit_seconds, ProgressTimes times)
    : what_(std::move(what)),
      limit_seconds_(limit_seconds),
      times_(times),
      terminal_(is_terminal(STDERR_FILENO)),
      start_(std::chrono::steady_clock::now()),
      outer_(innermost),
      total_(total) {
  innermost = this;
  if (outer_ != nullptr || uses_json() || is_quiet()) return;
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {
    // Without a thread there is no display; the work goes on.
  }
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (watcher_.joinable()) {
    watcher_.join();
    clear_status();
  }
  innermost = outer_;
}

void Progress::advance(i64 units) {
  done_.fetch_add(units, std::memory_order_relaxed);
  part_.store(0, std::memory_order_relaxed);
  tell_outer();
}

void Progress::set(i64 done, i64 total) {
  total_.store(total, std::memory_order_relaxed);
  done_.store(done, std::memory_order_relaxed);
  tell_outer();
}

void Progress::tell_innermost(i64 done, i64 total) {
  if (innermost != nullptr) innermost->set(done, total);
}

void Progress::set_what(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
}

double Progress::share() const {
  const auto total = static_cast<double>(total_.load(std::memory_order_relaxed));
  if (total <= 0) return 0;
  const auto done = static_cast<double>(done_.load(std::memory_order_relaxed));
  return std::clamp((done + part_.load(std::memory_order_relaxed)) / total, 0.0, 1.0);
}

// Never less than before: the parts of a unit follow one another.
void Progress::tell_outer() const {
  if (outer_ == nullptr) return;
  const double part = std::max(outer_->part_.load(std::memory_order_relaxed), share());
  outer_->part_.store(part, std::memory_order_relaxed);
  outer_->tell_outer();
}

void Progress::watch() {
  std::unique_lock lock(mutex_);
  auto next = start_ + (terminal_ ? times_.first : times_.line);
  while (!wake_.wait_until(lock, next, [this] { return stop_; })) {
    const double seconds = std::chrono::duration<double>(next - start_).count();
    const ProgressState state{what_, share(), seconds, limit_seconds_};
    if (terminal_) {
      show_status(progress_bar(state, terminal_columns(STDERR_FILENO) - 1));
    } else if (stderr_has_room()) {
      err("catenary: {}\n", progress_line(state));
    }
    next += terminal_ ? times_.bar : times_.line;
  }
}

}  // namespace catenary::tools
