// SPDX-License-Identifier: Apache-2.0
// Layers drawn at random over the shapes that people run, the same from one seed on every machine.
#pragma once

#include "bench/cases/layer.h"

namespace catenary::bench {

// Of one launch: inputs, weights and output, and flops.
inline constexpr double kMostLayerBytes = 4.0 * (i64{1} << 30);
inline constexpr double kMostLayerFlops = 12e12;

// "dense", "small_m", "grouped", "dual", "experts".
llvm::ArrayRef<const char*> random_kinds();

// `count` layers, the kinds in turn; sizes log-uniform, multiples of 8, 16 or 64. Layer i does not
// depend on `count`. Shard `shard` of `shards` (from 1) has every `shards`-th.
std::vector<Layer> random_layers(u64 seed, int count, llvm::ArrayRef<std::string> kinds, int shard,
                                 int shards);

}  // namespace catenary::bench
