// SPDX-License-Identifier: Apache-2.0
// Tile schedulers of ragged contractions. Group ends come from device memory.
//
// MGroupedScheduler (persistent): the tiles of one group come after those of the group before, so
// that concurrent CTAs share a group's weights in L2; the tiles of a group are swizzled. The lanes
// of a warp load 32 ends at once, and the state persists from tile to tile.
// find_occupied_group (one group a CTA): the i-th group that has rows. There are no more such
// groups than rows, however many groups the label has.
// find_group_tile (one tile a CTA): the i-th tile of all groups.
// KGroupedRange: K of group g is [ends[g-1], ends[g]). Consecutive tiles mostly have one group,
// whose ends are read once. pipeline/k_tail.cuh handles the k of other groups in a k-tile.
#pragma once

#include "ptx/atomic.cuh"
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/shared.cuh"
#include "ptx/warp.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// The lowest lane of a ballot that is not empty: the exponent of its lowest bit.
CATENARY_DEVICE u32 lowest_lane(u32 lanes) {
  return (f32_to_bits(static_cast<float>(lanes & (0u - lanes))) >> 23) - 127;
}

CATENARY_DEVICE u32 count_lanes(u32 lanes) {
  lanes -= lanes >> 1 & 0x55555555u;
  lanes = (lanes & 0x33333333u) + (lanes >> 2 & 0x33333333u);
  return ((lanes + (lanes >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

struct GroupRows {
  u32 group;
  i32 begin, end;  // its rows; equal: there is no such group
};

// The end of `group`, clamped to m because rows become addresses; m for any group past the last.
template <i64 kGroups>
CATENARY_DEVICE i32 load_group_end(const u8* ends, u32 group, i32 m) {
  if (group >= kGroups) return m;
  const i32 given = static_cast<i32>(ld_global_u32(ends + static_cast<i64>(group) * 4));
  return m < given ? m : given;
}

// Group number `ordinal` among the groups that have rows; group kGroups has the rows past the last
// end. All lanes call it, converged, with the same arguments.
template <i64 kGroups>
CATENARY_DEVICE GroupRows find_occupied_group(const u8* ends, u32 ordinal, i32 m) {
  // Ends loaded together: most kernels wait for them once.
  constexpr int kLoads = kGroups < 128 ? kGroups / 32 + 1 : 4;
  const u32 lane = threadIdx.x % 32;
  i32 first_row = 0;
#pragma unroll 1
  for (u32 first = 0; first <= kGroups; first += 32 * kLoads) {
    i32 end[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      end[i] = load_group_end<kGroups>(ends, first + i * 32 + lane, m);
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      // Prefix maximum over the lanes: an end below an earlier one becomes the largest before it.
      if (end[i] < first_row) end[i] = first_row;
#pragma unroll
      for (u32 distance = 1; distance < 32; distance *= 2) {
        const i32 below = static_cast<i32>(shuffle_up(static_cast<u32>(end[i]), distance));
        end[i] = below > end[i] ? below : end[i];
      }
      const i32 below = static_cast<i32>(shuffle_up(static_cast<u32>(end[i]), 1));
      const i32 begin = lane > 0 ? below : first_row;
      const u32 lanes = vote_ballot(end[i] > begin);
      const u32 rank = count_lanes(lanes & ((1u << lane) - 1));
      const u32 found = vote_ballot(end[i] > begin && rank == ordinal);
      if (found != 0) {
        const u32 from = lowest_lane(found);
        return {first + i * 32 + from, static_cast<i32>(shuffle_index(begin, from)),
                static_cast<i32>(shuffle_index(end[i], from))};
      }
      ordinal -= count_lanes(lanes);
      first_row = static_cast<i32>(shuffle_index(static_cast<u32>(end[i]), 31));
    }
  }
  return {kGroups, m, m};
}

// Tile number `tile` of kTileRows rows each, tiles of one group after those of the group before:
// its group, its first row and the end of the group. Group kGroups has the rows past the last end.
// All lanes call it, converged, with the same arguments.
template <i64 kGroups, i32 kTileRows>
CATENARY_DEVICE GroupRows find_group_tile(const u8* ends, u32 tile, i32 m) {
  const u32 lane = threadIdx.x % 32;
  i32 first_row = 0;
  u32 first_tile = 0;
#pragma unroll 1
  for (u32 first = 0; first <= kGroups; first += 32) {
    i32 end = load_group_end<kGroups>(ends, first + lane, m);
    // Prefix maximum over the lanes: an end below an earlier one becomes the largest before it.
    if (end < first_row) end = first_row;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const i32 below = static_cast<i32>(shuffle_up(static_cast<u32>(end), distance));
      end = below > end ? below : end;
    }
    const i32 below = static_cast<i32>(shuffle_up(static_cast<u32>(end), 1));
    const i32 begin = lane > 0 ? below : first_row;
    const u32 tiles = static_cast<u32>(end - begin + kTileRows - 1) / kTileRows;
    u32 tile_end = tiles;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const u32 before = shuffle_up(tile_end, distance);
      tile_end += lane >= distance ? before : 0;
    }
    tile_end += first_tile;
    const u32 lanes = vote_ballot(tile < tile_end);
    if (lanes != 0) {
      const u32 from = lowest_lane(lanes);
      const u32 in_group = tile - shuffle_index(tile_end - tiles, from);
      return {first + from,
              static_cast<i32>(shuffle_index(static_cast<u32>(begin), from) + in_group * kTileRows),
              static_cast<i32>(shuffle_index(static_cast<u32>(end), from))};
    }
    first_row = static_cast<i32>(shuffle_index(static_cast<u32>(end), 31));
    first_tile = shuffle_index(tile_end, 31);
  }
  return {kGroups, m, m};
}

// Holds groups [first_group, first_group + 32), one a lane. One more group after the last has the
// rows past the last end. All lanes call find(), converged, with the same tile.
template <const auto& kConfig>
struct MGroupedScheduler {
  u32 first_group = 0;
  i32 first_row = 0;   // of these groups
  u32 first_tile = 0;  // of these groups
  bool loaded = false;
  i32 begin = 0, end = 0;  // rows of this lane's group
  u32 tile_end = 0;        // one past its last tile

  // Finds the corner, group and rows of a tile of one batch entry; not valid if there is no such
  // tile.
  template <class P>
  CATENARY_DEVICE void find(const P& params, u32 tile, u32 tiles_n, i64 m, WorkTile& work) {
    if (tile < first_tile) *this = MGroupedScheduler();  // the next batch entry
    if (!loaded) load(params, tiles_n, static_cast<i32>(m));
    u32 lanes = vote_ballot(tile < tile_end);
#pragma unroll 1
    while (lanes == 0 && first_group + 32 <= kConfig.ragged.num_groups) {
      first_group += 32;
      first_row = static_cast<i32>(shuffle_index(static_cast<u32>(end), 31));
      first_tile = shuffle_index(tile_end, 31);
      load(params, tiles_n, static_cast<i32>(m));
      lanes = vote_ballot(tile < tile_end);
    }
    work.valid = lanes != 0;
    if (!work.valid) return;
    const u32 lane = lowest_lane(lanes);
    const i64 group_begin = static_cast<i32>(shuffle_index(static_cast<u32>(begin), lane));
    const i64 group_end = static_cast<i32>(shuffle_index(static_cast<u32>(end), lane));
    const u32 tiles_m = row_tiles(static_cast<u32>(group_end - group_begin));
    swizzle_tile<kConfig>(tile + tiles_m * tiles_n - shuffle_index(tile_end, lane), tiles_m,
                          tiles_n, work);
    work.m0 += group_begin;
    work.m_end = group_end;
    work.group = first_group + lane;
    // Rows past the last end have no weight: K is empty, and the weight coordinate is valid.
    if (work.group == kConfig.ragged.num_groups) {
      work.group = 0;
      work.of_group = false;
      work.k_end = 0;
    }
  }

 private:
  static CATENARY_DEVICE u32 row_tiles(u32 rows) {
    return (rows + kConfig.cluster_tile_m() - 1) / kConfig.cluster_tile_m();
  }

  // Loads the ends of 32 groups, clamped to [first_row, m] and made to ascend because rows become
  // addresses. Two prefix scans over the lanes: the maximum of the ends, the sum of the tiles.
  template <class P>
  CATENARY_DEVICE void load(const P& params, u32 tiles_n, i32 m) {
    const u32 lane = threadIdx.x % 32;
    const u8* ends = static_cast<const u8*>(params.ptr[kConfig.ragged.group_ends_slot]);
    end = m;
    if (first_group + lane < kConfig.ragged.num_groups) {
      const i32 given =
          static_cast<i32>(ld_global_u32(ends + static_cast<i64>(first_group + lane) * 4));
      end = given < first_row ? first_row : given < m ? given : m;
    }
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const i32 below = static_cast<i32>(shuffle_up(static_cast<u32>(end), distance));
      end = below > end ? below : end;
    }
    const i32 below = static_cast<i32>(shuffle_up(static_cast<u32>(end), 1));
    begin = lane == 0 ? first_row : below;
    tile_end = row_tiles(static_cast<u32>(end - begin)) * tiles_n;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const u32 tiles = shuffle_up(tile_end, distance);
      if (lane >= distance) tile_end += tiles;
    }
    tile_end += first_tile;
    loaded = true;
  }
};

// The K range of a group, kept while consecutive tiles have that group. Else each role would wait
// for the ends in device memory before each tile (RESULTS sm90-4).
template <const auto& kConfig>
struct KGroupedRange {
  bool loaded = false;
  u32 group = 0;
  i64 begin = 0, end = 0;

  template <class P>
  CATENARY_DEVICE void find(const P& params, WorkTile& work) {
    work.group = k_group<kConfig>(work);
    if (loaded && work.group == group) {
      work.k_begin = begin;
      work.k_end = end;
      return;
    }
    find_k_group<kConfig>(params, work);
    loaded = true;
    group = work.group;
    begin = work.k_begin;
    end = work.k_end;
  }
};

}  // namespace catenary
