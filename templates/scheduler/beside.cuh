// SPDX-License-Identifier: Apache-2.0
// Contractions side by side in one launch: each has CTAs of its own, and all have one tile, one
// number of threads and one cluster shape.
//
//   grid: | CTAs of part 0 | CTAs of part 1 | ... |
//   a part has Part::kCtas CTAs for each row tile; all parts have the same number of row tiles
//   persistent: the grid has Part::kCtas CTAs of each part, as for one row tile
//
// Clusters do not cross parts: kCtas is a multiple of the cluster's CTAs.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// The CTAs that compute a contraction, and which of them this one is.
struct CtaRange {
  u32 index;
  u32 count;
};

// A kernel with one contraction.
CATENARY_DEVICE CtaRange whole_grid() { return {blockIdx.x, gridDim.x}; }

// The CTA with number `index` among those of First and Rest runs its part:
// Part::run(params, CtaRange).
template <class First, class... Rest, class P>
CATENARY_DEVICE void run_part(const P& params, u32 index, u32 row_tiles) {
  const u32 count = First::kCtas * row_tiles;
  if constexpr (sizeof...(Rest) > 0) {
    if (index >= count) return run_part<Rest...>(params, index - count, row_tiles);
  }
  First::run(params, CtaRange{index, count});
}

template <class... Parts, class P>
CATENARY_DEVICE void run_beside(const P& params) {
  run_part<Parts...>(params, blockIdx.x, gridDim.x / (Parts::kCtas + ...));
}

}  // namespace catenary
