// SPDX-License-Identifier: Apache-2.0
// The derivative of each elementwise op: the one place that a new op's rule goes to.
#pragma once

#include <optional>

#include "ir/gradient/joint_graph.h"

namespace catenary::gradient {

// The gradient that elementwise value `frame` (not a cast) passes to its operand `i`, given the
// value's own, in the frame of the value: before the sum over broadcast dimensions. Nothing if it
// is 0 everywhere.
std::optional<Placed> derivative(JointGraph& graph, ValueId frame, size_t i,
                                 const Placed& gradient);

// Does a gradient pass from the value to its operand `i`? Not where the operand decides only which
// value is taken: to the operands of a comparison, to the condition of a select.
bool is_differentiable(Op op, size_t i);

}  // namespace catenary::gradient
