// SPDX-License-Identifier: Apache-2.0
// Which rows of W and which part of K a CTA of `skinny` and its warps have, and where those are.
//
//   N   tiles of rows() rows, the last one past n; or n_slices, which differ by one vector at most
//   K   k-slices of the CTAs, in lines of 128 bytes or in chunks of 16. The warps divide a k-slice
//       in blocks of 128 bytes from its first chunk on; its last block need not be whole
#pragma once

#include "ptx/device.cuh"
#include "shared/skinny_config.h"

namespace catenary {

// The work of a CTA and of this thread's warp.
struct SkinnyWorkTile {
  u32 batch[kMaxDims] = {};  // right-aligned
  u32 split = 0;
  u32 group = 0;    // M-grouped
  i64 m0 = 0;       // first index of D's m
  i64 n0 = 0;       // first index of D's n
  i32 rows = 0;     // indices of D's n; past N without n_slices
  i64 chunk0 = 0;   // first chunk of K of the warp
  i32 chunks = 0;   // chunks of K of the warp: blocks, the last one not always whole
  u32 ordinal = 0;  // the group's index among groups that have rows
};

// The work of the CTA with number `index`.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE SkinnyWorkTile find_skinny_work(u32 index) {
  constexpr i64 kTiles = kConfig.n_tiles();
  const u32 warp_k = threadIdx.x / 32 % kConfig.tile.warps_k;
  SkinnyWorkTile work;
  const u32 k_slice = index % kConfig.k_slices();
  work.split = k_slice / kConfig.schedule.cluster_k;
  index /= kConfig.k_slices();
  const i64 tile = index % kTiles;
  if constexpr (kConfig.schedule.n_slices > 0) {
    const i64 end = kConfig.n_vectors() * (tile + 1) / kTiles * kConfig.vec;
    work.n0 = kConfig.n_vectors() * tile / kTiles * kConfig.vec;
    work.rows =
        static_cast<i32>((end < kConfig.space.n.size ? end : kConfig.space.n.size) - work.n0);
  } else {
    work.n0 = tile * kConfig.rows();
    work.rows = kConfig.rows();
  }
  index /= kTiles;
#pragma unroll
  for (int d = kMaxDims - 1; d >= kMaxDims - kConfig.space.batch_rank; --d) {
    const u32 size = static_cast<u32>(kConfig.space.batch.at[d].size);
    work.batch[d] = index % size;
    index /= size;
  }
  work.ordinal = index;
  const i64 begin = kConfig.k_slice_begin(k_slice);
  const i64 chunks = kConfig.k_slice_begin(k_slice + 1) - begin;
  const i64 blocks = (chunks + 7) / 8;
  const i64 first = blocks * warp_k / kConfig.tile.warps_k * 8;
  const i64 end = blocks * (warp_k + 1) / kConfig.tile.warps_k * 8;
  work.chunk0 = begin + first;
  work.chunks = static_cast<i32>((end < chunks ? end : chunks) - first);
  return work;
}

// Address of an operand's row at the warp's first chunk of K. kBytes: of an element.
template <const SkinnyConfig& kConfig, MatrixOperand kOperand,
          i32 kBytes = kConfig.space.element_bytes(), class P>
CATENARY_DEVICE const u8* skinny_row(const P& params, const SkinnyWorkTile& work, i64 row) {
  i64 offset = row * kOperand.stride_row;
#pragma unroll
  for (int d = kMaxDims - kConfig.space.batch_rank; d < kMaxDims; ++d) {
    if (kOperand.stride_batch.at[d] != 0) {
      offset += static_cast<i64>(work.batch[d]) * kOperand.stride_batch.at[d];
    }
  }
  if constexpr (kConfig.ragged.kind != Ragged::kNone) {
    offset += static_cast<i64>(work.group) * kOperand.stride_group;
  }
  return static_cast<const u8*>(params.ptr[kOperand.slot]) + offset * kBytes +
         work.chunk0 * (16 / kConfig.space.element_bytes() * kBytes);
}

// Address of row `row` of the warp's W, or of its W2. Rows past n are clamped to the last row, so
// that loads are in bounds; their results are not stored. With n_slices no such row is loaded.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE const u8* weight_row(const P& params, const SkinnyWorkTile& work, bool second,
                                     u32 row) {
  const u32 warp_n = threadIdx.x / 32 / kConfig.tile.warps_k;
  i64 n = work.n0 + warp_n * kConfig.operand_rows() + row;
  if (kConfig.schedule.n_slices == 0 && kConfig.space.n.size % kConfig.rows() != 0 &&
      n >= kConfig.space.n.size)
    n = kConfig.space.n.size - 1;
  if constexpr (kConfig.dual) {
    if (second) return skinny_row<kConfig, kConfig.w2>(params, work, n);
  }
  return skinny_row<kConfig, kConfig.w>(params, work, n);
}

// Whether the CTA has the row of W that row `row` (0 .. warp_rows() - 1) of its MMAs multiplies.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE bool has_row(const SkinnyWorkTile& work, u32 row) {
  return kConfig.schedule.n_slices == 0 ||
         static_cast<i32>(row % kConfig.operand_rows()) < work.rows;
}

template <const SkinnyConfig& kConfig>
CATENARY_DEVICE bool has_block(const SkinnyWorkTile& work, int block) {
  return block < kConfig.least_warp_blocks() || block * 8 < work.chunks;
}

// Whether the warp has this lane's chunk of a block. Chunks past the warp's count as zeros, of W
// and of X: what their place in memory holds may be NaN.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE bool has_chunk(const SkinnyWorkTile& work, int block, int half) {
  if (kConfig.has_whole_blocks() || block < kConfig.least_warp_blocks())
    return has_block<kConfig>(work, block);
  return block * 8 + static_cast<i32>(threadIdx.x % 4 * 2) + half < work.chunks;
}

}  // namespace catenary
