// SPDX-License-Identifier: Apache-2.0
// Divides the joint graph into the forward and the backward chains.
#pragma once

#include "ir/gradient/gradient.h"
#include "ir/gradient/reverse.h"

namespace catenary::gradient {

Expected<Gradient> partition(const JointGraph& graph, const Reversed& reversed,
                             const GradientOptions& options);

}  // namespace catenary::gradient
