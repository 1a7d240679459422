// SPDX-License-Identifier: Apache-2.0
// Progress of long work on stderr, with the share that is done and the time that is left: on a
// terminal a bar, from 2 s on; elsewhere a line every 10 s. Work of unknown length shows only its
// time. Nothing with --json or --quiet.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "shared/int.h"

namespace catenary::tools {

// What a display shows at one moment.
struct ProgressState {
  std::string what;          // "running the kernels"
  double share = 0;          // that is done, 0 to 1; 0 where it is not known
  double seconds = 0;        // since the start
  double limit_seconds = 0;  // the work ends by then at the latest; 0: no limit
};

// "running the kernels: 25%, 10 s, about 30 s left".
std::string progress_line(const ProgressState& state);

// The same with a bar, in at most `columns` characters.
std::string progress_bar(const ProgressState& state, int columns);

// When a display changes.
struct ProgressTimes {
  std::chrono::milliseconds first{2'000};  // of a bar
  std::chrono::milliseconds bar{200};
  std::chrono::milliseconds line{10'000};
};

// One that is made while another exists is a part of the other's current unit and shows nothing
// itself. Made and destroyed on one thread, the innermost first.
class Progress {
 public:
  // `total`: units of work, 0: unknown. `limit_seconds`: the work ends by then at the latest, 0: no
  // limit.
  explicit Progress(std::string what, i64 total = 0, double limit_seconds = 0,
                    ProgressTimes times = {});
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Ends the display and erases the bar.
  ~Progress();

  // Thread-safe.
  void advance(i64 units = 1);
  void set(i64 done, i64 total);
  void set_what(std::string what);

  // Sets the innermost one, if there is one: for the callbacks of the engine and the simulator,
  // which run while it exists.
  static void tell_innermost(i64 done, i64 total);

 private:
  void watch();
  double share() const;
  void tell_outer() const;

  std::string what_;  // guarded by mutex_
  const double limit_seconds_;
  const ProgressTimes times_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  Progress* const outer_;  // null: this one has the display
  std::atomic<i64> done_{0};
  std::atomic<i64> total_;
  std::atomic<double> part_{0};  // of the current unit, told by an inner one
  bool stop_ = false;            // guarded by mutex_
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread watcher_;
};

}  // namespace catenary::tools
