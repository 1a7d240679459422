// SPDX-License-Identifier: Apache-2.0
// The tile shapes that `gemm_sm90` tries.
#pragma once

#include <vector>

#include "compiler/families/problem.h"
#include "compiler/target.h"
#include "llvm/ADT/ArrayRef.h"
#include "shared/gemm_sm90_config.h"

namespace catenary {

// What a candidate fixes of tile and schedule; the rest follows from problem and target.
struct GemmSm90Shape {
  int block_m, block_n;  // a dual GEMM takes half of block_n for each B
  int consumers;
  bool ping_pong;
  int cluster_m;
  int cluster_k = 0;    // as in GemmSm90Schedule
  int ctas_per_sm = 1;  // as there
  int cluster_n = 1;    // as there
  constexpr bool operator==(const GemmSm90Shape&) const = default;
};

// Those of any problem.
llvm::ArrayRef<GemmSm90Shape> gemm_sm90_shapes();

// Clusters of four and eight CTAs: where L2 limits a mainloop, tiles that more CTAs share take less
// from it. Some SMs stay idle, so that only some problems gain. Not of three or six CTAs: these
// fill half of the SMs (RESULTS sm90-145).
std::vector<GemmSm90Shape> gemm_sm90_clustered_shapes();

// The shapes for a problem. `base` has all but tile and schedule. `forced`: a name is forced, so
// all that a name may ask for.
std::vector<GemmSm90Shape> gemm_sm90_shapes_of(const GemmSm90Config& base,
                                               const ContractionProblem& problem,
                                               const Target& target, bool forced);

}  // namespace catenary
