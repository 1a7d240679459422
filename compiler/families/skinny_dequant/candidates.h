// SPDX-License-Identifier: Apache-2.0
// Shapes of `skinny_dequant`: how many rows of W a CTA has, how warps and CTAs share K, how deep
// the rings are, and what that costs.
#pragma once

#include "compiler/families/family.h"
#include "shared/skinny_dequant_config.h"

namespace catenary {

// Rows of X that the family takes at most, of ragged groups in the mean: a lane of each warp loads
// one.
inline constexpr i64 kSkinnyDequantRows = 32;

// "dequant8t2s3b2x1b8c2n66": warps along K, most row tiles of W (and of W2) of a CTA, stages of q
// and chunks of K in each, stages of X and chunks in each, CTAs of a cluster, slices of N. The last
// two only where they are not 1 and not what the row tiles need.
std::string tile_name(const SkinnyDequantConfig& config);

struct SkinnyDequantProblem {
  SkinnyDequantConfig base;  // extents, operands, math
  i64 batch = 1;             // product of the batch extents and of the ragged groups with rows
  i64 m = 0;                 // largest; of ragged groups, the mean
  i64 weight_bytes = 0;      // q, scales and zeros that are read
  i64 other_bytes = 0;       // all other tensors, each once
  double epilogue_flops = 0;
};

// The candidates that fit the target. Empty if there is none.
std::vector<Candidate> skinny_dequant_candidates(const SkinnyDequantProblem& problem,
                                                 const Target& target, const TileRequest& request);

// The candidate with the loads and the schedule of `shared`, which is of all contractions side by
// side, and its share of their slices; nothing: it does not fit.
std::optional<Candidate> skinny_dequant_candidate_like(const SkinnyDequantProblem& problem,
                                                       const Target& target,
                                                       const SkinnyDequantConfig& shared);

}  // namespace catenary
