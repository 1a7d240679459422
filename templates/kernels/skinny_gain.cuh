// SPDX-License-Identifier: Apache-2.0
// The gain of `skinny`: X is multiplied by a vector along K as it is loaded, after its squares are
// summed. A lane has the gain of the K that it has of X, once for all rows: the product of two
// 16-bit floats is exact in f32, so one rounding is that of the chain's cast. Chunks past the
// warp's are zeros, as those of X.
#pragma once

#include "kernels/skinny_work.cuh"
#include "ptx/global.cuh"
#include "shared/skinny_config.h"
#include "smem/fragment.cuh"

namespace catenary {

// Address of the gain at the warp's first chunk of K.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE const u8* gain_row(const P& params, const SkinnyWorkTile& work) {
  return static_cast<const u8*>(params.ptr[kConfig.gain.slot]) + work.chunk0 * 16;
}

// Requests the warp's gain into L2, without registers to hold it: X of the kernel before is there
// already, and the gain would be waited for. Only a weight, which no kernel writes.
template <const SkinnyConfig& kConfig, class P>
CATENARY_DEVICE void prefetch_gain(const P& params, const SkinnyWorkTile& work) {
  const i32 blocks = (work.chunks + 7) / 8;
#pragma unroll 1
  for (i32 block = threadIdx.x % 32; block < blocks; block += 32) {
    prefetch_l2(gain_row<kConfig>(params, work) + block * 128);
  }
}

// The gain of one chunk of K blocks.
template <const SkinnyConfig& kConfig, class P, class LaneBlock, int kBlocks>
CATENARY_DEVICE void load_gain(const P& params, const SkinnyWorkTile& work, int chunk,
                               LaneBlock (&gain)[kBlocks]) {
  const u8* from = gain_row<kConfig>(params, work) + threadIdx.x % 4 * 32;
#pragma unroll
  for (int i = kBlocks - 1; i >= 0; --i) {
    const int block = chunk * kBlocks + i;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      gain[i].half[half] = {0, 0, 0, 0};
      if (block < kConfig.warp_blocks() && has_chunk<kConfig>(work, block, half))
        gain[i].half[half] = ld_global_v4(from + block * 128 + half * 16);
    }
  }
}

// X of the chunk times its gain, in all column tiles.
template <const SkinnyConfig& kConfig, class LaneBlock, int kBlocks, int kTiles>
CATENARY_DEVICE void scale_chunk(const LaneBlock (&gain)[kBlocks],
                                 LaneBlock (&x)[kBlocks][kTiles]) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const U32x4& by = gain[i].half[half];
        U32x4& words = x[i][j].half[half];
        words.x = mul_pair<kConfig.space.math>(words.x, by.x);
        words.y = mul_pair<kConfig.space.math>(words.y, by.y);
        words.z = mul_pair<kConfig.space.math>(words.z, by.z);
        words.w = mul_pair<kConfig.space.math>(words.w, by.w);
      }
    }
  }
}

}  // namespace catenary
