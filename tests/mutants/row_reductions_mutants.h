// SPDX-License-Identifier: Apache-2.0
// Faults planted into reductions of rows in the epilogue of a contraction.
#pragma once

#include "tests/mutants/mutant.h"

namespace catenary::testing {

inline constexpr const char* kRowReductions = "row reductions, two blocks in a tile";
inline constexpr const char* kRowSoftmax = "row reductions, two passes past the columns";
inline constexpr const char* kRowHeads = "row reductions, a gain that repeats in blocks";
inline constexpr const char* kRowReductionsFile = "epilogue/row_reductions.cuh";

inline constexpr MutantBase kRowReductionsBases[] = {
    {.name = kRowReductions,
     .chain = "chain a(input x: bf16[100, 72], weight w: bf16[3, 64, 72]) {\n"
              "  h = contract \"mk,jck->mjc\"(x, w)\n  s = reduce_max \"mjc->mj\"(abs(h))\n"
              "  q = mul(h, s @ \"mj\")\n  return q: bf16, s: f32 }",
     .tile = "64x128x64p2s3",
     .sm_count = 2},
    {.name = kRowHeads,
     .chain = "chain a(input x: bf16[100, 72], weight w: bf16[3, 64, 72], weight g: bf16[64]) {\n"
              "  h = contract \"mk,jck->mjc\"(x, w)\n  s = reduce_max \"mjc->mj\"(abs(h))\n"
              "  q = mul(add(h, s @ \"mj\"), g)\n  return q: bf16 }",
     .tile = "64x128x64p2s3",
     .sm_count = 2},
    {.name = kRowSoftmax,
     .chain = "chain a(input x: bf16[100, 72], weight w: bf16[72, 72]) {\n"
              "  h = contract \"mk,nk->mn\"(x, w)\n  d = sub(h, reduce_max \"mn->m\"(h) @ \"m\")\n"
              "  z = sum \"mn->m\"(d)\n  y = add(d, z @ \"m\")\n  return y: bf16, z: f32 }",
     .tile = "64x96x64p2s3",
     .sm_count = 2},
};

inline constexpr Mutant kRowReductionsMutants[] = {
    {.name = "row_reductions_half_a_quad",
     .planted = "two lanes of a quad combine their results",
     .base = kRowReductions,
     .file = kRowReductionsFile,
     .text = "apart = 1; apart < 4;",
     .in_place = "apart = 1; apart < 2;",
     .faults = "mismatch"},
    {.name = "row_reductions_other_rows",
     .planted = "lanes of two rows combine their results",
     .base = kRowReductions,
     .file = kRowReductionsFile,
     .text = "apart = 1; apart < 4;",
     .in_place = "apart = 1; apart < 8;",
     .faults = "mismatch"},
    {.name = "row_reductions_one_subtile",
     .planted = "a block's first subtile is reduced only",
     .base = kRowSoftmax,
     .file = kRowReductionsFile,
     .text = "i < kBlockSubtiles; ++i",
     .in_place = "i < 1; ++i",
     .faults = "mismatch"},
    {.name = "row_reductions_not_kept",
     .planted = "values read accumulators where a pass has formed what they need",
     .base = kRowSoftmax,
     .file = kRowReductionsFile,
     .text = "if constexpr (Epilogue::kKeeps[kPass]) keep(i, d[0]);",
     .in_place = "",
     .faults = "mismatch"},
    {.name = "row_reductions_past_the_columns",
     .planted = "columns past the matrix are reduced",
     .base = kRowSoftmax,
     .file = kRowReductionsFile,
     .text = "kConfig.whole_subtiles_n || column + j < n_end ? with : sum",
     .in_place = "with",
     .faults = "mismatch"},
    {.name = "row_reductions_first_block",
     .planted = "every subtile takes the numbers of the first block",
     .base = kRowReductions,
     .file = kRowReductionsFile,
     .text = "i < 2 || subtile / kBlockSubtiles == i / 2",
     .in_place = "i < 2",
     .faults = "mismatch"},
    {.name = "row_reductions_every_lane",
     .planted = "all lanes of a quad store the row's numbers",
     .base = kRowReductions,
     .file = kRowReductionsFile,
     .text = "threadIdx.x % 4 == 0 && row < m_end",
     .in_place = "row < m_end",
     .faults = "race"},
    {.name = "row_reductions_past_the_rows",
     .planted = "numbers of rows past the matrix are stored",
     .base = kRowReductions,
     .file = kRowReductionsFile,
     .text = "row < m_end && n < n_end",
     .in_place = "n < n_end",
     .faults = "out_of_bounds race mismatch"},
    {.name = "row_reductions_past_the_blocks",
     .planted = "numbers of blocks past the matrix are stored",
     .base = kRowReductions,
     .file = kRowReductionsFile,
     .text = "row < m_end && n < n_end",
     .in_place = "row < m_end",
     .faults = "out_of_bounds race mismatch"},
    {.name = "row_reductions_at_their_column",
     .planted = "a number is stored at its first column",
     .base = kRowReductions,
     .file = kRowReductionsFile,
     .text = "element_offset<kOutput>(at) / kOutput.columns",
     .in_place = "element_offset<kOutput>(at)",
     .faults = "out_of_bounds unwritten"},
    {.name = "row_reductions_no_period",
     .planted = "a vector over a block goes on past it",
     .base = kRowHeads,
     .file = "epilogue/vec.cuh",
     .text = "kPeriod > 0 ? at.dim[kDim] % (kPeriod > 0 ? kPeriod : 1) : at.dim[kDim]",
     .in_place = "at.dim[kDim]",
     .faults = "out_of_bounds mismatch"},
    {.name = "row_reductions_one_pass",
     .planted = "the second pass is left out",
     .base = kRowSoftmax,
     .file = kRowReductionsFile,
     .text = "run<kPass + 1>(params, rows, n, n_end, load, keep, numbers);",
     .in_place = "",
     .faults = "mismatch"},
};

}  // namespace catenary::testing
