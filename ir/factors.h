// SPDX-License-Identifier: Apache-2.0
// Along which dimensions the work of a chain divides over devices. A factor is a dimension that
// tensors of the chain share: dimensions that an operation sets equal are one factor.
#pragma once

#include <vector>

#include "ir/verify/verify.h"

namespace catenary {

struct Factors {
  // The factor of each dimension: of the parameters in order, then of the outputs.
  std::vector<llvm::SmallVector<int, 4>> operands;
  // Per factor: whether each device may compute the chain on its own part of the indices. False
  // where the factor is that of ragged groups, a tensor has it twice, a value is not linear in a
  // sum over it, it is one of a quantised weight, or shard() cannot divide a dimension.
  std::vector<bool> divides;
  // Per output: the factors that divide and that it sums over. The output is then the sum of what
  // the devices compute.
  std::vector<llvm::SmallVector<int, 2>> sums;
};

Factors find_factors(const VerifiedChain& chain);

// The chain of one device where factor f is divided into parts[f] equal parts: without gaps, in the
// order of dimensions of the whole. kInvalidArgument: not one number of 1 or more per factor; a
// factor that does not divide; a size, or the symbol's range, that has no such parts.
Expected<Chain> shard(const VerifiedChain& chain, llvm::ArrayRef<i64> parts);

}  // namespace catenary
