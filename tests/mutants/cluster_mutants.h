// SPDX-License-Identifier: Apache-2.0
// Mutants of clusters of M x N in `gemm_sm90`: which CTAs share a tile. And of k-slices that a CTA
// sums separately.
#pragma once

#include "tests/mutants/mutant.h"

namespace catenary::testing {

inline constexpr const char* kSm90Clusters = "sm90 gemm, clusters of 2 x 2";

inline constexpr const char* kSm90Turns = "sm90 gemm, transposed, boxes in turns";

inline constexpr const char* kSm90Slices = "sm90 gemm, k-slices";

inline constexpr Mutant kClusterMutants[] = {
    {.name = "sm90_last_slice_only",
     .planted = "the sum of a k-slice takes the place of those before",
     .base = kSm90Slices,
     .file = "kernels/gemm_sm90_mainloop.cuh",
     .text = "d[f][a][i] = slice == 0 ? sum : d[f][a][i] + sum;",
     .in_place = "d[f][a][i] = sum;",
     .faults = "mismatch"},
    {.name = "sm90_slice_not_released",
     .planted = "the last stage of a k-slice is not released",
     .base = kSm90Slices,
     .file = "kernels/gemm_sm90_mainloop.cuh",
     .text = "    wgmma_wait<0>();\n    release_stage<kPipelineOf<kConfig>>(smem, previous);\n",
     .in_place = "    wgmma_wait<0>();\n",
     .faults = "deadlock"},
    {.name = "sm90_slice_added_early",
     .planted = "a k-slice is added while its last MMAs run",
     .base = kSm90Slices,
     .file = "kernels/gemm_sm90_mainloop.cuh",
     .text = "    wgmma_wait<0>();\n    release_stage<kPipelineOf<kConfig>>(smem, previous);\n",
     .in_place = "    release_stage<kPipelineOf<kConfig>>(smem, previous);\n",
     .faults = "race copy_in_flight"},
    {.name = "sm90_slice_keeps_the_one_before",
     .planted = "the first MMA of a k-slice adds to the sums of the one before",
     .base = kSm90Slices,
     .file = "kernels/gemm_sm90_mainloop.cuh",
     .text = "T::kMayHaveNoKTile || k_tile != begin,",
     .in_place = "T::kMayHaveNoKTile || k_tile != 0,",
     .faults = "mismatch"},
    {.name = "sm90_released_in_own_row_only",
     .planted = "a stage is not released in the CTAs that load its B",
     .base = kSm90Clusters,
     .file = "pipeline/pipeline.cuh",
     .text = "if (cluster_row<kPipeline>(other) != cluster_row<kPipeline>(rank) &&\n        "
             "cluster_column<kPipeline>(other) != cluster_column<kPipeline>(rank)) {",
     .in_place = "if (cluster_row<kPipeline>(other) != cluster_row<kPipeline>(rank)) {",
     .faults = "deadlock"},
    {.name = "sm90_released_in_whole_cluster",
     .planted = "a stage is released in a CTA that does not load into it",
     .base = kSm90Clusters,
     .file = "pipeline/pipeline.cuh",
     .text = "if constexpr (kPipeline.cluster_m > 1 && kPipeline.cluster_n > 1) {",
     .in_place = "if constexpr (false) {",
     .faults = "barrier race copy_in_flight deadlock phase"},
    {.name = "sm90_a_of_other_row",
     .planted = "A is sent to the CTAs of the other row as well",
     .base = kSm90Clusters,
     .file = "pipeline/tma_loader.cuh",
     .text = "row |= 1u << (i * kPipeline.cluster_m);",
     .in_place = "row |= 3u << (i * kPipeline.cluster_m);",
     .faults = "out_of_bounds barrier race copy_in_flight deadlock"},
    {.name = "sm90_b_of_first_column",
     .planted = "B is sent to the CTAs of the first column",
     .base = kSm90Clusters,
     .file = "pipeline/tma_loader.cuh",
     .text = "kColumn << (cluster_column<kPipeline>(rank) * kPipeline.cluster_m)",
     .in_place = "kColumn",
     .faults = "barrier race copy_in_flight deadlock mismatch phase"},
    {.name = "sm90_a_in_one_part",
     .planted = "the CTAs of a row load one part of A each, all of them the first",
     .base = kSm90Clusters,
     .file = "pipeline/tma_loader.cuh",
     .text = "return {cluster_column<kPipeline>(rank), static_cast<u16>(row",
     .in_place = "return {cluster_row<kPipeline>(rank), static_cast<u16>(row",
     .faults = "race copy_in_flight mismatch unwritten"},
    {.name = "sm90_box_of_no_cta",
     .planted = "a CTA loads a box past the end of the tile",
     .base = kSm90Turns,
     .file = "pipeline/tma_loader.cuh",
     .text = "if (i + kCtas > kBoxes && box >= kBoxes) break;",
     .in_place = "",
     .faults = "barrier race copy_in_flight out_of_bounds phase"},
    {.name = "sm90_boxes_of_first_cta",
     .planted = "all CTAs of a column load the first one's boxes",
     .base = kSm90Turns,
     .file = "pipeline/tma_loader.cuh",
     .text = "const i32 box = i + static_cast<i32>(share.part);",
     .in_place = "const i32 box = i;",
     .faults = "barrier race copy_in_flight phase"},
    {.name = "sm90_too_few_boxes_in_turns",
     .planted = "the boxes of the last turn are not loaded",
     .base = kSm90Turns,
     .file = "pipeline/tma_loader.cuh",
     .text = "for (i32 i = 0; i < kBoxes; i += kCtas) {",
     .in_place = "for (i32 i = 0; i + kCtas <= kBoxes; i += kCtas) {",
     .faults = "deadlock"},
};

}  // namespace catenary::testing
