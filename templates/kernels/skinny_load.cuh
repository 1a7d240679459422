// SPDX-License-Identifier: Apache-2.0
// How a warp of `skinny` brings its slice of W (warp_rows() rows of K blocks, 128 bytes each) from
// global to shared memory: by bulk copies or by cp.async, behind one interface. `start` asks for
// all of it, with every lane of the warp; `wait` returns when the blocks that are read next have
// landed, for every lane to read. A slice is read in parts of K, the last first.
//
//   start(slice, barriers, blocks, paced, row, meanwhile)
//     paced: the kernel before may still load its X
//     row(i): address of row i at the warp's block 0; meanwhile() runs once copies are under way
//   wait(barriers, first, end)
//     blocks [first, end) are read next
//
// kLeast: blocks that every warp has, for checks that the compiler can drop.
#pragma once

#include "ptx/bulk.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/sync.cuh"
#include "shared/config.h"

namespace catenary {

// In groups of rows. Paced, a group waits until the one before it has landed: requests that queue
// at the L2 hold up the loads of X of the kernel before (one group instead of four: 0.7 us slower
// with eight rows of X on an H200). Behind a plain edge it is this kernel's X that would wait, for
// as many round trips to DRAM. Long copies: one costs the copy engine some 8 cycles whatever its
// size, so that pieces of 64 bytes took 6 us. One CTA reads each byte, once: L2 keeps X instead (8
// and 16 rows 0.1 us, H200).
//
// barriers: one per group, 1 arrival (the lane that expects the group's bytes), phase 0 alone; not
// paced, all groups complete on the last one.
template <const SkinnyConfig& kConfig, i64 kLeast>
struct BulkLoad {
  static_assert(kConfig.warp_rows() % kConfig.copy_groups == 0 && kConfig.copy_groups <= 32,
                "groups of equally many rows, a lane for each");

  template <class Row, class Meanwhile>
  static CATENARY_DEVICE void start(u32 slice, u32 barriers, i32 blocks, bool staggered,
                                    const Row& row_at, const Meanwhile& meanwhile) {
    constexpr u32 kRows = kConfig.warp_rows() / kConfig.copy_groups;
    const u32 lane = threadIdx.x % 32;
    const u32 bytes = static_cast<u32>(blocks) * 128;
    if (lane < kConfig.copy_groups) {
      mbarrier_init(barriers + 8 * lane, 1);
      // The copies complete on it: their proxy must see it initialised (PTX ISA 9.7.13.4).
      fence_mbarrier_init();
      if (staggered) {
        mbarrier_arrive_expect_tx(barriers + 8 * lane, kRows * bytes);
      } else if (lane + 1 == kConfig.copy_groups) {
        mbarrier_arrive_expect_tx(barriers + 8 * lane, kConfig.copy_groups * kRows * bytes);
      }
    }
    warp_barrier();
#pragma unroll
    for (u32 group = 0; group < kConfig.copy_groups; ++group) {
      if (group > 0 && staggered) mbarrier_wait(barriers + 8 * (group - 1), 0);
      const u32 barrier = barriers + 8 * (staggered ? group : kConfig.copy_groups - 1);
#pragma unroll
      for (u32 i = lane; i < kRows; i += 32) {
        if (kLeast == 0 && bytes == 0) continue;
        const u32 row = group * kRows + i;
        bulk_load(slice + row * kConfig.row_bytes(), row_at(row), bytes, barrier, kEvictFirst);
      }
      if (group == 0) meanwhile();
    }
  }

  // The first part that reaches shared memory waits for the last group; start() has waited for the
  // others, or all complete on its barrier.
  static CATENARY_DEVICE void wait(u32 barriers, int first, int end) {
    if (first < kConfig.shared_blocks && end >= kConfig.shared_blocks) {
      mbarrier_wait(barriers + 8 * (kConfig.copy_groups - 1), 0);
    }
  }
};

// At most `pending` (0 .. kMost) of the thread's groups are still in flight afterwards; the
// instruction takes a constant, which `pending` is once its loop is unrolled.
template <int kMost>
CATENARY_DEVICE void wait_for_all_but(int pending) {
  if constexpr (kMost > 0) {
    if (pending < kMost) return wait_for_all_but<kMost - 1>(pending);
  }
  cp_async_wait<kMost>();
}

// Eight lanes copy a line of 128 bytes, 16 each; a warp asks for a line of four rows at a time.
// Groups are runs of blocks, committed in the order in which they are read, so that products start
// when the first of them has landed.
template <const SkinnyConfig& kConfig, i64 kLeast>
struct CpAsyncRowLoad {
  static_assert(kConfig.copy_groups <= kConfig.shared_blocks || kConfig.copy_groups == 1,
                "a block for every group");

  // First block of a group, counted from block 0 up.
  static constexpr int group_begin(int group) {
    return kConfig.shared_blocks * group / kConfig.copy_groups;
  }

  template <class Row, class Meanwhile>
  static CATENARY_DEVICE void start(u32 slice, u32 /*barriers*/, i32 blocks, bool /*staggered*/,
                                    const Row& row_at, const Meanwhile& meanwhile) {
    const u32 lane = threadIdx.x % 32;
    const u32 to = slice + lane / 8 * kConfig.row_bytes() + lane % 8 * 16;
    constexpr u32 kSteps = kConfig.warp_rows() / 4;
    const u8* from[kSteps];
#pragma unroll
    for (u32 i = 0; i < kSteps; ++i) from[i] = row_at(i * 4 + lane / 8) + lane % 8 * 16;
#pragma unroll
    for (int group = kConfig.copy_groups - 1; group >= 0; --group) {
#pragma unroll
      for (u32 i = 0; i < kSteps; ++i) {
#pragma unroll
        for (int block = group_begin(group); block < group_begin(group + 1); ++block) {
          if (block >= kLeast && block >= blocks) continue;
          cp_async_16(to + i * 4 * kConfig.row_bytes() + block * 128, from[i] + block * 128, 16);
        }
      }
      cp_async_commit();
    }
    meanwhile();
  }

  // All groups with a block from `first` on have landed: the others, of which
  // group_begin(group + 1) <= first, may be on their way. A thread's wait covers its own copies
  // alone (PTX ISA 9.7.9.25, cp.async.wait_group): all lanes arrive at the warp barrier behind
  // theirs before one reads what another has copied.
  static CATENARY_DEVICE void wait(u32 /*barriers*/, int first, int /*end*/) {
    if constexpr (kConfig.shared_blocks > 0) {
      if (first >= kConfig.shared_blocks) return;
      wait_for_all_but<kConfig.copy_groups - 1>(((first + 1) * kConfig.copy_groups - 1) /
                                                kConfig.shared_blocks);
      warp_barrier();
    }
  }
};

template <const SkinnyConfig& kConfig, i64 kLeast, bool kBulk = kConfig.bulk>
struct SkinnyLoad : BulkLoad<kConfig, kLeast> {};

template <const SkinnyConfig& kConfig, i64 kLeast>
struct SkinnyLoad<kConfig, kLeast, false> : CpAsyncRowLoad<kConfig, kLeast> {};

}  // namespace catenary
