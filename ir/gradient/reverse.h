// SPDX-License-Identifier: Apache-2.0
// Reverse mode: the gradient of each wanted parameter as values of the joint graph.
#pragma once

#include "ir/gradient/joint_graph.h"

namespace catenary::gradient {

struct Reversed {
  // Per wanted parameter that an output depends on, in order: its gradient in its own frame,
  // broadcast in no dimension.
  std::vector<std::pair<ValueId, Placed>> gradients;
  std::vector<std::pair<int, ValueId>> output_gradients;  // output number, parameter of the graph
};

// `wanted`: parameter values. `outputs`: the outputs that have a gradient.
Reversed reverse(JointGraph& graph, llvm::ArrayRef<ValueId> wanted, llvm::ArrayRef<int> outputs);

}  // namespace catenary::gradient
