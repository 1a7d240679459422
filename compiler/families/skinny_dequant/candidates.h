// SPDX-License-Identifier: Apache-2.0
// Shapes of `skinny_dequant`: how many rows of W a CTA has, how warps and CTAs share K, how deep
// the rings are, and what that costs.
#pragma once

#include "compiler/families/family.h"
#include "shared/skinny_dequant_config.h"

namespace catenary {

// Rows of X that the family takes at most: a lane of each warp loads one.
inline constexpr i64 kSkinnyDequantRows = 32;
// Columns of K at most: they are counted in 32 bits.
inline constexpr i64 kSkinnyDequantColumns = i64{1} << 30;

// "dequant8t2s4b2c2": warps along K, row tiles, stages, K blocks of a stage, CTAs of a cluster.
std::string tile_name(const SkinnyDequantConfig& config);

struct SkinnyDequantProblem {
  SkinnyDequantConfig base;  // extents, operands, math
  i64 m = 0;                 // largest
  i64 weight_bytes = 0;      // q, scales and zeros
  i64 other_bytes = 0;       // all other tensors, each once
  double epilogue_flops = 0;
};

// The candidates that fit the target. Empty if there is none.
std::vector<Candidate> skinny_dequant_candidates(const SkinnyDequantProblem& problem,
                                                 const Target& target, const TileRequest& request);

}  // namespace catenary
