// SPDX-License-Identifier: Apache-2.0
#include "simulator/simulator.h"

#include <mutex>

#include "ir/default_numerics.h"
#include "simulator/runner/runner.h"

namespace catenary::sim {

Error simulate(Memory& memory, const std::vector<Launch>& launches, const SimulatorOptions& options,
               RunStatistics* statistics) {
  const DefaultNumerics numerics;  // a kernel's arithmetic is the device's, not the host's
  // A loaded object is bound to one machine at a time.
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (launches.empty()) return Error::success();
  static StackPool stacks;
  stacks.reclaim();
  Runner runner(memory, launches, options, stacks);
  return runner.run(statistics);
}

}  // namespace catenary::sim
