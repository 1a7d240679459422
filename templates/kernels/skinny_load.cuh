// SPDX-License-Identifier: Apache-2.0
// Loads of a warp's slice of `skinny` (slice_rows() rows of K blocks, 128 bytes each) from global
// to shared memory, by cp.async.bulk (sm_90) or cp.async, with one interface. All lanes of the warp
// call both functions. A slice is read in chunks of K blocks, the last chunk first.
//
//   start(slice, barriers, size, staggered, row_at, during_load): issues the loads of all rows that
//     the CTA has. row_at(i) is the address of row i at the warp's block 0. during_load() runs
//     once, while loads are in flight. staggered: other CTAs may load X at the same time
//   wait(barriers, first, end): blocks [first, end) are visible to all lanes afterwards
//
// kMinBlocks: lower bound of a warp's whole blocks; removes checks at compile time.
#pragma once

#include "ptx/bulk.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/sync.cuh"
#include "shared/skinny_config.h"

namespace catenary {

// What a warp loads of its slice: rows of W, as many of W2, and chunks of each.
struct SliceSize {
  i32 rows;
  i32 chunks;
};

// Rows of W and W2 that the CTA has among the first `row` of the slice.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE u32 rows_before(const SliceSize& size, u32 row) {
  if constexpr (kConfig.schedule.n_slices == 0) return row;
  constexpr u32 kRows = kConfig.slice_rows() / kConfig.num_accumulators();
  const u32 rows = static_cast<u32>(size.rows);
  return row / kRows * rows + (row % kRows < rows ? row % kRows : rows);
}

template <const SkinnyConfig& kConfig>
CATENARY_DEVICE bool loads_row(const SliceSize& size, u32 row) {
  constexpr u32 kRows = kConfig.slice_rows() / kConfig.num_accumulators();
  return kConfig.schedule.n_slices == 0 || row % kRows < static_cast<u32>(size.rows);
}

// cp.async.bulk: one bulk load per row, in groups of rows. Staggered, a group is issued when the
// one before has completed, so that requests queued at L2 do not delay the previous kernel's loads
// of X (RESULTS skinny-33). Without PDL there is no previous kernel, and the round trips would
// delay this kernel's own X: all groups are issued at once. Rows are loaded whole, since a bulk
// load has a cost of its own (RESULTS skinny-34). Each byte is read once: evict_first keeps X in L2
// (RESULTS skinny-35).
//
// mbarriers: one per group, 1 arrival (the lane that expects the group's bytes), phase 0 only. Not
// staggered, all groups complete on the last group's mbarrier.
template <const SkinnyConfig& kConfig, i64 kMinBlocks>
struct BulkLoad {
  static constexpr u32 kRows = kConfig.slice_rows();
  static constexpr u32 kGroups = kConfig.loads.copy_groups;
  static_assert((kConfig.schedule.n_slices > 0 || kRows % kGroups == 0) && kGroups <= 32,
                "groups of tiles have equally many rows; each group has a lane");

  static CATENARY_DEVICE u32 group_begin(u32 group) { return kRows * group / kGroups; }

  template <class Row, class DuringLoad>
  static CATENARY_DEVICE void start(u32 slice, u32 barriers, const SliceSize& size, bool staggered,
                                    const Row& row_at, const DuringLoad& during_load) {
    const u32 lane = threadIdx.x % 32;
    const u32 bytes = static_cast<u32>(size.chunks) * 16;
    if (lane < kGroups) {
      mbarrier_init(barriers + 8 * lane, 1);
      // The async proxy must see the initialised mbarrier (PTX ISA 9.7.13.4).
      fence_mbarrier_init();
      const u32 first = staggered ? group_begin(lane) : 0;
      const u32 rows =
          rows_before<kConfig>(size, group_begin(lane + 1)) - rows_before<kConfig>(size, first);
      if (staggered || lane + 1 == kGroups) {
        mbarrier_arrive_expect_tx(barriers + 8 * lane, rows * bytes);
      }
    }
    // All lanes arrive: the mbarriers of all groups are initialised.
    warp_barrier();
#pragma unroll
    for (u32 group = 0; group < kGroups; ++group) {
      if (group > 0 && staggered) mbarrier_wait(barriers + 8 * (group - 1), 0);
      const u32 barrier = barriers + 8 * (staggered ? group : kGroups - 1);
#pragma unroll
      for (u32 row = group_begin(group) + lane; row < group_begin(group + 1); row += 32) {
        if (kMinBlocks == 0 && bytes == 0) continue;
        if (!loads_row<kConfig>(size, row)) continue;
        bulk_load(slice + row * kConfig.row_bytes(), row_at(row), bytes, barrier, kEvictFirst);
      }
      if (group == 0) during_load();
    }
  }

  // The first chunk with a shared block waits for the last group. start() has waited for the other
  // groups, or all groups complete on that mbarrier.
  static CATENARY_DEVICE void wait(u32 barriers, int first, int end) {
    if (first < kConfig.loads.shared_blocks && end >= kConfig.loads.shared_blocks) {
      mbarrier_wait(barriers + 8 * (kGroups - 1), 0);
    }
  }
};

// At most `pending` (0 .. kMax) of the thread's groups are in flight afterwards. The instruction
// takes an immediate: `pending` is constant after the caller's loop is unrolled.
template <int kMax>
CATENARY_DEVICE void wait_for_all_but(int pending) {
  if constexpr (kMax > 0) {
    if (pending < kMax) return wait_for_all_but<kMax - 1>(pending);
  }
  cp_async_wait<kMax>();
}

// cp.async: eight lanes copy a block of 128 bytes, 16 each; a pass of the warp copies a block of
// four rows. Groups are runs of blocks, committed in the order in which they are read, so that MMAs
// start when the first group has completed.
template <const SkinnyConfig& kConfig, i64 kMinBlocks>
struct CpAsyncRowLoad {
  static_assert(kConfig.loads.copy_groups <= kConfig.loads.shared_blocks ||
                    kConfig.loads.copy_groups == 1,
                "every group has a block");

  // First block of a group; groups ascend from block 0.
  static constexpr int group_begin(int group) {
    return kConfig.loads.shared_blocks * group / kConfig.loads.copy_groups;
  }

  template <class Row, class DuringLoad>
  static CATENARY_DEVICE void start(u32 slice, u32 /*barriers*/, const SliceSize& size,
                                    bool /*staggered*/, const Row& row_at,
                                    const DuringLoad& during_load) {
    const u32 lane = threadIdx.x % 32;
    const u32 to = slice + lane / 8 * kConfig.row_bytes() + lane % 8 * 16;
    constexpr u32 kPasses = (kConfig.slice_rows() + 3) / 4;
    const u8* from[kPasses];
    bool has[kPasses];
#pragma unroll
    for (u32 i = 0; i < kPasses; ++i) {
      const u32 row = i * 4 + lane / 8;
      from[i] = row_at(row) + lane % 8 * 16;
      has[i] = (kConfig.slice_rows() % 4 == 0 || row < kConfig.slice_rows()) &&
               loads_row<kConfig>(size, row);
    }
#pragma unroll
    for (int group = kConfig.loads.copy_groups - 1; group >= 0; --group) {
#pragma unroll
      for (u32 i = 0; i < kPasses; ++i) {
#pragma unroll
        for (int block = group_begin(group); block < group_begin(group + 1); ++block) {
          if (!has[i]) continue;
          if (block >= kMinBlocks && block * 8 + static_cast<i32>(lane % 8) >= size.chunks)
            continue;
          cp_async_16(to + i * 4 * kConfig.row_bytes() + block * 128, from[i] + block * 128, 16);
        }
      }
      cp_async_commit();
    }
    during_load();
  }

  // Waits for all groups with a block from `first` on; groups that end at or before `first` may be
  // in flight. cp.async.wait_group covers the thread's own copies only (PTX ISA 9.7.9.25): all
  // lanes arrive at the warp barrier after their wait, before one reads what another has copied.
  static CATENARY_DEVICE void wait(u32 /*barriers*/, int first, int /*end*/) {
    if constexpr (kConfig.loads.shared_blocks > 0) {
      if (first >= kConfig.loads.shared_blocks) return;
      wait_for_all_but<kConfig.loads.copy_groups - 1>(
          ((first + 1) * kConfig.loads.copy_groups - 1) / kConfig.loads.shared_blocks);
      warp_barrier();
    }
  }
};

template <const SkinnyConfig& kConfig, i64 kMinBlocks, bool kBulk = kConfig.loads.bulk>
struct SkinnyLoad : BulkLoad<kConfig, kMinBlocks> {};

template <const SkinnyConfig& kConfig, i64 kMinBlocks>
struct SkinnyLoad<kConfig, kMinBlocks, false> : CpAsyncRowLoad<kConfig, kMinBlocks> {};

}  // namespace catenary
