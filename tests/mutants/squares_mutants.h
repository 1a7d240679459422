// SPDX-License-Identifier: Apache-2.0
// Faults planted into the sums of squares of `skinny`.
#pragma once

#include "tests/mutants/mutant.h"

namespace catenary::testing {

inline constexpr Mutant kSquaresMutants[] = {
    {.name = "skinny_squares_of_three_lanes",
     .planted = "the sum of squares of a row leaves out one of the four lanes that load it",
     .base = "skinny, sums of squares",
     .file = "kernels/skinny_squares.cuh",
     .text = "(bits_to_f32(lanes.z) + bits_to_f32(lanes.w))",
     .in_place = "bits_to_f32(lanes.z)",
     .faults = "mismatch"},
    {.name = "skinny_squares_over_the_accumulators",
     .planted = "sums of squares are stored one row too early, over an accumulator",
     .base = "skinny, sums of squares",
     .file = "kernels/skinny_squares.cuh",
     .text = "column * kConfig.sum_row() + kConfig.warp_rows() + lane % 4",
     .in_place = "column * kConfig.sum_row() + kConfig.warp_rows() - 4 + lane % 4",
     .faults = "race"},
    {.name = "skinny_squares_not_expected",
     .planted = "the mbarrier of the partials does not expect the bytes of the sums of squares",
     .base = "skinny, sums of squares",
     .file = "kernels/skinny_cluster.cuh",
     .text = "(kConfig.row_squares ? kConfig.kSquaresBytes : 0)",
     .in_place = "0",
     .faults = "transaction race barrier"},
    {.name = "skinny_squares_of_one_cta",
     .planted = "the CTAs of a cluster do not add each other's sums of squares",
     .base = "skinny, sums of squares",
     .file = "kernels/skinny_cluster.cuh",
     .text = "squares += from == rank() ? own : ld_shared_f32(squares_address(from, rank()));",
     .in_place = "squares += from == rank() ? own : 0;",
     .faults = "mismatch"},
};

}  // namespace catenary::testing
