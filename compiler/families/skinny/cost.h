// SPDX-License-Identifier: Apache-2.0
// The predicted time of `skinny`.
#pragma once

#include "compiler/families/skinny/candidates.h"

namespace catenary {

// Microseconds of the config on the target, `resident` CTAs on an SM, by terms (RESULTS model-1,
// -10, -17).
Prediction predict_skinny(const SkinnyProblem& problem, const Target& target,
                          const SkinnyConfig& config, int resident);

}  // namespace catenary
