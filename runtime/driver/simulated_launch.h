// SPDX-License-Identifier: Apache-2.0
// What the simulator must know of a launch beyond cuLaunchKernelEx: a launch attribute, which
// Executable adds if the driver is the simulator.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "ir/types.h"
#include "simulator/simulator.h"

namespace catenary::cuda {

// A tensor of a launch. `layout` (without a symbolic dimension) says which bytes of the region
// belong to an output; the bytes between its elements belong to the caller.
struct SimulatedTensor {
  sim::Region region;
  TensorType layout;      // outputs only
  bool in_place = false;  // an output that has an input's bytes before the launch
};

// LaunchAttribute::id. value.pointer is a SimulatedLaunch, read during the call.
inline constexpr int kAttributeSimulatedLaunch = 0x43544e;

struct SimulatedLaunch {
  size_t parameter_bytes = 0;
  std::vector<SimulatedTensor> tensors;  // of this kernel
  // The launches of a chain are consecutive. Before the first one runs, its outputs and its
  // workspace are unwritten.
  bool first_of_chain = false;
};

}  // namespace catenary::cuda
