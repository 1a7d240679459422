// SPDX-License-Identifier: Apache-2.0
// Shapes of `skinny`: how many warps share K, how much of W waits where, and what that costs.
// Judged by arithmetic that a reader can redo by hand (see skinny_tiles.cpp).
#pragma once

#include <string>
#include <vector>

#include "compiler/plan.h"

namespace catenary {

// Rows of X that the family takes at most, and rows that ragged groups have on average.
inline constexpr i64 kSkinnyRows = 24;
inline constexpr i64 kSkinnyRaggedRows = 16;

// "skinny16x1s3r1g2p2": warps along K and N, blocks of a warp in shared memory and in registers,
// groups of copies, parts of X. "skinny16x1s3r1g2p2a": by cp.async, not by bulk copies. In between,
// "x16", "t2" and "c4": 16 columns of X at a time, 32 rows of W a warp, K shared by clusters of 4.
std::string tile_name(const SkinnyConfig& config);

// A problem with every choice but the shape made.
struct SkinnyProblem {
  SkinnyConfig base;       // extents, operands, math
  i64 batch = 1;           // product of the batch extents and of the ragged groups with rows
  i64 m = 0;               // largest; of ragged groups, the mean
  i64 weight_bytes = 0;    // that are read
  i64 epilogue_bytes = 0;  // tensors of the epilogue, each once
  double epilogue_flops = 0;
};

struct SkinnyCandidate {
  SkinnyConfig config;
  int min_ctas = 1;  // CTAs per SM that registers and shared memory allow
  Prediction predicted;
};

// Candidates that fit the target, best first; none where W does not fit on chip.
std::vector<SkinnyCandidate> rank_skinny_candidates(const SkinnyProblem& problem,
                                                    const Target& target,
                                                    const PlanOptions& options);

}  // namespace catenary
