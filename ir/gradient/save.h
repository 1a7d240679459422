// SPDX-License-Identifier: Apache-2.0
// Which forward values the forward chain saves for the backward chains.
#pragma once

#include <vector>

#include "ir/gradient/gradient.h"
#include "ir/gradient/joint_graph.h"

namespace catenary::gradient {

struct SavePlan {
  std::vector<bool> saved;   // per forward value
  std::vector<DType> dtype;  // per forward value: in which it would be stored
  i64 bytes = 0;             // of the saved values that the forward does not return anyway
};

// The fewest bytes from which every value of `needed` can be computed again. Elementwise values may
// be computed again, contractions and sums only as `options.recompute` allows; parameters and
// outputs of the forward cost nothing. Sizes are those at the symbol's upper bound.
SavePlan plan_saves(const JointGraph& graph, llvm::ArrayRef<ValueId> needed,
                    const GradientOptions& options);

// The output that holds value `id` in `dtype` or f32, or -1.
int output_of(const VerifiedChain& forward, ValueId id, DType dtype);

}  // namespace catenary::gradient
