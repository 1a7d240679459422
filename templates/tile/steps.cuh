// SPDX-License-Identifier: Apache-2.0
// A tile's steps along K, as the stages of a ring hold them.
#pragma once

#include "ptx/cluster.cuh"
#include "tile/raster.cuh"

namespace catenary {

// A tile's steps along K that this CTA has: [begin, end), all outer steps counted.
struct StepRange {
  i64 begin = 0, end = 0;
  i64 per_outer = 0;
  i64 terms = 0;  // of one outer step; its last step may have less than a block
};

template <GemmSm90Config kConfig>
CATENARY_DEVICE StepRange step_range(const TileWork& work) {
  constexpr i64 kBlockK = kConfig.block_k();
  StepRange range;
  const i64 k = work.k_end > work.k_begin ? work.k_end - work.k_begin : 0;
  range.terms = k;
  range.per_outer = (k + kBlockK - 1) / kBlockK;
  const i64 steps = range.per_outer * kConfig.k_outer;
  i64 part = work.split;
  if constexpr (kConfig.cluster_k > 1) part = part * kConfig.cluster_k + cluster_rank();
  range.begin = steps * part / kConfig.parts();
  range.end = steps * (part + 1) / kConfig.parts();
  return range;
}

// Which copies of a step of a tile: those of stationary operands (the role weight) and of others.
struct Copies {
  bool stationary = true;
  bool others = true;
  CATENARY_DEVICE bool of(bool weight) const { return weight ? stationary : others; }
};

}  // namespace catenary
