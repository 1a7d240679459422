// SPDX-License-Identifier: Apache-2.0
// The accumulators of a warpgroup's wgmmas in flight: until the wait the threads' own registers are
// undefined. The rules are in runner_wgmma.cpp.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "sim/machine.h"

namespace catenary::sim {

// D of one or several wgmmas in flight that accumulate into the same registers.
struct Accumulator {
  u32 n = 0;      // columns
  u32 group = 0;  // the last group with a wgmma on it
  Site site = {};
  std::array<float*, 128> registers = {};  // of each thread: n / 2
  std::vector<float> values;               // 64 x n, row-major: after the wgmmas that are complete
};

struct WarpgroupState {
  bool fenced = false;  // wgmma.fence was executed since the last wait that freed accumulators
  std::vector<std::shared_ptr<Accumulator>> in_flight;
  // What ldmatrix.x4 has loaded into each thread since the fence: as operand A it is not fenced.
  std::array<std::vector<std::array<u32, 4>>, 128> loaded;
};

}  // namespace catenary::sim
