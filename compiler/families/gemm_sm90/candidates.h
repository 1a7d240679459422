// SPDX-License-Identifier: Apache-2.0
// Tiles of `gemm_sm90`: the candidate list and what each needs of a target.
#pragma once

#include "compiler/families/family.h"
#include "compiler/families/gemm_sm90/shapes.h"
#include "shared/gemm_sm90_config.h"

namespace catenary {

// Row tiles, of a cluster, in one sweep over N (`tile_swizzle`): two for M clusters of two; four,
// with which the tiles of a GPC's CTAs form a square; all for N clusters of two; else eight.
inline constexpr i32 kPairSwizzle = 2;
inline constexpr i32 kSquareSwizzle = 4;
inline constexpr i32 kWideSwizzle = 8;

// The config with that shape, its tile swizzle and as many stages as the target has room for.
// `base.tile.a_rows` is M rounded up to 8, or 0. It stays, or grows to what the tile needs, where
// it is less than block_m.
GemmSm90Config with_shape(const GemmSm90Config& base, const GemmSm90Shape& shape,
                          const Target& target);

// The tile swizzle of a persistent config, and as many stages as the target has room for.
void fit_persistent(GemmSm90Config& config, const Target& target);

// "128x256x64g2s4c2": g: cooperative consumer warpgroups (p: ping-pong), s: stages, c: CTAs of an M
// cluster, n: of an N cluster. "64x64x64g1s6k4": k: CTAs of a cluster split-K (1: none), two to an
// SM; "64x112x64g1s10k1w": the same, one to an SM. A transposed tile ends in t.
std::string tile_name(const GemmSm90Config& config, bool transposed = false);

// `config` as a candidate for the problem.
Candidate gemm_sm90_candidate(const GemmSm90Config& config, const ContractionProblem& problem,
                              const Target& target);

// `base` has all but tile and schedule.
std::vector<Candidate> gemm_sm90_candidates(const GemmSm90Config& base,
                                            const ContractionProblem& problem, const Target& target,
                                            const TileRequest& request);

}  // namespace catenary
