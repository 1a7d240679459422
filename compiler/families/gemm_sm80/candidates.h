// SPDX-License-Identifier: Apache-2.0
// Tiles of `gemm_sm80`: the candidate list, what each needs of a target, and the cost model. A
// candidate is judged by arithmetic that a reader can redo by hand (see gemm_tiles.cpp).
#pragma once

#include <string>
#include <vector>

#include "compiler/plan.h"

namespace catenary {

struct GemmTile {
  int block_m, block_n, block_k;  // block_k in 16-bit elements; 32-bit operands take half
  int warps_m, warps_n, stages;
};

llvm::ArrayRef<GemmTile> gemm_tiles();

// "128x128x32w2x2s4".
std::string tile_name(const GemmSm80Config& config);

// Few rows with so many terms stream W faster than a copy does (gemm_tiles.cpp).
inline constexpr i64 kLongStream = 12800;

// A problem with every choice but the tile made.
struct GemmProblem {
  GemmSm80Config base;        // extents, operands, math, ragged
  i64 batch = 1;              // product of the batch extents, largest
  i64 m = 0, n = 0, k = 0;    // largest sizes; k counts all outer steps
  i64 matrix_bytes = 0;       // A, B (, B2), each once
  i64 epilogue_bytes = 0;     // other tensors, each once
  double epilogue_flops = 0;  // elementwise work over all of D
};

struct GemmAxes;
struct GroupContext;
GemmProblem make_gemm_problem(const GroupContext& context, const GemmAxes& axes);

struct GemmCandidate {
  GemmSm80Config config;
  int min_ctas = 1;       // CTAs per SM that registers and shared memory allow
  i64 partial_bytes = 0;  // workspace of a K split
  Prediction predicted;   // fix-up included
  std::string rejected;   // why it cannot run on the target
};

// The rate of the instruction that forms the products, dense, in 1e12 flops/s.
double math_tflops(const Target& target, MathMode math);

// Candidates for the problem, best first, impossible ones last. Empty only if `options` force a
// tile or a split that no candidate has.
std::vector<GemmCandidate> rank_gemm_candidates(const GemmProblem& problem, const Target& target,
                                                const PlanOptions& options);

}  // namespace catenary
