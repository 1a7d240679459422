// SPDX-License-Identifier: Apache-2.0
// What a candidate of `gemm_dequant` costs.
#pragma once

#include "compiler/families/gemm_dequant/candidates.h"

namespace catenary {

// Registers of a thread of an mma warp, by count of what it holds.
int estimated_registers(const GemmDequantConfig& config);

// `resident`: CTAs per SM.
Prediction predict_gemm_dequant(const GemmDequantProblem& problem, const Target& target,
                                const GemmDequantConfig& config, int resident);

}  // namespace catenary
