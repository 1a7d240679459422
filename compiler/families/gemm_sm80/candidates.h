// SPDX-License-Identifier: Apache-2.0
// Tiles of `gemm_sm80`: the candidate list, what each needs of a target, and what each costs.
#pragma once

#include "compiler/families/family.h"

namespace catenary {

struct GemmSm80Tile {
  int block_m, block_n, block_k;  // block_k in 16-bit elements; 32-bit operands take half
  int warps_m, warps_n, stages;
};

llvm::ArrayRef<GemmSm80Tile> gemm_sm80_tiles();

// "128x128x32w2x2s4".
std::string tile_name(const GemmSm80Config& config);

// The problem's part of the config: no tile yet.
GemmSm80Config gemm_sm80_config(const ContractionProblem& problem);

GridRule gemm_sm80_grid(const GemmSm80Config& config);

std::vector<Candidate> gemm_sm80_candidates(const ContractionProblem& problem, const Target& target,
                                            const TileRequest& request);

}  // namespace catenary
