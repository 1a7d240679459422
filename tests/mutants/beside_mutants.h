// SPDX-License-Identifier: Apache-2.0
// Faults planted into the launch of several contractions side by side.
#pragma once

#include "tests/mutants/mutant.h"

namespace catenary::testing {

inline constexpr Mutant kBesideMutants[] = {
    {.name = "beside_index_of_the_grid",
     .planted = "a part after the first takes its CTA's number in the grid",
     .base = "side by side, several row tiles",
     .file = "scheduler/beside.cuh",
     .text = "run_part<Rest...>(params, index - count, row_tiles)",
     .in_place = "run_part<Rest...>(params, index, row_tiles)",
     .faults = "mismatch unwritten_output race out_of_bounds"},
    {.name = "beside_one_row_tile",
     .planted = "a part has as many CTAs as for one row tile",
     .base = "side by side, several row tiles",
     .file = "scheduler/beside.cuh",
     .text = "First::kCtas * row_tiles",
     .in_place = "First::kCtas",
     .faults = "mismatch unwritten_output race out_of_bounds"},
    {.name = "beside_last_cta_in_the_next_part",
     .planted = "the last CTA of a part runs the next one",
     .base = "side by side, clusters",
     .file = "scheduler/beside.cuh",
     .text = "if (index >= count)",
     .in_place = "if (index + 1 >= count)",
     .faults = "mismatch unwritten_output race out_of_bounds deadlock cluster barrier"},
    {.name = "beside_mma_warpgroups_in_the_whole_grid",
     .planted = "the mma warpgroups of a persistent part divide its tiles among all CTAs",
     .base = "side by side, persistent",
     .file = "kernels/gemm_sm90_persistent.cuh",
     .text = "for_each_tile<kConfig>(params, ctas,",
     .in_place = "for_each_tile<kConfig>(params, whole_grid(),",
     .faults = "mismatch unwritten_output race deadlock"},
    {.name = "beside_load_warps_in_the_whole_grid",
     .planted = "the load warps of a persistent part divide its tiles among all CTAs",
     .base = "side by side, persistent",
     .file = "kernels/gemm_sm90_persistent.cuh",
     .text = "run_load_warpgroup<kConfig>(params, ctas,",
     .in_place = "run_load_warpgroup<kConfig>(params, whole_grid(),",
     .faults = "mismatch unwritten_output race deadlock"},
};

}  // namespace catenary::testing
