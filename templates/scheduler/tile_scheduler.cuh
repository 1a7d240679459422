// SPDX-License-Identifier: Apache-2.0
// The tile scheduler: linear tile index -> batch entry, corner, group, and split-K index.
//
// The tiles of one batch entry are swizzled: `tile_swizzle` row tiles share a sweep over N, so that
// concurrent CTAs share rows of A and of B in L2. Then come the batch entries, and split_k is the
// slowest index: neighbouring CTAs, which share requests to L2, have the same K (RESULTS sm90-146).
// kConfig is any config with the parts `space`, `tile`, `schedule` and
// `ragged`; its tiles have cluster_tile_m() rows and cluster_tile_n() columns. There are fewer than
// 2^31 tiles, since a grid has fewer than 2^31 CTAs: 32-bit divisions are enough.
//
// M-grouped: the number of row tiles is an upper bound (one partial tile per group, and one group
// more for the rows past the last end, whose K is empty). A CTA reads the group ends to find the
// rows of its tile; persistent kernels keep them (MGroupedScheduler of scheduler/grouped.cuh).
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/global.cuh"

namespace catenary {

struct WorkTile {
  bool valid = false;
  u32 batch[kMaxDims] = {};    // right-aligned
  i64 m0 = 0, n0 = 0;          // the tile's corner
  i64 m_end = 0;               // one past the last row of the matrix or of the group
  i64 k_begin = 0, k_end = 0;  // within one iteration of the outer K loop
  u32 group = 0;               // ragged group, or 0
  bool of_group = true;        // M-grouped: the rows are of `group`, else of none
  u32 split = 0;               // split-K index
};

template <const auto& kConfig>
CATENARY_DEVICE void swizzle_tile(u32 tile, u32 tiles_m, u32 tiles_n, WorkTile& work) {
  constexpr u32 kSwizzle = kConfig.schedule.tile_swizzle;
  const u32 sweep = tile / (kSwizzle * tiles_n);
  const u32 in_sweep = tile - sweep * kSwizzle * tiles_n;
  const u32 left = tiles_m - sweep * kSwizzle;
  const u32 sweep_m = left < kSwizzle ? left : kSwizzle;
  work.m0 = static_cast<i64>(sweep * kSwizzle + in_sweep % sweep_m) * kConfig.cluster_tile_m();
  work.n0 = static_cast<i64>(in_sweep / sweep_m) * kConfig.cluster_tile_n();
}

// M-grouped: finds the group and the rows of row tile `tile`.
template <const auto& kConfig, class P>
CATENARY_DEVICE void find_m_group(const P& params, i64 tile, i64 m, WorkTile& work) {
  const u8* ends = static_cast<const u8*>(params.ptr[kConfig.ragged.group_ends_slot]);
  i64 start = 0;
  i64 left = tile;
  work.valid = false;
#pragma unroll 4
  for (int group = 0; group <= kConfig.ragged.num_groups; ++group) {
    i64 end = m;
    if (group < kConfig.ragged.num_groups) {
      const i64 given = static_cast<i32>(ld_global_u32(ends + static_cast<i64>(group) * 4));
      end = given < m ? given : m;  // rows become addresses: clamp what comes from device memory
    }
    const i64 tiles =
        end > start ? (end - start + kConfig.cluster_tile_m() - 1) / kConfig.cluster_tile_m() : 0;
    if (!work.valid && left < tiles) {
      work.valid = true;
      work.group = group;
      work.m0 = start + left * kConfig.cluster_tile_m();
      work.m_end = end;
    }
    left -= tiles;
    start = end > start ? end : start;
  }
  // Rows past the last end have no weight: K is empty, and the weight address is valid.
  if (work.group == kConfig.ragged.num_groups) {
    work.group = 0;
    work.of_group = false;
    work.k_end = 0;
  }
}

// Coord::group of the tile's rows.
CATENARY_DEVICE u32 row_group(const WorkTile& work) {
  return work.of_group ? work.group : kNoGroup;
}

// K-grouped: the group is the outermost batch dimension, unless there is only one group.
template <const auto& kConfig>
CATENARY_DEVICE u32 k_group(const WorkTile& work) {
  if constexpr (kConfig.ragged.num_groups > 1)
    return work.batch[kMaxDims - kConfig.space.batch_rank];
  return 0;
}

// K-grouped: the K range of the tile's group, [ends[g-1], ends[g]), clamped to [0, k_end].
template <const auto& kConfig, class P>
CATENARY_DEVICE void find_k_group(const P& params, WorkTile& work) {
  work.group = k_group<kConfig>(work);
  const u8* ends = static_cast<const u8*>(params.ptr[kConfig.ragged.group_ends_slot]);
  const i64 total = work.k_end;
  const i64 end = static_cast<i32>(ld_global_u32(ends + static_cast<i64>(work.group) * 4));
  work.k_end = end < total ? end : total;
  if (work.group > 0) {
    const i64 begin = static_cast<i32>(ld_global_u32(ends + static_cast<i64>(work.group - 1) * 4));
    work.k_begin = begin > 0 ? begin : 0;
  }
}

// `find_corner(tile, tiles_m, tiles_n, m, work)` finds the corner of a tile of one batch entry. The
// caller finds the K range of a K-grouped tile.
template <const auto& kConfig, class P, class FindCorner>
CATENARY_DEVICE WorkTile find_work_tile(const P& params, u32 index, FindCorner find_corner) {
  WorkTile work;
  const i64 m = extent_at_launch(kConfig.space.m, params);
  const i64 n = extent_at_launch(kConfig.space.n, params);
  work.m_end = m;
  work.k_end = extent_at_launch(kConfig.space.k, params);
  work.valid = true;

  const u32 tiles_n =
      static_cast<u32>((n + kConfig.cluster_tile_n() - 1) / kConfig.cluster_tile_n());
  u32 tiles_m = static_cast<u32>((m + kConfig.cluster_tile_m() - 1) / kConfig.cluster_tile_m());
  if (tiles_n == 0 || tiles_m == 0) {
    work.valid = false;
    return work;
  }
  // Each group may end in a partial tile, and so may the rows past the last end.
  if constexpr (kConfig.ragged.kind == Ragged::kMGrouped) tiles_m += kConfig.ragged.num_groups + 1;
  const u32 tiles = tiles_m * tiles_n;
  u32 batch = index / tiles;
  const u32 in_batch = index - batch * tiles;
  find_corner(in_batch, tiles_m, tiles_n, m, work);
#pragma unroll
  for (int d = kMaxDims - 1; d >= kMaxDims - kConfig.space.batch_rank; --d) {
    const u32 size = static_cast<u32>(extent_at_launch(kConfig.space.batch.at[d], params));
    if (size == 0) {
      work.valid = false;
      return work;
    }
    work.batch[d] = batch % size;
    batch /= size;
  }
  if constexpr (kConfig.schedule.split_k > 1) {
    work.split = batch % kConfig.schedule.split_k;
    batch /= kConfig.schedule.split_k;
  }
  // A grid for the symbol's upper bound may have more CTAs than tiles.
  work.valid = work.valid && batch == 0;
  return work;
}

template <const auto& kConfig, class P>
CATENARY_DEVICE WorkTile find_work_tile(const P& params, u32 index) {
  const auto find_corner = [&](u32 tile, u32 tiles_m, u32 tiles_n, i64 m, WorkTile& work) {
    swizzle_tile<kConfig>(tile, tiles_m, tiles_n, work);
    if constexpr (kConfig.ragged.kind == Ragged::kMGrouped) {
      find_m_group<kConfig>(params, work.m0 / kConfig.cluster_tile_m(), m, work);
    }
  };
  WorkTile work = find_work_tile<kConfig>(params, index, find_corner);
  if constexpr (kConfig.ragged.kind == Ragged::kKGrouped) {
    if (work.valid) find_k_group<kConfig>(params, work);
  }
  return work;
}

// The address of an operand's element (row, k = 0) in the tile's batch entry and group.
template <const auto& kConfig, MatrixOperand kOperand, int kElementBytes, class P>
CATENARY_DEVICE const u8* operand_address(const P& params, const WorkTile& work, i64 row) {
  i64 offset = row * kOperand.stride_row;
#pragma unroll
  for (int d = kMaxDims - kConfig.space.batch_rank; d < kMaxDims; ++d) {
    if (kOperand.stride_batch.at[d] != 0) {
      offset += static_cast<i64>(work.batch[d]) * kOperand.stride_batch.at[d];
    }
  }
  if constexpr (kConfig.ragged.kind == Ragged::kMGrouped) {
    offset += static_cast<i64>(work.group) * kOperand.stride_group;
  }
  return static_cast<const u8*>(params.ptr[kOperand.slot]) + offset * kElementBytes;
}

}  // namespace catenary
