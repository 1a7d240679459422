// SPDX-License-Identifier: Apache-2.0
// Parts that handwritten chains for `gemm_sm90` share.
#pragma once

#include "compiler/families/gemm_sm90/candidates.h"
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {

// A chain that `gemm_sm90` must compute with this tile.
WrittenCase forced_sm90(std::string name, std::string text, std::string tile, int split_k = 0);

// The tile's name for operands of that math. All Hopper GPUs have the same shared memory and
// therefore the same names.
std::string sm90_tile_name(const GemmSm90Shape& shape, MathMode math, bool dual = false);

// y = relu(x w + b) in bf16. `x` and `w` are the labels of the operands.
std::string dense_chain(i64 m, i64 n, i64 k, const char* x = "mk", const char* w = "nk");

// h = relu(x w^T) * (x v^T), where x is m x k, and w and v are n x k.
std::string dual_gemm_text(const char* dtype, i64 m, i64 n, i64 k, const char* output);

}  // namespace catenary::gpu_suite
