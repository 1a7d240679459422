// SPDX-License-Identifier: Apache-2.0
// The sweep for the cost model of large contractions: which layers, and which candidates of each.
#pragma once

#include "bench/cases/layer.h"

namespace catenary::bench {

// About 200: M in 64 .. 16384 times N and K in 256 .. 16384, every third of them; layers of models,
// sizes that are no multiple of a tile, batches, dual GEMMs.
std::vector<Layer> gemm_layers();

// The choice, the six fastest others by prediction, and three large tiles whatever their
// prediction.
std::vector<Candidate> gemm_candidates(llvm::ArrayRef<Candidate> candidates, bool dual);

}  // namespace catenary::bench
