// SPDX-License-Identifier: Apache-2.0
// The derivative of each elementwise op: the one place that a new op's rule goes to.
#pragma once

#include <optional>

#include "ir/gradient/joint_graph.h"

namespace catenary::gradient {

// The gradient that elementwise value `frame` (not a cast) passes to its operand `i`, given the
// value's own, in the frame of the value: before the sum over broadcast dimensions. Nothing if the
// operand decides only which value is taken (a comparison, the condition of a select).
// kUnsupported: the op has no rule.
Expected<std::optional<Placed>> derivative(JointGraph& graph, ValueId frame, size_t i,
                                           const Placed& gradient);

// Does a gradient pass from the value to its operand `i`?
bool is_differentiable(Op op, size_t i);

}  // namespace catenary::gradient
