// SPDX-License-Identifier: Apache-2.0
// The ragged groups of kernels without ragged tiles (`pointwise`, `reduce`): the group of a row,
// and the rows of a group. Rows become addresses, so whatever the ends are, a group is below
// num_groups and its rows are below `rows`.
#pragma once

#include "epilogue/vec.cuh"

namespace catenary {

template <GroupEnds kEnds, class P>
CATENARY_DEVICE i64 group_end(const P& params, u32 group) {
  const u8* ends = static_cast<const u8*>(params.ptr[kEnds.slot]);
  return static_cast<i32>(ld_global_u32(ends + static_cast<i64>(group) * 4));
}

// The first group whose end is above the row, by bisection; kNoGroup past the last end.
template <GroupEnds kEnds, class P>
CATENARY_DEVICE u32 group_of_row(const P& params, u32 row) {
  u32 low = 0;
  u32 high = static_cast<u32>(kEnds.num_groups);
#pragma unroll 1
  while (low < high) {
    const u32 middle = (low + high) / 2;
    if (group_end<kEnds>(params, middle) > static_cast<i64>(row)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low < kEnds.num_groups ? low : kNoGroup;
}

struct RowRange {
  i64 begin, end;  // equal: no rows
};

template <GroupEnds kEnds, class P>
CATENARY_DEVICE RowRange rows_of_group(const P& params, u32 group, i64 rows) {
  const i64 before = group > 0 ? group_end<kEnds>(params, group - 1) : 0;
  const i64 last = group_end<kEnds>(params, group);
  const i64 begin = before < 0 ? 0 : before < rows ? before : rows;
  const i64 end = last < begin ? begin : last < rows ? last : rows;
  return {begin, end};
}

}  // namespace catenary
