// SPDX-License-Identifier: Apache-2.0
// fp8 operands with scales per block as `gemm_sm90` reads them.
#pragma once

#include "compiler/families/problem.h"
#include "shared/gemm_sm90_config.h"

namespace catenary {

// Which blocks of a block-scaled problem the kernel does not take: a sentence with the fix; "": it
// takes them.
std::string block_scales_refusal(const ContractionProblem& problem);

// Where the scales of a problem without a refusal are.
void set_block_scales(const ContractionProblem& problem, GemmSm90Config& config);

}  // namespace catenary
