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
};

}  // namespace catenary::testing
