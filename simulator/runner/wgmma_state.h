// SPDX-License-Identifier: Apache-2.0
// What a warpgroup's outstanding wgmmas hold: the accumulators as the products leave them, while
// the threads' own registers are undefined. Plain state; the rules are in runner_wgmma.cpp.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "sim/machine.h"

namespace catenary::sim {

// D of one or several outstanding wgmmas that add up.
struct Accumulator {
  u32 n = 0;      // columns
  u32 group = 0;  // the last one with a wgmma on it
  Site site = {};
  std::array<float*, 128> registers = {};  // of each thread: n / 2
  std::vector<float> values;               // 64 x n, row-major: what the landed products have left
};

struct WarpgroupState {
  bool fenced = false;  // wgmma.fence since the last wait that ended a sequence
  std::vector<std::shared_ptr<Accumulator>> in_flight;
  // What ldmatrix (x4) gave each thread since the fence: an A that is among it is not fenced.
  std::array<std::vector<std::array<u32, 4>>, 128> loaded;
};

}  // namespace catenary::sim
