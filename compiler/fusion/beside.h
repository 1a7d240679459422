// SPDX-License-Identifier: Apache-2.0
// Which contractions may share a launch. They read one activation; each has its own weight, shape
// and outputs. All that they read is in memory before the first of them runs. Knows no family:
// whether a launch pays is the planner's choice.
#pragma once

#include "compiler/fusion/fuse.h"

namespace catenary {

// Fills FusionPlan::beside of a complete plan.
void find_beside(const VerifiedChain& chain, FusionPlan& plan);

}  // namespace catenary
