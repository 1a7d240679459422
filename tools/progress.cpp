// SPDX-License-Identifier: Apache-2.0
#include "tools/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "tools/output.h"

namespace catenary::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstUpdate = 2s;
constexpr auto kBarInterval = 200ms;
constexpr auto kLineInterval = 10s;
constexpr int kBarWidth = 30;

}  // namespace

Progress::Progress(std::string what, i64 total, double limit_seconds)
    : what_(std::move(what)),
      total_(total),
      limit_seconds_(limit_seconds),
      terminal_(::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {
    // Without a thread there is no progress line; the work goes on.
  }
}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (watcher_.joinable()) watcher_.join();
  if (drawn_ && terminal_) err("\r\x1b[K");
}

void Progress::watch() {
  std::unique_lock lock(mutex_);
  auto next = start_ + (terminal_ ? std::chrono::steady_clock::duration(kFirstUpdate)
                                  : std::chrono::steady_clock::duration(kLineInterval));
  while (!wake_.wait_until(lock, next, [this] { return stop_; })) {
    show(std::chrono::duration<double>(next - start_).count());
    drawn_ = true;
    if (terminal_) {
      next += kBarInterval;
    } else {
      next += kLineInterval;
    }
  }
}

void Progress::show(double seconds) {
  const i64 done = std::min(done_.load(std::memory_order_relaxed), total_);
  const double fraction = total_ > 0 ? static_cast<double>(done) / static_cast<double>(total_) : 0;
  std::string state = fmt::format("{:.0f} s", seconds);
  if (total_ > 0) {
    state = fmt::format("{:3.0f}%, {}", 100 * fraction, state);
    double left = fraction > 0 ? seconds * (1 - fraction) / fraction : 0;
    if (limit_seconds_ > 0) left = std::clamp(limit_seconds_ - seconds, 0.0, left);
    if (fraction > 0) state += fmt::format(", about {:.0f} s left", left);
  }
  if (!terminal_) {
    err("catenary: {}: {}\n", what_, state);
    return;
  }
  std::string bar;
  if (total_ > 0) {
    const int full = static_cast<int>(fraction * kBarWidth);
    bar = fmt::format(" [{}{}]", std::string(full, '#'), std::string(kBarWidth - full, '.'));
  }
  err("\r{}{} {}\x1b[K", what_, bar, state);
  std::fflush(stderr);
}

}  // namespace catenary::tools
