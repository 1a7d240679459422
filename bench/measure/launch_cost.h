// SPDX-License-Identifier: Apache-2.0
// What Executable::launch costs the host beyond cuLaunchKernelEx of the same kernel with the same
// parameters.
#pragma once

#include "bench/record/record.h"

namespace catenary::bench {

// Median over interleaved batches of launches into a queue that never fills.
Expected<std::vector<LaunchRow>> measure_launch_cost(const Session& session, bool quick);

}  // namespace catenary::bench
