// SPDX-License-Identifier: Apache-2.0
// A sum over rows whose terms are computed from tensors that a pointwise kernel reads as well, as
// the bias gradient and the gradient before an activation are: the sum's kernel stores those values
// while it has the terms, and reads the tensors once.
#pragma once

#include "compiler/fusion/fuse.h"

namespace catenary {

// Merges pointwise groups into such sums, and says so in `why`. Returns whether there is one.
bool store_terms_in_sums(const VerifiedChain& chain, FusionPlan& plan);

}  // namespace catenary
