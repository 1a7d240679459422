// SPDX-License-Identifier: Apache-2.0
// One case in two halves: the host part (verify, plan, compile, fill, reference), on many host
// threads, and the GPU part (load, launch, compare), on one thread.
#pragma once

#include "tests/gpu/cases.h"
#include "tests/gpu/memory_image.h"
#include "tests/gpu/suite.h"

namespace catenary::gpu_suite {

// One symbol value, one kind of data.
struct PreparedRun {
  i64 symbol = 0;
  FillKind kind = FillKind::kExactInteger;
  u64 seed = 0;
  bool exact = false;  // every output is known bit for bit
  MemoryImage image;
  std::vector<std::vector<Interval>> expected;
};

struct PreparedCase {
  Case from;
  PlanOptions options;  // in use
  std::shared_ptr<const CompiledChain> compiled;
  // The same kernels for the simulator, if the suite compares with it.
  std::shared_ptr<const CompiledChain> for_simulator;
  std::vector<PreparedRun> runs;
  ErrorReport problem;   // kOk: ready to run
  bool skipped = false;  // kUnsupported: no kernel family takes the layout
};

// The host part.
PreparedCase prepare_case(const Suite& suite, Case from);

// The result of the GPU part.
struct CaseResult {
  bool passed = true;
  std::vector<std::string> problems;
  double worst_error_ratio = 0;
  i64 elements = 0, vacuous = 0, launches = 0;
  bool lost_context = false;
  std::vector<std::vector<u8>> after;  // the memory after the first launch of each run
};

// Device memory and launches, or their stand-ins. Uses one block of memory for all cases.
class Runner {
 public:
  explicit Runner(Suite& suite) : suite_(suite) {}
  CaseResult run(const PreparedCase& prepared);

 private:
  Expected<std::vector<u8>> launch(const PreparedRun& run, const Executable& executable,
                                   const std::vector<u8>& before);
  Error run_all(const PreparedRun& run, const Executable& executable, CaseResult& result);
  Error reserve(i64 bytes);
  void stand_in(const PreparedRun& run);
  void note(CaseResult& result, const PreparedRun& run, const std::string& what) const;
  void compare_outputs(const PreparedRun& run, const std::vector<u8>& after, CaseResult& result);

  Suite& suite_;
  cuda::DeviceBuffer memory_;
  cuda::DevicePtr base_ = 0;
  u64 schedule_ = 0;  // the simulator's, of the last launch
};

// The device memory of an image, and the driver that runs it.
struct LaunchTarget {
  const cuda::Driver& driver;
  cuda::Stream stream;
  cuda::DevicePtr base;  // aligned to kBlockAlign
};
// One launch on a fresh copy of `before`; returns the memory after it. `stand_in` is called after
// the launch.
Expected<std::vector<u8>> launch_image(const LaunchTarget& target, const PreparedRun& run,
                                       const Executable& executable, const std::vector<u8>& before,
                                       llvm::function_ref<void()> stand_in);

// "normal data, symbol 3, data seed 17".
std::string run_name(const PreparedRun& run);

// "kernel: config" of every kernel in the plan.
std::string plan_text(const Plan& plan);

}  // namespace catenary::gpu_suite
