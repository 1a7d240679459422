// SPDX-License-Identifier: Apache-2.0
// A chain -> the same chain over smaller tensors, for the simulator. Small sizes (a batch of 12, a
// size of 1) stay; larger ones keep their remainder modulo 64, and with it tails, alignment and
// padding.
#pragma once

#include <utility>
#include <vector>

#include "ir/verify/verify.h"

namespace catenary {

inline constexpr i64 kLeastMaxSize = 16;

struct ReducedChain {
  VerifiedChain chain;
  std::vector<std::pair<i64, i64>> sizes;  // every size that changed, before and after; descending
};

// Every size above `max_size` becomes one of at most `max_size` with the same remainder modulo 64
// (modulo the largest power of two up to max_size, if that is less). Equal sizes stay equal;
// different ones stay different if possible. The symbol's range and explicit strides
// follow: dimensions keep their order in memory, a padding its remainder, a broadcast its 0.
// kInvalidArgument: max_size is below kLeastMaxSize.
Expected<ReducedChain> reduce_sizes(const VerifiedChain& chain, i64 max_size);

// Maps a value of the original symbol to one in the reduced chain's range, by the same rule.
i64 reduce_symbol(const VerifiedChain& reduced_chain, i64 symbol);

}  // namespace catenary
