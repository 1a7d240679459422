// SPDX-License-Identifier: Apache-2.0
// The simulator as a device: memory that is copied to and from, and one queue of launches, which
// run when somebody waits for them. Knows no driver call; simulated_driver.cpp makes it a driver.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "compiler/target.h"
#include "runtime/driver/api.h"
#include "runtime/driver/simulated_launch.h"

namespace catenary::cuda {

struct QueuedLaunch {
  sim::Launch launch;  // without regions: those of the tensors are meant
  std::vector<SimulatedTensor> tensors;
  bool first_of_chain = false;
};

// Thread-safe. Everything that gives or takes bytes waits for the queue first. Results are the
// driver's; where there is more to say, take_report() says it.
class SimulatedDevice {
 public:
  SimulatedDevice(Target target, u64 seed) : target_(std::move(target)) { options_.seed = seed; }

  const Target& target() const { return target_; }
  void set_seed(u64 seed);

  Result allocate(DevicePtr* pointer, size_t bytes);
  Result release(DevicePtr pointer);
  Result upload(DevicePtr to, const void* from, size_t bytes);
  Result download(void* to, DevicePtr from, size_t bytes);
  Result copy(DevicePtr to, DevicePtr from, size_t bytes);
  Result fill(DevicePtr to, unsigned char byte, size_t bytes);

  void enqueue(const std::vector<QueuedLaunch>& launches);

  // Runs the queue. A fault drops the rest of it; every wait then gives kErrorLaunchFailed until
  // the report is taken. Later launches run as if nothing had been.
  Result synchronize();

  // Keeps what is to be said of `result`, and gives it once.
  Result explain(Result result, Error error);
  std::optional<ErrorReport> take_report(Result result);

 private:
  Result run_queue();
  Result run_group(std::vector<QueuedLaunch> group);
  void forget_outputs(const std::vector<QueuedLaunch>& group);

  const Target target_;
  std::mutex mutex_;
  sim::Memory memory_;
  sim::SimulatorOptions options_;
  std::vector<QueuedLaunch> queue_;
  struct Said {
    Result result;
    ErrorReport report;
  };
  std::vector<Said> reports_;
};

}  // namespace catenary::cuda
