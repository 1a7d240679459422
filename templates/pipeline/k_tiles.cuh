// SPDX-License-Identifier: Apache-2.0
// The k-tiles of a work tile, and what a load warp loads of each.
#pragma once

#include "pipeline/config.cuh"
#include "ptx/cluster.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// The k-tiles [begin, end) of this CTA, counted over all iterations of the outer K loop, and over
// the K segments: those of a segment come after all of the one before.
struct KTileRange {
  i64 begin = 0, end = 0;
  i64 per_outer = 0;  // k-tiles of one iteration of the outer K loop of the first segment
  i64 k_extent = 0;   // elements of one iteration; its last k-tile may be partial
};

// Gives an empty work tile one k-tile past the end of K, which TMA fills with zeros. So every tile
// has an MMA that overwrites its accumulators. Otherwise ptxas clears the accumulators of each tile
// while the warpgroup holds the tensor cores. The k-tile starts at a whole number of k-tiles: where
// K is the innermost dimension, its coordinate must be a multiple of 16 bytes (ptx/tma.cuh).
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE void add_zero_k_tile(WorkTile& work) {
  constexpr i64 kBlockK = kPipeline.block_k;
  if (work.k_end > work.k_begin) return;
  work.k_begin = (kPipeline.space.k.size + kBlockK - 1) / kBlockK * kBlockK;
  work.k_end = work.k_begin + 1;
}

template <const PipelineConfig& kPipeline>
CATENARY_DEVICE KTileRange k_tile_range(const WorkTile& work) {
  constexpr i64 kBlockK = kPipeline.block_k;
  KTileRange range;
  const i64 k = work.k_end > work.k_begin ? work.k_end - work.k_begin : 0;
  range.k_extent = k;
  range.per_outer = (k + kBlockK - 1) / kBlockK;
  i64 k_tiles = range.per_outer * kPipeline.space.k_outer;
  if constexpr (kPipeline.segments > 1) {
    // Rows of no group have no K, or begin at one k-tile past it (add_zero_k_tile).
    if (k > 0 && work.k_begin == 0) k_tiles += kPipeline.more_k_tiles;
  }
  i64 k_slice = work.split;
  if constexpr (kPipeline.cluster_k > 1) k_slice = k_slice * kPipeline.cluster_k + cluster_rank();
  range.begin = k_tiles * k_slice / kPipeline.k_slices;
  range.end = k_tiles * (k_slice + 1) / kPipeline.k_slices;
  return range;
}

// The coordinates of a k-tile: its first k, and the iteration of the outer K loop.
struct KTileCoord {
  i32 k = 0;
  i32 outer = 0;
};

template <const PipelineConfig& kPipeline>
CATENARY_DEVICE KTileCoord k_tile_coord(const WorkTile& work, const KTileRange& range, i64 k_tile) {
  i64 outer = 0;
  if constexpr (kPipeline.space.k_outer > 1) outer = k_tile / range.per_outer;
  const i64 inner = k_tile - outer * range.per_outer;
  return {static_cast<i32>(work.k_begin + inner * kPipeline.block_k), static_cast<i32>(outer)};
}

// The k-tiles of segment kSegment of a tile that has all segments.
template <const PipelineConfig& kPipeline, i32 kSegment>
constexpr i64 segment_k_tiles() {
  const Extent k = kSegment == 0 ? kPipeline.space.k : Extent(kPipeline.more[kSegment - 1].k);
  const i64 outer = kSegment == 0 ? kPipeline.space.k_outer : kPipeline.more[kSegment - 1].k_outer;
  return outer * ceil_div(k.size, kPipeline.block_k);
}

// When a CTA triggers the next kernel.
enum class PdlTrigger {
  kStart,              // the kernel begins
  kLastLoad,           // the load warp has issued its last load
  kFirstRoundArrived,  // the consumers have seen every stage full once
  kEnd,                // never before the CTA ends
};

// The trigger of a CTA that shares its SM. The next kernel's weight loads compete with its own
// loads (RESULTS sm90-1).
template <const PipelineConfig& kPipeline>
CATENARY_DEVICE PdlTrigger pdl_trigger(i64 k_tiles) {
  if (k_tiles > 3 * kPipeline.stages) return PdlTrigger::kEnd;
  const bool two_rounds = k_tiles > kPipeline.stages && k_tiles <= 2 * kPipeline.stages;
  return two_rounds ? PdlTrigger::kFirstRoundArrived : PdlTrigger::kLastLoad;
}

// Which operands of a k-tile a load warp loads: those with the role weight, and all others.
struct LoadMask {
  bool weights = true;
  bool activations = true;
  CATENARY_DEVICE bool includes(bool weight) const { return weight ? weights : activations; }
};

}  // namespace catenary
