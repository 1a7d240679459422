// SPDX-License-Identifier: Apache-2.0
// Progress of long work on stderr: on a terminal a bar, from 2 s on; elsewhere a line every 10 s.
// Work of unknown length shows only its time.
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
  // `what`: "evaluating the reference". `total`: units of work, 0: unknown. `limit_seconds`: the
  // work ends by then at the latest, 0: no limit.
  explicit Progress(std::string what, i64 total = 0, double limit_seconds = 0);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Ends the display and erases the bar.
  ~Progress();

  // Thread-safe.
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
  bool drawn_ = false;  // written by watcher_; read after its join
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread watcher_;
};

}  // namespace catenary::tools
