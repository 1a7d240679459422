// SPDX-License-Identifier: Apache-2.0
// A contraction's operands as `gemm_sm90` loads them: by TMA where a tensor map describes them,
// else by cp.async.
#pragma once

#include "compiler/families/problem.h"
#include "compiler/target.h"
#include "shared/gemm_sm90_config.h"

namespace catenary {

// The config but for the tile, and the maps but for the boxes along M and N.
struct Sm90Layout {
  GemmSm90Config config;
  std::vector<MapBinding> maps;
};

// Why wgmma does not take the operands' layout: a sentence with the fix; "": it does.
std::string sm90_layout_refusal(const ContractionProblem& problem);

// Why operands that cp.async does not load, those of a sum of products or of fp8, have no tensor
// maps of one layout; "": they have, or cp.async may load them.
std::string sm90_map_refusal(const ContractionProblem& problem);

// Operands of the epilogue that vary along both M and N.
int sm90_matrix_operands(const ContractionProblem& problem);

// Why the epilogue of a layout does not reduce the rows of its tiles; "": it does, or the problem
// has no row reductions.
std::string sm90_row_reduction_refusal(const ContractionProblem& problem,
                                       const GemmSm90Config& config);

// Why the kernel does not sum the squares of the rows of A; "": it does, or need not.
std::string sm90_squares_refusal(const ContractionProblem& problem, const GemmSm90Config& config);

// Nothing: an extent is too large, or an operand has no contiguous dimension.
std::optional<Sm90Layout> sm90_layout(const ContractionProblem& problem);

// The boxes of the operands' maps, which the tile decides.
void set_operand_boxes(const GemmSm90Config& config, std::vector<MapBinding>& maps);

// 16-bit outputs are stored by TMA where the hardware takes their layout and the kernel's
// parameters have room for the map.
void map_outputs(KernelPlan& kernel);

}  // namespace catenary
