// SPDX-License-Identifier: Apache-2.0
// Shapes of `skinny`: how many warps share K, how much of W waits where, and what that costs.
#pragma once

#include "compiler/families/family.h"
#include "shared/skinny_config.h"

namespace catenary {

// Rows of X that the family takes at most, and rows that ragged groups have on average.
inline constexpr i64 kSkinnyRows = 24;
inline constexpr i64 kSkinnyRaggedRows = 16;

// The same where the kernel forms X or sums the squares of its rows: a norm's own kernels cost more
// than what a tile of wgmma saves.
inline constexpr i64 kSkinnyNormRows = 64;

// "skinny16x1s3r1g2p2": warps along K and N, K blocks of a warp in shared memory and in registers,
// copy groups, chunks of X. "skinny16x1s3r1g2p2a": by cp.async, not by bulk loads. In between,
// "x16", "t2", "c4" and "n66": 16 columns of X at a time, 32 rows of W a warp, cluster split-K of
// 4, N divided into 66 slices (then no "t").
std::string tile_name(const SkinnyConfig& config);

// The problem as `skinny` counts it: a batch entry or a ragged group reads its own W.
struct SkinnyProblem {
  SkinnyConfig base;       // extents, operands, math
  i64 batch = 1;           // product of the batch extents and of the ragged groups with rows
  int parts = 1;           // contractions side by side, each with slices of its own
  i64 m = 0;               // largest; of ragged groups, the mean
  int passes = 0;          // over the rows of X before the product (FormedPrograms)
  double row_ops = 0;      // instructions for each element of X that is formed, scaled or squared
  i64 weight_bytes = 0;    // that are read
  i64 epilogue_bytes = 0;  // tensors of the epilogue, each once
  double epilogue_flops = 0;
};

// The most bytes of W that an SM reads over the mean of all SMs, where each has as many CTAs as any
// other or one less.
double busiest_share(const SkinnyConfig& config, i64 batch, int sm_count);

// Shares are even up to here.
inline constexpr double kEvenShare = 1.06;

// The candidates that fit the target. Empty if there is none.
std::vector<Candidate> skinny_candidates(const SkinnyProblem& problem, const Target& target,
                                         const TileRequest& request);

// The candidate with the tile, loads and schedule of `shared`; nothing: it does not fit.
std::optional<Candidate> skinny_candidate_like(const SkinnyProblem& problem, const Target& target,
                                               const SkinnyConfig& shared);

}  // namespace catenary
