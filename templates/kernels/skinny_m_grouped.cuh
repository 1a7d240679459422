// SPDX-License-Identifier: Apache-2.0
// `skinny` over ragged rows: few rows of X for each of many groups, as when a mixture of experts
// decodes. A CTA has 16 rows of W per row of warps, as there, of one group that has rows, and keeps
// them while all of the group's rows meet them, `columns` at a time:
//
//   CTA:    number ((i * batches + batch) * tiles of W + tile), of the i-th group that has rows
//   warp:   slice of W | its sums of this chunk, since the next one needs W again
#pragma once

#include "kernels/skinny.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "scheduler/grouped.cuh"

namespace catenary {

// Rows of a group, `columns` at a time, while W stays where it is. Most groups have one such chunk.
template <const SkinnyConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void mma_chunks(const P& params, SkinnyWorkTile& work, i64 m_end, u32 slices,
                                u32 barriers,
                                const typename SkinnyTypes<kConfig>::WeightBlock* registers) {
  const u32 slice = slices + threadIdx.x / 32 * kConfig.slice_bytes();
  bool landed = false;
#pragma unroll 1
  for (; work.m0 < m_end; work.m0 += kConfig.columns) {
    const i64 left = m_end - work.m0;
    const i64 m = left < kConfig.columns ? left : kConfig.columns;
    const Coord at = skinny_coord<kConfig>(work, m);
    typename Epilogue::Operands operands;
    if (at.valid > 0) Epilogue::load_weights(params, at, operands);
    typename SkinnyTypes<kConfig>::Sums sums = {};
    // Rows behind the last end meet no W: an empty sum.
    if (work.group < kConfig.num_groups) {
      mma_slice<kConfig>(params, work, m, slice, barriers, registers, sums, landed);
    }
    if (at.valid > 0) Epilogue::load(params, at, operands);
    // Every thread arrives: all have read the sums of the chunk before.
    if (landed) cta_barrier();
    store_accumulators<kConfig>(slice + kConfig.sums_offset(), sums);
    // Every thread arrives: the sums of all warps are visible behind it.
    cta_barrier();
    if (at.valid > 0) {
      store_vector<kConfig, Epilogue>(params, slices + kConfig.sums_offset(), at, operands);
    }
    landed = true;
  }
}

// The grid has CTAs for as many groups as may have rows; those that find no group leave.
//
// No W is asked for before the wait, be it a weight or not: whose it is, and whether it is
// anybody's, the ends say, and those are data. The i-th CTAs could guess that their group is group
// i; but a wrong guess costs as much as the kernel itself, and it is wrong behind the first empty
// group: nearly always where few rows meet many groups, which is where a start before the wait
// would pay.
template <const SkinnyConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void skinny_m_grouped(const P& params) {
  using T = SkinnyTypes<kConfig>;
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();
  SkinnyWorkTile work = find_skinny_work<kConfig>();
  const GroupRows rows = find_occupied_group<kConfig.num_groups>(
      static_cast<const u8*>(params.ptr[kConfig.group_ends_slot]), work.ordinal,
      static_cast<i32>(extent_at_launch(kConfig.m, params)));
  if (rows.begin >= rows.end) return;
  work.group = rows.group;
  work.m0 = rows.begin;
  const u32 warp = threadIdx.x / 32;
  const u32 barriers = dynamic_smem() + warp * kConfig.copy_groups * 8;
  const u32 slices = dynamic_smem() + kConfig.barrier_bytes();

  typename T::WeightBlock registers[kConfig.register_blocks > 0 ? kConfig.register_blocks : 1];
  if (work.group < kConfig.num_groups) {
    load_register_blocks<kConfig>(params, work, registers);
    start_w_loads<kConfig>(params, work, slices + warp * kConfig.slice_bytes(), barriers, [] {});
  }
  mma_chunks<kConfig, Epilogue>(params, work, rows.end, slices, barriers, registers);
}

}  // namespace catenary
