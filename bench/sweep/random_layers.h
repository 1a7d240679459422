// SPDX-License-Identifier: Apache-2.0
// Layers drawn at random over the shapes that people run, the same from one seed on every machine.
#pragma once

#include "bench/cases/layer.h"

namespace catenary::bench {

// Limits of one launch: bytes of inputs, weights and output, and flops.
inline constexpr double kMostLayerBytes = 4.0 * (i64{1} << 30);
inline constexpr double kMostLayerFlops = 12e12;

// "dense", "small_m", "grouped", "dual", "experts", and those of packed weights, "int4" and "int8".
llvm::ArrayRef<const char*> random_kinds();
// The kinds of 16-bit weights.
llvm::ArrayRef<const char*> default_random_kinds();

// `count` layers, the kinds in turn. Sizes are log-uniform, multiples of 8, 16 or 64. Layer i does
// not depend on `count`.
std::vector<Layer> random_layers(u64 seed, int count, llvm::ArrayRef<std::string> kinds);

}  // namespace catenary::bench
