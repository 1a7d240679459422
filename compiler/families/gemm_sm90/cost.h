// SPDX-License-Identifier: Apache-2.0
// The cost model of `gemm_sm90` (counts of its work for the roofline).
#pragma once

#include "compiler/families/family.h"
#include "shared/gemm_sm90_config.h"

namespace catenary {

// Tiles of the output; each split of split-K counts.
i64 gemm_sm90_output_tiles(const ContractionProblem& problem, const GemmSm90Config& config);

// The predicted time of the problem with that config, in microseconds; with split-K it includes the
// kernel that adds the partial sums.
Prediction predict_gemm_sm90(const ContractionProblem& problem, const Target& target,
                             const GemmSm90Config& config);

}  // namespace catenary
