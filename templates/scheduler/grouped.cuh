// SPDX-License-Identifier: Apache-2.0
// Ragged contractions of persistent kernels.
//
// Rows: a warp's walk over the groups, whose tiles stand one group after the other, so that CTAs
// that run together share a group's weights in L2; in a group, bands of `raster` row tiles sweep N.
// Lanes load and add up 32 ends at once, and the walk goes on from tile to tile.
//
// CTAs of one group each find the i-th of the groups that have rows at all: those are no more than
// the rows, however many groups there are.
//
// Terms: [ends[g-1], ends[g]) of K are group g's. Tiles that follow one another are mostly of one
// group, whose ends are read once. What a step brings of other groups: pipeline/k_tail.cuh.
#pragma once

#include "ptx/atomic.cuh"
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/shared.cuh"
#include "ptx/warp.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// The lowest of the lanes in a ballot that is not empty: the exponent of its bit.
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
  i32 begin, end;  // of its rows; equal: there is no such group
};

// The end of `group`, held to m: it comes from device memory, and rows become addresses. From the
// group behind the last on: m.
template <i64 kGroups>
CATENARY_DEVICE i32 load_group_end(const u8* ends, u32 group, i32 m) {
  if (group >= kGroups) return m;
  const i32 given = static_cast<i32>(ld_global_u32(ends + static_cast<i64>(group) * 4));
  return m < given ? m : given;
}

// Number `ordinal` of the groups that have rows, in ascending order; group kGroups has the rows
// behind the last end. All lanes call it, converged, with the same arguments.
template <i64 kGroups>
CATENARY_DEVICE GroupRows find_occupied_group(const u8* ends, u32 ordinal, i32 m) {
  // Ends asked for together: most kernels wait for them once.
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
      // Ends are made to ascend from row 0: the largest up to each lane's, in log2(32) steps.
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

// Groups [first, first + 32), one a lane; the one behind the last holds the rows behind the last
// end. All lanes call find(), converged, with the same tile.
template <const auto& kConfig>
struct MGroupedScheduler {
  u32 first = 0;
  i32 first_row = 0;   // of these groups
  u32 first_tile = 0;  // of these groups
  bool loaded = false;
  i32 begin = 0, end = 0;  // rows of this lane's group
  u32 tile_end = 0;        // behind its last tile

  // This tile of a batch entry: its corner, group and rows; not live if there is no such tile.
  template <class P>
  CATENARY_DEVICE void find(const P& params, u32 tile, u32 tiles_n, i64 m, WorkTile& work) {
    if (tile < first_tile) *this = MGroupedScheduler();  // the next batch entry
    if (!loaded) load(params, tiles_n, static_cast<i32>(m));
    u32 lanes = vote_ballot(tile < tile_end);
#pragma unroll 1
    while (lanes == 0 && first + 32 <= kConfig.num_groups) {
      first += 32;
      first_row = static_cast<i32>(shuffle_index(static_cast<u32>(end), 31));
      first_tile = shuffle_index(tile_end, 31);
      load(params, tiles_n, static_cast<i32>(m));
      lanes = vote_ballot(tile < tile_end);
    }
    work.live = lanes != 0;
    if (!work.live) return;
    const u32 lane = lowest_lane(lanes);
    const i64 from = static_cast<i32>(shuffle_index(static_cast<u32>(begin), lane));
    const i64 to = static_cast<i32>(shuffle_index(static_cast<u32>(end), lane));
    const u32 tiles_m = row_tiles(static_cast<u32>(to - from));
    swizzle_tile<kConfig>(tile + tiles_m * tiles_n - shuffle_index(tile_end, lane), tiles_m,
                          tiles_n, work);
    work.m0 += from;
    work.m_end = to;
    work.group = first + lane;
    // Rows behind the last end meet no weight: an empty sum, and a valid weight coordinate.
    if (work.group == kConfig.num_groups) {
      work.group = 0;
      work.k_end = 0;
    }
  }

 private:
  static CATENARY_DEVICE u32 row_tiles(u32 rows) {
    return (rows + kConfig.cluster_tile_m() - 1) / kConfig.cluster_tile_m();
  }

  // Ends come from device memory: held to [first_row, m] and made to ascend, since rows become
  // addresses. Both prefixes (largest end, sum of tiles) take log2(32) steps.
  template <class P>
  CATENARY_DEVICE void load(const P& params, u32 tiles_n, i32 m) {
    const u32 lane = threadIdx.x % 32;
    const u8* ends = static_cast<const u8*>(params.ptr[kConfig.group_ends_slot]);
    end = m;
    if (first + lane < kConfig.num_groups) {
      const i32 given = static_cast<i32>(ld_global_u32(ends + static_cast<i64>(first + lane) * 4));
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

// A group's terms, kept while tiles are of that group: its ends lie in device memory, and each role
// would wait for them in front of each tile (64 experts' wgrad, 10,431 rows in all, on an H200: a
// seventh of the consumers' samples).
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
