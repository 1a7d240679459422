// SPDX-License-Identifier: Apache-2.0
// `skinny_dequant` for an M-grouped contraction: experts with quantised weights. A CTA computes
// one slice of N for all rows of one group, `columns` rows at a time. Most groups need
// one pass; each pass streams q, which is in L2 after the first one.
//
//   blockIdx.x = (i * batches + batch) * n_slices + slice, for the i-th group that has rows
//   slice of a warp: | rings | sums |   the rings load the next rows while sums are added
//
//   barrier                  arrivals     meaning
//   mbarriers of the rings   as in skinny_dequant_ring.cuh; phases go on from pass to pass
//   CTA, after a pass        all threads  the sums of the previous rows have been read
//   CTA                      all threads  the sums of all warps are stored
#pragma once

#include "kernels/skinny_dequant.cuh"
#include "scheduler/grouped.cuh"

namespace catenary {

// The sums of `m` rows of the group, whose ring is at their first fill.
template <const SkinnyDequantConfig& kConfig>
CATENARY_DEVICE void sum_group_rows(const DequantAddresses<kConfig>& addresses,
                                    const DequantWork& work, const DequantRing<kConfig>& ring,
                                    DequantSums<kConfig>& sums) {
  DequantNumbers<kConfig> numbers[2];
  numbers[0].load(addresses, work, 0);
  ring.load_all_x();
  ring.load_all_q();
  if constexpr (kConfig.has_row_scales()) numbers[1] = numbers[0];
  sum_slice<kConfig>(addresses, work, ring, numbers, sums);
  if constexpr (kConfig.has_row_scales()) sums.scale_rows(numbers[0]);
}

// The rows of the group up to m_end.
template <const SkinnyDequantConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void add_group(const P& params, DequantWork& work, i64 m_end) {
  constexpr i64 kColumns = kConfig.tile.columns;
  const auto rows_left = [&] { return m_end - work.m0 < kColumns ? m_end - work.m0 : kColumns; };
  // Rows past the last group's end have no weight.
  const bool has_weight = work.group < kConfig.ragged.num_groups;
  DequantRing<kConfig> ring(params, work, rows_left());
  const DequantAddresses<kConfig> addresses(params, work);
  ring.init();
  bool first = true;
#pragma unroll 1
  for (; work.m0 < m_end; work.m0 += kColumns) {
    const i64 m = rows_left();
    if (!first) ring.next_rows(work.chunks, m);
    const Coord at = dequant_coord<kConfig>(work, m);
    typename Epilogue::Operands operands;
    if (at.valid > 0) Epilogue::load_weights(params, at, operands);
    DequantSums<kConfig> sums;
    if (has_weight) sum_group_rows<kConfig>(addresses, work, ring, sums);
    if (at.valid > 0) Epilogue::load(params, at, operands);
    // All threads arrive: the sums of the previous rows have been read.
    if (!first) cta_barrier();
    store_sums<kConfig>(ring.slice + kConfig.sums_offset(), sums);
    // All threads arrive: the sums of all warps are visible.
    cta_barrier();
    if (at.valid > 0) store_dequant_vector<kConfig, Epilogue>(params, at, operands);
    first = false;
  }
}

// The grid has CTAs for as many groups as can have rows; a CTA that finds no group returns. The
// group ends, which select q, are data: everything is read after the dependency wait.
template <const SkinnyDequantConfig& kConfig, class Epilogue, class P>
CATENARY_DEVICE void skinny_dequant_m_grouped(const P& params) {
  check_dequant_config<kConfig>();
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();
  DequantWork work = find_dequant_work<kConfig>(blockIdx.x);
  const GroupRows rows = find_occupied_group<kConfig.ragged.num_groups>(
      static_cast<const u8*>(params.ptr[kConfig.ragged.group_ends_slot]), work.ordinal,
      static_cast<i32>(extent_at_launch(kConfig.space.m, params)));
  if (rows.begin >= rows.end) return;
  work.group = rows.group;
  work.m0 = rows.begin;
  add_group<kConfig, Epilogue>(params, work, rows.end);
}

}  // namespace catenary
