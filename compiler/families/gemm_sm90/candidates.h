// SPDX-License-Identifier: Apache-2.0
// Tiles of `gemm_sm90`: the candidate list and what each needs of a target.
#pragma once

#include "compiler/families/family.h"
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

// Row tiles of one sweep over N (`tile_swizzle`). With four, the tiles of a GPC's CTAs form a
// square.
inline constexpr i32 kSquareSwizzle = 4;
inline constexpr i32 kWideSwizzle = 8;

llvm::ArrayRef<GemmSm90Shape> gemm_sm90_shapes();

// Clusters of four and eight CTAs: where L2 limits a mainloop, tiles that more CTAs share take less
// from it. Some SMs stay idle, so that only some problems gain. Not of three or six CTAs: these
// fill half of the SMs (RESULTS sm90-145).
std::vector<GemmSm90Shape> gemm_sm90_clustered_shapes();

// The config with that shape, its tile swizzle and as many stages as the target has room for.
// `base.tile.a_rows` is M rounded up to 8, or 0. It stays, or grows to what the tile needs, where
// it is less than block_m.
GemmSm90Config with_shape(const GemmSm90Config& base, const GemmSm90Shape& shape,
                          const Target& target);

// The tile swizzle of a persistent config, and as many stages as the target has room for.
void fit_persistent(GemmSm90Config& config, const Target& target);

// "128x256x64g2s4c2": g: cooperative consumer warpgroups (p: ping-pong), s: stages, c: CTAs of an M
// cluster, n: of an N cluster. "64x64x64g1s6k4": k: CTAs of a cluster split-K (1: none), two to an
// SM; "64x112x64g1s10k1w": the same, one to an SM.
std::string tile_name(const GemmSm90Config& config);

// `config` as a candidate for the problem.
Candidate gemm_sm90_candidate(const GemmSm90Config& config, const ContractionProblem& problem,
                              const Target& target);

// `base` has all but tile and schedule.
std::vector<Candidate> gemm_sm90_candidates(const GemmSm90Config& base,
                                            const ContractionProblem& problem, const Target& target,
                                            const TileRequest& request);

}  // namespace catenary
