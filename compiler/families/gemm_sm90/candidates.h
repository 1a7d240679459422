// SPDX-License-Identifier: Apache-2.0
// Tiles of `gemm_sm90`: the candidate list and what each needs of a target.
#pragma once

#include <string>
#include <vector>

#include "compiler/families/gemm_sm80/candidates.h"

namespace catenary {

struct GemmSm90Tile {
  int block_m, block_n;  // a gated pair takes half of block_n
  int consumers;
  bool ping_pong;
  int cluster;
  int cluster_k = 0;    // as in GemmSm90Config
  int ctas_per_sm = 1;  // as there
};

// Row tiles of a band (`raster`): of four a GPC's CTAs have square blocks of tiles.
inline constexpr i32 kSquareBand = 4;
inline constexpr i32 kWideBand = 8;

llvm::ArrayRef<GemmSm90Tile> gemm_sm90_tiles();

// Bytes of the narrowest pieces that threads copy; 16 where they copy nothing.
i32 narrowest_copy(const GemmSm90Config& config);

// The config with that tile, its bands and as many stages as the target has room for. `base.a_rows`
// is M rounded up to 8, or 0, and stays, or grows as the tile demands, where it is less than the
// tile has.
GemmSm90Config with_tile(const GemmSm90Config& base, const GemmSm90Tile& tile,
                         const Target& target);

// "128x256x64g2s4c2": g: warpgroups that share the tile (p: that take turns), s: stages, c: CTAs of
// a cluster along M. "64x64x64g1s6k4": k: CTAs of a cluster along K (1: none), two to an SM;
// "64x112x64g1s10k1w": the same, one to an SM.
std::string tile_name(const GemmSm90Config& config);

struct GemmSm90Candidate {
  GemmSm90Config config;
  Prediction predicted;
  std::string rejected;  // why it cannot run
};

// Candidates for the problem, best first, impossible ones last. `base` has every choice but the
// tile made.
std::vector<GemmSm90Candidate> rank_gemm_sm90_candidates(const GemmSm90Config& base,
                                                         const GemmProblem& problem,
                                                         const Target& target,
                                                         const PlanOptions& options);

}  // namespace catenary
