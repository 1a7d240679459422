// SPDX-License-Identifier: Apache-2.0
// Layers that the user names.
#pragma once

#include "bench/cases/layer.h"

namespace catenary::bench {

// "MxNxK", "GxMxNxK" (G groups, x[G,M,K]) or "GeMxNxK" (G experts with M rows in all, equal to
// within one), then ":" and an epilogue if there is one: bias, bias_silu, bias_gelu, or swiglu,
// which makes a dual GEMM, then ":int4" or ":int8" if the weights of MxNxK are packed integers, a
// scale for each 128 columns (64, 32: as they divide K) or each row; a comma between layers. bf16.
// Errors, kInvalidArgument: none, a size below 1, a layer beyond the limits of random_layers.h,
// another text.
Expected<std::vector<Layer>> given_layers(const std::string& list);

}  // namespace catenary::bench
