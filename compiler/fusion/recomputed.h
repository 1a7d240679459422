// SPDX-License-Identifier: Apache-2.0
// Elementwise values that are read back from memory, such as x - mean of a LayerNorm: where their
// operands are fewer bytes than they are, each kernel that reads them computes them again, and no
// kernel stores them.
#pragma once

#include "compiler/fusion/fuse.h"

namespace catenary {

// Dissolves pointwise groups whose values only pointwise kernels and reductions read, where that
// moves fewer bytes. The values are then of no group, as those of parameters only are. Not in
// chains with outputs in place: a later kernel may read what has been overwritten. Not with
// batch_invariant: bytes depend on the number of rows. Before add_copies().
void recompute_values(const VerifiedChain& chain, FusionPlan& plan);

}  // namespace catenary
