// SPDX-License-Identifier: Apache-2.0
// The simulator as a device: memory, and one queue of launches that runs when a call waits for it.
// Knows no driver call; simulated_driver.cpp makes it a driver.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "compiler/target.h"
#include "runtime/driver/api.h"
#include "runtime/driver/simulated_launch.h"

namespace catenary::cuda {

struct QueuedLaunch {
  sim::Launch launch;  // without regions, which run_group() takes from `tensors`
  std::vector<SimulatedTensor> tensors;
  bool first_of_chain = false;
};

// Thread-safe. Every function that reads, writes or frees memory runs the queue first. Results are
// the driver's; take_report() has the details of some.
class SimulatedDevice {
 public:
  SimulatedDevice(Target target, u64 seed) : target_(std::move(target)) { options_.seed = seed; }

  const Target& target() const { return target_; }
  void set_seed(u64 seed);
  // Called while kernels run, under the device's lock: it must not call the device.
  void set_progress(std::function<void(u64 done, u64 all)> progress);

  Result allocate(DevicePtr* pointer, size_t bytes);
  Result release(DevicePtr pointer);
  Result upload(DevicePtr to, const void* from, size_t bytes);
  Result download(void* to, DevicePtr from, size_t bytes);
  Result copy(DevicePtr to, DevicePtr from, size_t bytes);
  Result fill(DevicePtr to, unsigned char byte, size_t bytes);

  void enqueue(const std::vector<QueuedLaunch>& launches);

  // Runs the queue. A fault drops the rest of it; every wait then returns kErrorLaunchFailed until
  // the report is taken. Later launches run normally.
  Result synchronize();

  // explain() keeps the details of `result` and returns it; take_report() returns them once.
  Result explain(Result result, Error error);
  std::optional<ErrorReport> take_report(Result result);

 private:
  Result run_queue();
  Result run_group(std::vector<QueuedLaunch> group);
  void mark_outputs_unwritten(const std::vector<QueuedLaunch>& group);

  const Target target_;
  std::mutex mutex_;
  sim::Memory memory_;
  sim::SimulatorOptions options_;
  std::vector<QueuedLaunch> queue_;
  struct Details {
    Result result;
    ErrorReport report;
  };
  std::vector<Details> reports_;
};

}  // namespace catenary::cuda
