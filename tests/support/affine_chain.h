// SPDX-License-Identifier: Apache-2.0
// A compiled chain that is written by hand, for tests of load and launch without a compiler: two
// buckets, three kernels, a workspace, a scalar.
#pragma once

#include <memory>

#include "runtime/engine.h"

namespace catenary::testing {

inline constexpr i64 kAffineColumns = 8;
inline constexpr i64 kAffineMaxRows = 64;

// y[M, 8] = x[M, 8] * alpha + b[8], M in 0..64. Parameters: x, alpha, b.
VerifiedChain affine_chain();

// M in 0..16: k_scale writes the workspace, k_add reads it. M in 17..64: k_all, with shared memory.
std::shared_ptr<CompiledChain> affine_compiled(const char* arch = "sm_90a");

// The slot of parameter `position`.
SlotBinding parameter_slot(int position, i64 align);

EngineOptions no_cache();

}  // namespace catenary::testing
