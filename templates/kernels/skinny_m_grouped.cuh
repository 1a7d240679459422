// SPDX-License-Identifier: Apache-2.0
// `skinny` for an M-grouped contraction: small M in each of many groups, as in the decode of a
// mixture of experts. Warps divide W and K as in skinny.cuh. A CTA has W of one group and computes
// all rows of that group, `columns` rows at a time, while W stays in shared memory and registers.
//
//   blockIdx.x = (i * batches + batch) * (tiles of W) + tile, for the i-th group that has rows
//   slice of a warp: | W | accumulators |   W is needed again for the next rows
//
//   barrier                  arrivals     meaning
//   CTA barrier (w_ready)    all threads  the accumulators of the previous rows have been read
//   CTA barrier              all threads  the accumulators of all warps are stored
#pragma once

#include "kernels/skinny.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "scheduler/grouped.cuh"

namespace catenary {

// The rows of a group, `columns` at a time. Most groups need one iteration.
template <const SkinnyConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void mma_group_rows(const P& params, SkinnyWorkTile& work, i64 m_end, u32 slices,
                                    u32 barriers,
                                    const typename SkinnyTypes<kConfig>::WeightBlock* registers) {
  const u32 slice = slices + threadIdx.x / 32 * kConfig.slice_bytes();
  bool w_ready = false;
#pragma unroll 1
  for (; work.m0 < m_end; work.m0 += kConfig.tile.columns) {
    const i64 left = m_end - work.m0;
    const i64 m = left < kConfig.tile.columns ? left : kConfig.tile.columns;
    const Coord at = skinny_coord<kConfig>(work, m);
    typename Epilogue::Operands operands;
    if (at.valid > 0) Epilogue::load_weights(params, at, operands);
    typename SkinnyTypes<kConfig>::Accumulators acc = {};
    typename SkinnyTypes<kConfig>::Squares no_squares;
    // Rows past the last group's end are zero: an empty sum.
    if (work.group < kConfig.ragged.num_groups) {
      XFormer<kConfig, PlainX> no_former;
      mma_slice<kConfig>(params, work, m, slice, barriers, no_former, registers, acc, no_squares,
                         w_ready);
    }
    if (at.valid > 0) Epilogue::load(params, at, operands);
    // All threads arrive: the accumulators of the previous rows have been read.
    if (w_ready) cta_barrier();
    store_accumulators<kConfig>(slice + kConfig.sums_offset(), acc, no_squares);
    // All threads arrive: the accumulators of all warps are visible.
    cta_barrier();
    if (at.valid > 0) {
      store_vector<kConfig, Epilogue>(params, slices + kConfig.sums_offset(), at, operands);
    }
    w_ready = true;
  }
}

// The grid has CTAs for as many groups as can have rows; a CTA that finds no group returns.
//
// W is loaded after the dependency wait, even if it is a weight: the group ends, which select the
// group, are data. A guess (i-th CTA: group i) would be wrong after the first empty group, and the
// W that a wrong guess reads is wasted.
template <const SkinnyConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void skinny_m_grouped(const P& params) {
  using T = SkinnyTypes<kConfig>;
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();
  SkinnyWorkTile work = find_skinny_work<kConfig>(blockIdx.x);
  const GroupRows rows = find_occupied_group<kConfig.ragged.num_groups>(
      static_cast<const u8*>(params.ptr[kConfig.ragged.group_ends_slot]), work.ordinal,
      static_cast<i32>(extent_at_launch(kConfig.space.m, params)));
  if (rows.begin >= rows.end) return;
  work.group = rows.group;
  work.m0 = rows.begin;
  const u32 warp = threadIdx.x / 32;
  const u32 barriers = dynamic_smem() + warp * kConfig.loads.copy_groups * 8;
  const u32 slices = dynamic_smem() + kConfig.barrier_bytes();

  typename T::WeightBlock
      registers[kConfig.loads.register_blocks > 0 ? kConfig.loads.register_blocks : 1];
  if (work.group < kConfig.ragged.num_groups) {
    load_register_blocks<kConfig>(params, work, registers);
    start_w_loads<kConfig>(params, work, slices + warp * kConfig.slice_bytes(), barriers, [] {});
  }
  mma_group_rows<kConfig, Epilogue>(params, work, rows.end, slices, barriers, registers);
}

}  // namespace catenary
