// SPDX-License-Identifier: Apache-2.0
// Tiles of `gemm_sm80`: the candidate list, what each needs of a target, and what each costs.
#pragma once

#include "compiler/families/family.h"
#include "shared/gemm_sm80_config.h"

namespace catenary {

// Tiles for 16-bit operands; 32-bit ones take half of block_k. A dual GEMM takes half of block_n.
llvm::ArrayRef<GemmSm80Tile> gemm_sm80_tiles();

// "128x128x32w2x2s4".
std::string tile_name(const GemmSm80Config& config);

// The problem's part of the config: no tile yet.
GemmSm80Config gemm_sm80_config(const ContractionProblem& problem);

GridRule gemm_sm80_grid(const GemmSm80Config& config, i64 symbol);

// `config` as a candidate for the problem.
Candidate gemm_sm80_candidate(GemmSm80Config config, const ContractionProblem& problem,
                              const Target& target);

std::vector<Candidate> gemm_sm80_candidates(const ContractionProblem& problem, const Target& target,
                                            const TileRequest& request);

}  // namespace catenary
