// SPDX-License-Identifier: Apache-2.0
// Faults planted into epilogue operands that are taken by the group of a row.
#pragma once

#include "tests/mutants/elementwise_mutants.h"
#include "tests/mutants/ragged_mutants.h"
#include "tests/mutants/skinny_ragged_mutants.h"

namespace catenary::testing {

inline constexpr const char* kGroupOperand = "M-grouped, bias by group";
inline constexpr const char* kSm90GroupOperand = "sm90 M-grouped, bias by group";
inline constexpr const char* kSm90GroupOperandStaged = "sm90 M-grouped, bias by group, staged";
inline constexpr const char* kSkinnyGroupOperand = "skinny, M-grouped, bias by group";

inline constexpr Mutant kGroupOperandMutants[] = {
    {.name = "group_operand_of_first",
     .planted = "rows of every group read the bias of the first",
     .base = kGroupOperand,
     .file = "epilogue/vec.cuh",
     .text = "return kOperand.by_group ? static_cast<i64>(at.group) * kOperand.stride_group : 0;",
     .in_place = "return 0;",
     .faults = "mismatch"},
    {.name = "group_operand_without_group",
     .planted = "rows of no group read the bias at the number for none",
     .base = kGroupOperand,
     .file = "epilogue/operand.cuh",
     .text = "    if (at.group == kNoGroup) {\n",
     .in_place = "    if (false) {\n",
     .faults = "out_of_bounds"},
    {.name = "group_operand_pair_without_group",
     .planted = "a packed pair of rows of no group is read at the number for none",
     .base = kSm90GroupOperand,
     .file = "epilogue/operand.cuh",
     .text = "    if (at.group == kNoGroup) {\n",
     .in_place = "    if (false) {\n",
     .faults = "out_of_bounds"},
    {.name = "group_operand_past_last_end",
     .planted = "rows past the last end read the bias of the first group",
     .base = kGroupOperand,
     .file = "scheduler/tile_scheduler.cuh",
     .text = "    work.of_group = false;\n",
     .in_place = "",
     .faults = "mismatch"},
    {.name = "sm90_group_operand_past_last_end",
     .planted = "rows past the last end read the bias of the first group",
     .base = kSm90GroupOperand,
     .file = kGroupedFile,
     .text = "      work.of_group = false;\n",
     .in_place = "",
     .faults = "mismatch"},
    {.name = "sm90_group_operand_not_handed_on",
     .planted = "the register epilogue does not know the group of its tile",
     .base = kSm90GroupOperand,
     .file = "epilogue/registers.cuh",
     .text = "    if constexpr (kConfig.m_grouped) coord.group = row_group(work);\n",
     .in_place = "",
     .faults = "mismatch"},
    {.name = "sm90_group_operand_not_handed_on_staged",
     .planted = "the staged epilogue does not know the group of its tile",
     .base = kSm90GroupOperandStaged,
     .file = "epilogue/staged.cuh",
     .text = "    if constexpr (kConfig.m_grouped) coord.group = row_group(work);\n",
     .in_place = "",
     .faults = "mismatch"},
    {.name = "skinny_group_operand_past_last_end",
     .planted = "rows past the last end read the bias of a group that does not exist",
     .base = kSkinnyGroupOperand,
     .file = "kernels/skinny.cuh",
     .text = "work.group < kConfig.ragged.num_groups ? work.group : kNoGroup;",
     .in_place = "work.group;",
     .faults = "out_of_bounds"},
};

}  // namespace catenary::testing
