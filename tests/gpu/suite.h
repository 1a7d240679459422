// SPDX-License-Identifier: Apache-2.0
// The state of the GPU suite: options, the opened device, the clock, failures and the record. Each
// mode (configs.h, modes.h) is one function of a Suite.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/error.h"
#include "runtime/driver/api.h"
#include "runtime/engine.h"
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {

inline constexpr int kMaxFailures = 20;

struct SuiteOptions {
  i64 configs = 400;
  u64 seed = 1;
  double time_limit = 0;  // seconds; 0: none
  std::string record;     // JSON file; empty: none
  std::string commit;
  std::string cache;       // cubin cache directory; empty: no disk cache
  std::string target;      // plan for this row of targets.def instead of the present device
  bool rehearse = false;   // no GPU: a host stand-in writes the results of the reference
  bool simulator = false;  // the simulator as the device: smaller chains, a schedule per launch
  // Runs every config also in the simulator and compares its bytes with the device's.
  bool against_simulator = false;
  i64 only_case = -1;  // run only this config
  i64 part = 1;        // run only this of `parts` parts of the configs
  i64 parts = 1;
  std::string named;  // run only configs whose name contains this
  int repeats = 2;    // further launches of the same data, which must give the same bytes
  // Rehearsals only: the fault of the stand-in. "wrong": one wrong element; "missing": one element
  // is not written; "beyond": one is written past the end.
  std::string inject;
  int threads = 0;  // host threads; 0: all cores
};

// The simulator's results compared with the device's, bit for bit.
struct SimulatorTally {
  i64 configs = 0;
  i64 equal_configs = 0;  // exact runs equal, the others within their bounds
  i64 exact_elements = 0, exact_equal = 0;
  i64 real_elements = 0, real_equal = 0;
  std::map<std::string, i64> max_ulp;  // real data, by dtype of the output
  double worst_share = 0;              // real data: difference / allowed error
  std::string worst_case;
};

struct Failure {
  u64 seed = 0;
  std::string name;     // of the case
  std::string problem;  // one paragraph
  std::string chain;
  std::string plan;
};

// Counters of all modes that ran, for the record.
struct Tally {
  i64 configs = 0;
  i64 passed = 0;
  i64 failed = 0;
  i64 skipped = 0;    // unsupported, before any launch
  i64 exact = 0;      // configs whose integer data was compared bit for bit
  i64 real_data = 0;  // configs also run on real data
  i64 runs = 0;       // (config, symbol value, data) triples
  i64 launches = 0;
  i64 elements = 0;  // compared with the reference
  i64 vacuous = 0;   // of these, elements with an infinite error bound
  double worst_error_ratio = 0;
  std::string worst_case;
  std::map<std::string, i64> families, dtypes, data, options;
  std::map<std::string, bool> modes;  // other modes: true if passed
  std::vector<Failure> failures;
  SimulatorTally simulator;
};

class Suite {
 public:
  // Opens the device (or the stand-in). kDriverMissing where there is none.
  static Expected<std::unique_ptr<Suite>> open(SuiteOptions options);
  ~Suite();

  const SuiteOptions& options() const { return options_; }
  const cuda::Driver& driver() const { return *driver_; }
  const cuda::Api& api() const { return driver_->api(); }
  const cuda::DeviceInfo& device() const { return device_; }
  const Target& target() const { return target_; }
  cuda::Stream stream() const { return stream_; }
  Tally& tally() { return tally_; }

  // A driver call's result as an Error.
  Error check(cuda::Result result, const std::string& what) const;

  double seconds() const;
  bool out_of_time() const;
  bool should_stop() const;  // out of time, too many failures, or a lost context

  // The cases of run_configs().
  CaseList cases() const;

  bool simulated() const { return options_.simulator; }
  // Sets the schedule of later runs in the simulator; no effect elsewhere.
  Error schedule(u64 seed) const;
  // The same with a new seed.
  Error reschedule();

  // Prints and records a failure; a lost context ends the suite.
  void fail(Failure failure);
  void fail(const std::string& name, Error error);
  void lose_context() { context_lost_ = true; }
  bool context_lost() const { return context_lost_; }

  // Prints a line: at most one every three seconds unless `always`.
  void progress(const std::string& line, bool always = false);

  EngineOptions engine_options(const PlanOptions& plan = {}) const;

  // Name and version of the kernel compiler. kNvrtcMissing, kHostCompilerMissing.
  Expected<std::string> compiler_id() const;

  // The record as JSON text, and into options().record if that is set.
  std::string record_text() const;
  Error write_record() const;

 private:
  Suite() = default;
  SuiteOptions options_;
  std::unique_ptr<cuda::ScopedDriver> stand_in_;
  const cuda::Driver* driver_ = nullptr;
  cuda::DeviceInfo device_;
  Target target_;
  std::unique_ptr<cuda::ScopedContext> context_;
  cuda::Stream stream_ = nullptr;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_line_ = start_;
  Tally tally_;
  bool context_lost_ = false;
  u64 schedule_ = 0;
};

// A stand-in driver on the host: memory is the host's, launches do nothing.
cuda::Api stand_in_api();

}  // namespace catenary::gpu_suite
