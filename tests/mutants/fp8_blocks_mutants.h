// SPDX-License-Identifier: Apache-2.0
// Faults planted into the scales per block of fp8 in `gemm_sm90`: which scale belongs to which row,
// column, k-tile and group, and which ones do not exist.
#pragma once

#include "tests/mutants/gemm_sm90_mutants.h"

namespace catenary::testing {

inline constexpr const char* kSm90ScalesFile = "kernels/gemm_sm90_scales.cuh";
inline constexpr const char* kFp8Blocks = "sm90 fp8 blocks";
inline constexpr const char* kFp8BlocksFragments = "sm90 fp8 blocks, two fragments, N clusters";
inline constexpr const char* kFp8BlocksPingPong = "sm90 fp8 blocks, ping-pong, two sets of sums";
inline constexpr const char* kFp8BlocksExperts = "sm90 fp8 blocks, experts";

inline constexpr Mutant kFp8BlocksMutants[] = {
    {.name = "fp8_scales_of_rows_past_the_last",
     .planted = "scales of rows past the last one are read",
     .base = kFp8Blocks,
     .file = kSm90ScalesFile,
     .text = "if (!kChecksRows || row < rows_left_)",
     .in_place = "",
     .faults = "out_of_bounds"},
    {.name = "fp8_scales_of_another_row",
     .planted = "pairs of rows share the scale of the first",
     .base = kFp8Blocks,
     .file = kSm90ScalesFile,
     .text = "row += threadIdx.x % 32 / 4;",
     .in_place = "row += threadIdx.x % 32 / 8 * 2;",
     .faults = "mismatch"},
    {.name = "fp8_scales_of_the_first_fragment",
     .planted = "the second fragment has the scales of the first",
     .base = kFp8BlocksFragments,
     .file = kSm90ScalesFile,
     .text = "mul_rn(scales.a[2 * f + h], scales.b[block])",
     .in_place = "mul_rn(scales.a[h], scales.b[block])",
     .faults = "mismatch"},
    {.name = "fp8_second_block_one_group_late",
     .planted = "the second block of columns begins 8 columns late",
     .base = kFp8Blocks,
     .file = kSm90ScalesFile,
     .text = "i / 4 * 8 >= first_columns()",
     .in_place = "i / 4 * 8 > first_columns()",
     .faults = "mismatch"},
    {.name = "fp8_block_after_the_last",
     .planted = "a tile that begins in the last block of columns reads a further one",
     .base = kFp8Blocks,
     .file = kSm90ScalesFile,
     .text = "next_ = block < kLast ? kB.stride_row * 4 : 0;",
     .in_place = "next_ = kB.stride_row * 4;",
     .faults = "out_of_bounds"},
    {.name = "fp8_block_of_a_tile_past_the_last",
     .planted = "a tile after the last column reads scales of its columns",
     .base = kFp8BlocksFragments,
     .file = kSm90ScalesFile,
     .text = "if (block > kLast) block = kLast;",
     .in_place = "",
     .faults = "out_of_bounds"},
    {.name = "fp8_scales_of_the_next_k_tile",
     .planted = "a k-tile has the scales of the next one",
     .base = kFp8Blocks,
     .file = kSm90ScalesFile,
     .text = "k_begin_ + k_tile * kConfig.block_k()",
     .in_place = "k_begin_ + (k_tile + 1) * kConfig.block_k()",
     .faults = "out_of_bounds mismatch"},
    {.name = "fp8_scales_of_the_second_k_tile",
     .planted = "two k-tiles: both have the scales of the second",
     .base = kFp8BlocksPingPong,
     .file = kSm90MainloopFile,
     .text = "add(d, 0, first, at.scales, before.scales);",
     .in_place = "add(d, 0, first, at.scales, of_k_tile);",
     .faults = "mismatch"},
    {.name = "fp8_scales_without_a_group",
     .planted = "rows of no group read scales of a k-tile after the last",
     .base = kFp8BlocksExperts,
     .file = kSm90ScalesFile,
     .text = "if (GemmSm90Traits<kConfig>::kAddsZeroKTile && k >= kConfig.space.k.size) return "
             "scales;",
     .in_place = "",
     .faults = "out_of_bounds"},
    {.name = "fp8_scales_of_the_first_group",
     .planted = "every group has the scales of the first one's weights",
     .base = kFp8BlocksExperts,
     .file = kSm90ScalesFile,
     .text = "work.group * kB.stride_group",
     .in_place = "0 * kB.stride_group",
     .faults = "mismatch"},
    {.name = "fp8_scales_before_the_wait",
     .planted = "the mma warpgroups read scales before the dependency wait",
     .base = kFp8Blocks,
     .file = "kernels/gemm_sm90_persistent.cuh",
     .text = "u32 order_phase = warpgroup ^ 1; griddepcontrol_wait();",
     .in_place = "u32 order_phase = warpgroup ^ 1;",
     .faults = "before_dependency_wait no_dependency_wait"},
};

}  // namespace catenary::testing
