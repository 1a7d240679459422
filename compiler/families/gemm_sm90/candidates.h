// SPDX-License-Identifier: Apache-2.0
// Tiles of `gemm_sm90`: the candidate list and what each needs of a target.
#pragma once

#include "compiler/families/family.h"

namespace catenary {

struct GemmSm90Tile {
  int block_m, block_n;  // a dual GEMM takes half of block_n for each B
  int consumers;
  bool ping_pong;
  int cluster_m;
  int cluster_k = 0;    // as in GemmSm90Config
  int ctas_per_sm = 1;  // as there
  int cluster_n = 1;    // as there
};

// Row tiles of one sweep over N (`tile_swizzle`). With four, the tiles of a GPC's CTAs form a
// square.
inline constexpr i32 kSquareSwizzle = 4;
inline constexpr i32 kWideSwizzle = 8;

llvm::ArrayRef<GemmSm90Tile> gemm_sm90_tiles();

// The config with that tile, its tile swizzle and as many stages as the target has room for.
// `base.a_rows` is M rounded up to 8, or 0, and stays, or grows as the tile demands, where it is
// less than the tile has.
GemmSm90Config with_tile(const GemmSm90Config& base, const GemmSm90Tile& tile,
                         const Target& target);

// "128x256x64g2s4c2": g: cooperative consumer warpgroups (p: ping-pong), s: stages, c: CTAs of an M
// cluster, n: of an N cluster. "64x64x64g1s6k4": k: CTAs of a cluster split-K (1: none), two to an
// SM; "64x112x64g1s10k1w": the same, one to an SM.
std::string tile_name(const GemmSm90Config& config);

// `base` has every choice but the tile made.
std::vector<Candidate> gemm_sm90_candidates(const GemmSm90Config& base,
                                            const ContractionProblem& problem, const Target& target,
                                            const TileRequest& request);

}  // namespace catenary
