// SPDX-License-Identifier: Apache-2.0
// What the simulator is told of a launch beyond cuLaunchKernelEx: a launch attribute of our own,
// which Executable adds where the driver is the simulator.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/types.h"
#include "simulator/simulator.h"

namespace catenary::cuda {

// A tensor of a launch. `layout` (no symbolic dimension) says which of an output's bytes belong to
// it; what lies between them is the caller's.
struct SimulatedTensor {
  sim::Region region;
  TensorType layout;  // of outputs
};

// LaunchAttribute::id; value.pointer is a SimulatedLaunch that lives until the call returns.
inline constexpr int kAttributeSimulatedLaunch = 0x43544e;

struct SimulatedLaunch {
  size_t parameter_bytes = 0;
  std::vector<SimulatedTensor> tensors;  // of this kernel
  // The kernels of a chain come one after another. Before the first one runs, what they write holds
  // nothing yet.
  bool first_of_chain = false;
};

}  // namespace catenary::cuda
