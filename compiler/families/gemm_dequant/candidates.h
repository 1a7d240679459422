// SPDX-License-Identifier: Apache-2.0
// Shapes of `gemm_dequant`: the tile of a CTA, how CTAs share K, how deep the pipeline is, and what
// that costs.
#pragma once

#include "compiler/families/family.h"
#include "shared/gemm_dequant_config.h"

namespace catenary {

// "packed2t8x64s4b2c2n66": mma warpgroups, most row tiles of W (and of W2) of a CTA, rows of X,
// stages, K blocks of each, CTAs of a cluster, slices of N. The last two only where they are not 1
// and not what the row tiles need.
std::string tile_name(const GemmDequantConfig& config);

struct GemmDequantProblem {
  GemmDequantConfig base;  // extents, operands, math
  i64 batch = 1;           // product of the batch extents
  i64 m = 0;               // largest
  // Column tiles of all rows, those of ragged groups as expected.
  double column_tiles(i32 columns) const;
  i64 weight_bytes = 0;    // q, scales and zeros
  i64 other_bytes = 0;     // all other tensors, each once
  double epilogue_flops = 0;
};

// The candidates that fit the target. Empty if there is none.
std::vector<Candidate> gemm_dequant_candidates(const GemmDequantProblem& problem,
                                               const Target& target, const TileRequest& request);

// The candidate with the tile and loads of `shared`, which is of all contractions side by side, and
// its share of their slices; nothing: it does not fit.
std::optional<Candidate> gemm_dequant_candidate_like(const GemmDequantProblem& problem,
                                                     const Target& target,
                                                     const GemmDequantConfig& shared);

}  // namespace catenary
