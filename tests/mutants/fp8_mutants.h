// SPDX-License-Identifier: Apache-2.0
// Faults planted into the promoted sums of fp8 in `gemm_sm90`, and into its fp8 results.
#pragma once

#include "tests/mutants/gemm_sm90_mutants.h"

namespace catenary::testing {

inline constexpr const char* kFp8 = "sm90 fp8";
inline constexpr const char* kFp8PingPong = "sm90 fp8, ping-pong, two sets of sums";
inline constexpr const char* kFp8Dual = "sm90 fp8 dual GEMM, two sets of sums";

inline constexpr Mutant kFp8Mutants[] = {
    {.name = "fp8_part_not_waited_for",
     .planted = "one set: the sums of a part are added before its MMAs have completed",
     .base = kFp8,
     .file = kSm90MainloopFile,
     .text = "wgmma_wait<0>();\n      if (part + 1 == kParts) release_stage",
     .in_place = "if (part + 1 == kParts) release_stage",
     .faults = "accumulator copy_in_flight race"},
    {.name = "fp8_released_after_first_part",
     .planted = "one set: the stage is released after the first part",
     .base = kFp8,
     .file = kSm90MainloopFile,
     .text = "if (part + 1 == kParts) release_stage",
     .in_place = "if (part == 0) release_stage",
     .faults = "copy_in_flight race"},
    {.name = "fp8_sums_not_restarted",
     .planted = "the sums of a k-tile begin with those of the k-tile before",
     .base = kFp8,
     .file = kMmaFile,
     .text = "mma_k_block<kPipeline>(p, tile, i, f, s, i != 0)",
     .in_place = "mma_k_block<kPipeline>(p, tile, i, f, s, true)",
     .faults = "mismatch"},
    {.name = "fp8_part_of_another_fragment",
     .planted = "one set: every part adds to the first fragment",
     .base = kFp8,
     .file = kSm90MainloopFile,
     .text = "d[part % T::kAccumulators][part / T::kAccumulators];",
     .in_place = "d[part % T::kAccumulators][0];",
     .faults = "mismatch"},
    {.name = "fp8_order_not_passed",
     .planted = "two k-tiles: the order barrier is not passed on",
     .base = kFp8PingPong,
     .file = kSm90MainloopFile,
     .text = "if (at.last) pass_order<kConfig>(at.smem, at.warpgroup);\n    wgmma_wait<1>();",
     .in_place = "wgmma_wait<1>();",
     .faults = "deadlock"},
    {.name = "fp8_stage_of_second_k_tile_released_early",
     .planted = "two k-tiles: the second stage is released while its MMAs run",
     .base = kFp8PingPong,
     .file = kSm90MainloopFile,
     .text = "release_stage<kPipelineOf<kConfig>>(at.smem, before.stage);",
     .in_place = "release_stage<kPipelineOf<kConfig>>(at.smem, at.stage);",
     .faults = "copy_in_flight race deadlock"},
    {.name = "fp8_second_part_of_first_b",
     .planted = "two parts: both are the product with the first B",
     .base = kFp8Dual,
     .file = kSm90MainloopFile,
     .text = "issue(second, tile, part + 1);",
     .in_place = "issue(second, tile, part);",
     .faults = "mismatch"},
    {.name = "fp8_columns_of_the_wrong_lane",
     .planted = "results in fp8: groups of columns are exchanged with the neighbour lane",
     .base = kFp8,
     .file = kSubtileStoresFile,
     .text = "shuffle_xor(low ? high_groups : low_groups, 2)",
     .in_place = "shuffle_xor(low ? high_groups : low_groups, 1)",
     .faults = "mismatch"},
    {.name = "fp8_odd_columns_kept",
     .planted = "results in fp8: even lanes send the group that they keep",
     .base = kFp8,
     .file = kSubtileStoresFile,
     .text = "shuffle_xor(even ? odd_group : even_group, 1)",
     .in_place = "shuffle_xor(even ? even_group : odd_group, 1)",
     .faults = "mismatch"},
};

}  // namespace catenary::testing
