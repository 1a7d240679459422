// SPDX-License-Identifier: Apache-2.0
// Mode --configs: random and handwritten chains against the reference, the main part of the suite.
#pragma once

#include "tests/gpu/suite.h"

namespace catenary::gpu_suite {

// Prepares cases on host threads while one thread launches those that are ready. Adds failures,
// counts and the worst error to the suite's tally.
void run_configs(Suite& suite);

}  // namespace catenary::gpu_suite
