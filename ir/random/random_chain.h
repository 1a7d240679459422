// SPDX-License-Identifier: Apache-2.0
// Random chains that are valid by construction, for tests and for the command's `check`, and the
// shrinking of one that shows a fault. The same seed and options give the same chain everywhere.
#pragma once

#include "ir/chain.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {

struct RandomChainOptions {
  i64 max_elements = 4096;  // of any tensor or value (a symbolic dimension at its largest)
  bool exact_only = false;  // only what keeps integers in [-2, 2] exact up to the last rounding
  bool no_ragged = true;
  int max_contractions = 2;  // 0: pointwise chains and sums
  // Starts with a contraction of up to 16 rows whose operands lie along K, in whole 128-byte
  // blocks, with rows on 16 bytes.
  bool few_rows = false;
};

// A chain that verify() accepts: contractions of every dtype, label class and label order (several
// labels in a class, size 1, rarely size 0), strided and padded tensors, gated pairs, two
// contractions in a row, biases and residuals placed by label or by trailing dimensions, sums,
// several outputs, a symbolic dimension.
Chain random_chain(u64 seed, const RandomChainOptions& options = {});

// The smallest chain that can be reached from `chain` by dropping outputs and ops, making sizes
// smaller and layouts plain, while verify() accepts it and `fails` still holds. `chain` itself is
// verified and fails. `fails` is called with chains that verify() accepts.
Chain shrink(Chain chain, llvm::function_ref<bool(const Chain&)> fails);

}  // namespace catenary
