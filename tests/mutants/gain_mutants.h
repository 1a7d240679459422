// SPDX-License-Identifier: Apache-2.0
// Faults planted into the gain of `skinny`.
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
     .text = "      if constexpr (kConfig.row_squares) add_chunk_squares<kConfig>(x, column, "
             "squares);\n"
             "      if constexpr (kConfig.gain.used) scale_chunk<kConfig>(gain, x);\n",
     .in_place = "      if constexpr (kConfig.gain.used) scale_chunk<kConfig>(gain, x);\n"
                 "      if constexpr (kConfig.row_squares) add_chunk_squares<kConfig>(x, column, "
                 "squares);\n",
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
