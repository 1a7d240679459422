// SPDX-License-Identifier: Apache-2.0
// Contractions of the rows of a matrix, which norms and gains before them are found by.
#pragma once

#include "ir/verify/verify.h"

namespace catenary {

// The dimension of `operand` that a contraction sums, where the operand is a matrix of rows along
// K, and only one of the two operands; -1: it is not. The contraction is dense and has no batch;
// the other operand may have several labels beside K.
int summed_dim_of_rows(const VerifiedChain& chain, ValueId contraction, ValueId operand);

}  // namespace catenary
