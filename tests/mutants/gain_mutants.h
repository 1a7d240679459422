// SPDX-License-Identifier: Apache-2.0
// Faults planted into the gains of `skinny` and `skinny_dequant`.
#pragma once

#include "tests/mutants/mutant.h"

namespace catenary::testing {

inline constexpr Mutant kGainMutants[] = {
    {.name = "skinny_gain_of_the_block_before",
     .planted = "a block of X is multiplied by the gain of the block before it",
     .base = "skinny, a gain",
     .file = "kernels/skinny_gain.cuh",
     .text = "ld_global_v4(from + block * 128 + half * 16)",
     .in_place = "ld_global_v4(from + (block > 0 ? block - 1 : 0) * 128 + half * 16)",
     .faults = "mismatch"},
    {.name = "skinny_gain_of_warp_0",
     .planted = "all warps multiply by the gain of the first part of K",
     .base = "skinny, a gain",
     .file = "kernels/skinny_gain.cuh",
     .text = "(params.ptr[kConfig.gain.slot]) + work.chunk0 * 16",
     .in_place = "(params.ptr[kConfig.gain.slot])",
     .faults = "mismatch"},
    {.name = "skinny_gain_of_eight_rows",
     .planted = "the second column tile of X is not multiplied",
     .base = "skinny, a gain",
     .file = "kernels/skinny_gain.cuh",
     .text = "for (int j = 0; j < kTiles; ++j)",
     .in_place = "for (int j = 0; j < 1; ++j)",
     .faults = "mismatch"},
    {.name = "skinny_squares_after_the_gain",
     .planted = "the squares are those of X times the gain",
     .base = "skinny, a gain",
     .file = "kernels/skinny.cuh",
     .text = "kSquaresWithMmas = kConfig.squares_by_mma() && !kConfig.gain.used;",
     .in_place = "kSquaresWithMmas = kConfig.squares_by_mma();",
     .faults = "mismatch"},
    {.name = "skinny_dequant_gain_of_warp_0",
     .planted = "all warps multiply by the gain of the first part of K",
     .base = "skinny_dequant, a gain",
     .file = "kernels/skinny_dequant_ring.cuh",
     .text = "(params.ptr[kConfig.gain.slot]) + work.block0 * kPackedColumns * 2",
     .in_place = "(params.ptr[kConfig.gain.slot])",
     .faults = "mismatch"},
    {.name = "skinny_dequant_gain_not_expected",
     .planted = "the mbarrier of X does not expect the bytes of the gain",
     .base = "skinny_dequant, a gain",
     .file = "kernels/skinny_dequant_ring.cuh",
     .text = "with_gain ? 2 * bytes : bytes",
     .in_place = "bytes",
     .faults = "transaction copy_in_flight unwritten phase barrier"},
    {.name = "skinny_dequant_gain_of_the_chunk_before",
     .planted = "the second chunk of a stage is multiplied by the gain of the first",
     .base = "skinny_dequant, a gain",
     .file = "kernels/skinny_dequant_operands.cuh",
     .text = "kConfig.gain_offset() +\n                     first * 2 + ",
     .in_place = "kConfig.gain_offset() +\n                     ",
     .faults = "mismatch"},
    {.name = "skinny_dequant_squares_after_the_gain",
     .planted = "the squares are those of X times the gain",
     .base = "skinny_dequant, a gain",
     .file = "kernels/skinny_dequant.cuh",
     .text = "    if constexpr (kConfig.row_squares) x.add_squares(sums.squares);\n"
             "    x.scale(ring, chunk);\n",
     .in_place = "    x.scale(ring, chunk);\n"
                 "    if constexpr (kConfig.row_squares) x.add_squares(sums.squares);\n",
     .faults = "mismatch"},
    {.name = "skinny_gain_before_the_wait",
     .planted = "a gain that the kernel before computes is loaded before the dependency wait",
     .base = "skinny, a gain",
     .file = "kernels/skinny.cuh",
     .text = "  if constexpr (kConfig.gain.used && kConfig.gain.weight) "
             "prefetch_gain<kConfig>(params, work);\n",
     .in_place = "  typename T::GainChunk early;\n"
                 "  if constexpr (kConfig.gain.used) load_gain<kConfig>(params, work, 0, early);\n",
     .faults = "before_dependency_wait"},
};

}  // namespace catenary::testing
