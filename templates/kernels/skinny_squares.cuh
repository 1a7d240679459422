// SPDX-License-Identifier: Apache-2.0
// The sums of squares of the rows of X in `skinny`, for a norm inside (row_squares). A lane adds
// the squares of the X that it loads for the MMAs: a quarter of each block of one row in eight. The
// four lanes' sums of a row go into the padding after the row's column of accumulators, and are
// added with those of the warps along K. In a cluster they are sent with the partials.
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/convert.cuh"
#include "ptx/shared.cuh"
#include "shared/skinny_config.h"

namespace catenary {

template <MathMode kMath>
CATENARY_DEVICE void add_squares(u32 word, float& sum) {
  static_assert(kMath == MathMode::kBF16 || kMath == MathMode::kF16 || kMath == MathMode::kTF32);
  if constexpr (kMath == MathMode::kTF32) {
    sum += bits_to_f32(word) * bits_to_f32(word);
  } else {
    float low, high;
    unpack<kMath == MathMode::kBF16 ? DType::kBF16 : DType::kF16>(word, low, high);
    sum += low * low;
    sum += high * high;
  }
}

// Adds the squares of a chunk of X to those of its rows. Blocks past the warp's are zero.
template <const SkinnyConfig& kConfig, class LaneBlock, int kBlocks, int kTiles, int kColumnTiles>
CATENARY_DEVICE void add_chunk_squares(const LaneBlock (&x)[kBlocks][kTiles], int column,
                                       float (&squares)[kColumnTiles]) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const U32x4& words = x[i][j].half[half];
        float& sum = squares[column / 8 + j];
        add_squares<kConfig.space.math>(words.x, sum);
        add_squares<kConfig.space.math>(words.y, sum);
        add_squares<kConfig.space.math>(words.z, sum);
        add_squares<kConfig.space.math>(words.w, sum);
      }
    }
  }
}

// Stores the lane's sums where `to` is the shared address of the warp's accumulators.
template <const SkinnyConfig& kConfig, int kColumnTiles>
CATENARY_DEVICE void store_squares(u32 to, const float (&squares)[kColumnTiles]) {
  const u32 lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < kColumnTiles; ++j) {
    const u32 column = j * 8 + lane / 4;
    const u32 at = column * kConfig.sum_row() + kConfig.warp_rows() + lane % 4;
    st_shared_f32(to + at * 4, squares[j]);
  }
}

// The sum of squares of the row of X that is column `column` of D, over the warps along K, in
// ascending order.
template <const SkinnyConfig& kConfig>
CATENARY_DEVICE float reduce_squares(u32 stored, u32 column) {
  const u32 from = stored + (column * kConfig.sum_row() + kConfig.warp_rows()) * 4;
  float total = 0;
#pragma unroll
  for (int warp = 0; warp < kConfig.tile.warps_k; ++warp) {
    const U32x4 lanes = ld_shared_v4(from + warp * kConfig.slice_bytes());
    total += (bits_to_f32(lanes.x) + bits_to_f32(lanes.y)) +
             (bits_to_f32(lanes.z) + bits_to_f32(lanes.w));
  }
  return total;
}

}  // namespace catenary
