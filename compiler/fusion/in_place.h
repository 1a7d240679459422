// SPDX-License-Identifier: Apache-2.0
// Outputs in place of an input. A group may store one over its input only if every group that reads
// the input has read it by then: earlier groups have, for each kernel waits until the previous ones
// have ended, and the group itself where a thread loads just the elements that it stores. Any other
// such output stays in memory of its own until a last group copies it. Knows no family.
#pragma once

#include "compiler/fusion/fuse.h"

namespace catenary {

// Appends a pointwise group for each output in place that its own group cannot store.
void add_copies(const VerifiedChain& chain, FusionPlan& plan);

}  // namespace catenary
