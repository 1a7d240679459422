// SPDX-License-Identifier: Apache-2.0
// Faults planted into sums of contractions: the K segments of `gemm_sm80` and `gemm_sm90`.
#pragma once

#include "tests/mutants/mutant.h"

namespace catenary::testing {

inline constexpr Mutant kSumMutants[] = {
    {.name = "segment_barrier_removed",
     .planted = "no CTA barrier between the last reads of a segment and the next one's loads",
     .base = "sum of two",
     .file = "kernels/gemm_sm80.cuh",
     .text = "    cp_async_wait<0>();\n    cta_barrier();",
     .in_place = "    cp_async_wait<0>();",
     .faults = "race copy_in_flight"},
    {.name = "segment_of_no_group",
     .planted = "rows of no group have the K of the segments after the first",
     .base = "M-grouped sum",
     .file = "kernels/gemm_sm80.cuh",
     .text = "work.k_end > 0 ? ceil_div",
     .in_place = "true ? ceil_div",
     .faults = "mismatch"},
    {.name = "segment_begins_at_first_tile",
     .planted = "the k-tiles of a later segment are counted from the first segment",
     .base = "sum of two, split-K",
     .file = "kernels/gemm_sm80.cuh",
     .text = "t_begin - first, t_end - first, acc);",
     .in_place = "t_begin, t_end - first, acc);",
     .faults = "mismatch"},
    {.name = "sm90_segment_of_no_group",
     .planted = "rows of no group have the K of the segments after the first",
     .base = "sm90 M-grouped sum",
     .file = "pipeline/k_tiles.cuh",
     .text = "if (k > 0 && work.k_begin == 0) k_tiles",
     .in_place = "k_tiles",
     .faults = "mismatch"},
    {.name = "sm90_segment_k_from_first",
     .planted = "the k-tiles of the second segment are counted from the first one's begin",
     .base = "sm90 sum of two",
     .file = "pipeline/tma_loader.cuh",
     .text = "(params, work, k_tile - kFirst, to, mask);",
     .in_place = "(params, work, k_tile, to, mask);",
     .faults = "mismatch"},
    {.name = "sm90_segment_b_overwrites_a",
     .planted = "B of the second segment is loaded to the place of A",
     .base = "sm90 sum of two",
     .file = "pipeline/tma_loader.cuh",
     .text = "static_cast<i32>(outer), to.stage + kPipeline.tile_a_bytes, to.barrier);",
     .in_place = "static_cast<i32>(outer), to.stage, to.barrier);",
     .faults = "copy_in_flight race unwritten mismatch"},
};

}  // namespace catenary::testing
