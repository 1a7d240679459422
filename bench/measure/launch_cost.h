// SPDX-License-Identifier: Apache-2.0
// Host time of Executable::launch, and of cuLaunchKernelEx for the same kernel and parameters.
#pragma once

#include "bench/record/record.h"

namespace catenary::bench {

// Medians over interleaved batches; the queue never fills.
Expected<std::vector<LaunchRow>> measure_launch_cost(const Session& session, bool quick);

}  // namespace catenary::bench
