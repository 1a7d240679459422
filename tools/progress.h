// SPDX-License-Identifier: Apache-2.0
// Progress of one step of long work, on stderr: nothing in the first 2 s, then a bar on a terminal,
// or a line every 10 s elsewhere. A step of unknown length shows the time it has taken.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "shared/int.h"

namespace catenary::tools {

class Progress {
 public:
  // "evaluating the reference"; `total` units of work, 0 when that is not known; the step ends
  // after `limit_seconds` at the latest, 0: no such limit.
  explicit Progress(std::string what, i64 total = 0, double limit_seconds = 0);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Ends the step; a bar is wiped off the terminal.
  ~Progress();

  // Any thread.
  void advance(i64 units = 1) { done_.fetch_add(units, std::memory_order_relaxed); }

 private:
  void watch();
  void show(double seconds);

  const std::string what_;
  const i64 total_;
  const double limit_seconds_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::atomic<i64> done_{0};
  bool drawn_ = false;  // of the watching thread; the destructor reads it after the join
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread watcher_;
};

}  // namespace catenary::tools
