// SPDX-License-Identifier: Apache-2.0
// Faults planted into the groups of kernels without ragged tiles: sums by group, operands by group
// of pointwise kernels.
#pragma once

#include "tests/mutants/mutant.h"

namespace catenary::testing {

inline constexpr const char* kGroupSum = "sum by group";
inline constexpr const char* kPointwiseGroups = "pointwise, operand by group";
inline constexpr const char* kGroupEndsFile = "epilogue/group_ends.cuh";

inline constexpr Mutant kGroupEndsMutants[] = {
    {.name = "group_sum_from_the_first_row",
     .planted = "a group begins at the first row",
     .base = kGroupSum,
     .file = kGroupEndsFile,
     .text = "begin = before < 0 ? 0 : before < rows ? before : rows;",
     .in_place = "begin = 0 * before;",
     .faults = "mismatch"},
    {.name = "group_sum_end_not_clamped",
     .planted = "an end past the rows is not clamped",
     .base = kGroupSum,
     .file = kGroupEndsFile,
     .text = "last < rows ? last : rows;",
     .in_place = "last;",
     .faults = "out_of_bounds"},
    {.name = "group_sum_negative_end",
     .planted = "an end before the first row is not clamped",
     .base = kGroupSum,
     .file = kGroupEndsFile,
     .text = "before < 0 ? 0 : before < rows",
     .in_place = "before < rows",
     .faults = "out_of_bounds"},
    {.name = "group_sum_own_end",
     .planted = "a group begins at its own end",
     .base = kGroupSum,
     .file = kGroupEndsFile,
     .text = "group_end<kEnds>(params, group - 1)",
     .in_place = "group_end<kEnds>(params, group)",
     .faults = "mismatch"},
    {.name = "group_sum_rows_from_zero",
     .planted = "the terms of every group are counted from row 0",
     .base = kGroupSum,
     .file = "kernels/reduce.cuh",
     .text = "static_cast<u64>(term), first, at);",
     .in_place = "static_cast<u64>(term), 0, at);",
     .faults = "mismatch"},
    {.name = "group_of_the_row_at_its_end",
     .planted = "the row at the end of a group is its last",
     .base = kPointwiseGroups,
     .file = kGroupEndsFile,
     .text = "> static_cast<i64>(row)",
     .in_place = ">= static_cast<i64>(row)",
     .faults = "mismatch"},
    {.name = "group_of_a_row_of_none",
     .planted = "rows past the last end are of a group after the last",
     .base = kPointwiseGroups,
     .file = kGroupEndsFile,
     .text = "return low < kEnds.num_groups ? low : kNoGroup;",
     .in_place = "return low;",
     .faults = "out_of_bounds"},
    {.name = "pointwise_group_before_wait",
     .planted = "the ends are read before the dependency wait",
     .base = kPointwiseGroups,
     .file = "kernels/pointwise.cuh",
     .text = "if constexpr (!kByGroup) Program::load_weights(params, at[u], operands[u]);",
     .in_place = "at[u].group = group_of_row<kConfig.ends>(params, at[u].dim[kConfig.ends.dim]);",
     .faults = "before_dependency_wait"},
    {.name = "pointwise_group_not_found",
     .planted = "every row is of no group",
     .base = kPointwiseGroups,
     .file = "kernels/pointwise.cuh",
     .text = "at[u].group = group_of_row<kConfig.ends>(params, at[u].dim[kConfig.ends.dim]);",
     .in_place = "",
     .faults = "mismatch"},
};

}  // namespace catenary::testing
