// SPDX-License-Identifier: Apache-2.0
// Random chains, valid by construction, for tests and for the command's `check`; shrinking of a
// chain that shows a fault. The same seed and options give the same chain on every host.
#pragma once

#include "ir/chain.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {

struct RandomChainOptions {
  i64 max_elements = 4096;  // of any tensor or value (a symbolic dimension at its largest)
  bool exact_only = false;  // only ops that keep integers in [-2, 2] exact up to the last rounding
  bool no_ragged = true;
  bool no_group_operands = false;  // taken by the group of a ragged row
  bool no_in_place = false;        // outputs in place of an input
  bool no_dequant = true;          // quantised weights; with small_m as kernels take them
  int max_contractions = 2;        // 0: pointwise chains and sums
  // Starts with a small-M contraction: up to 16 rows, K-major operands, K a multiple of 128 bytes,
  // rows aligned to 16 bytes.
  bool small_m = false;
  // Some tensors, casts and outputs are e4m3 or e5m2. Kernels multiply these only as small_m lays
  // them out.
  bool fp8 = false;
};

// A chain that verify() accepts: contractions of every dtype, label class and label order (several
// labels in a class, size 1, rarely size 0), strided and padded tensors, dual GEMMs, sums of
// contractions, two contractions in a row, biases and residuals placed by label or by trailing
// dimensions, operands taken by the group of a ragged row, quantised weights, sums, by group too,
// several outputs, one in place of an input, values combined with reductions of their rows, a
// symbolic dimension.
Chain random_chain(u64 seed, const RandomChainOptions& options = {});

// The smallest chain that greedy simplification of `chain` finds: outputs and ops dropped, no
// symbol, smaller sizes, contiguous layouts, while verify() accepts it and `fails` holds. `chain`
// must pass verify() and fail. `fails` is called only with chains that verify() accepts.
Chain shrink(Chain chain, llvm::function_ref<bool(const Chain&)> fails);

}  // namespace catenary
