// SPDX-License-Identifier: Apache-2.0
// A tile's steps along K, as the stages of a ring hold them.
#pragma once

#include "ptx/cluster.cuh"
#include "scheduler/tile_scheduler.cuh"

namespace catenary {

// A tile's steps along K that this CTA has: [begin, end), all outer steps counted.
struct KTileRange {
  i64 begin = 0, end = 0;
  i64 per_outer = 0;
  i64 terms = 0;  // of one outer step; its last step may have less than a block
};

// An empty sum takes a step behind the end of K, of which tensor copies bring zeros, so that every
// tile's first product may overwrite: where sums may be empty, ptxas clears the accumulators of
// each tile in its turn, with no products under way. A whole number of steps from 0: where K is the
// innermost dimension its coordinate is a multiple of 16 bytes (ptx/tma.cuh).
template <const GemmSm90Config& kConfig>
CATENARY_DEVICE void zero_k_tile(WorkTile& work) {
  constexpr i64 kBlockK = kConfig.block_k();
  if (work.k_end > work.k_begin) return;
  work.k_begin = (kConfig.k.size + kBlockK - 1) / kBlockK * kBlockK;
  work.k_end = work.k_begin + 1;
}

template <const GemmSm90Config& kConfig>
CATENARY_DEVICE KTileRange k_tile_range(const WorkTile& work) {
  constexpr i64 kBlockK = kConfig.block_k();
  KTileRange range;
  const i64 k = work.k_end > work.k_begin ? work.k_end - work.k_begin : 0;
  range.terms = k;
  range.per_outer = (k + kBlockK - 1) / kBlockK;
  const i64 steps = range.per_outer * kConfig.k_outer;
  i64 part = work.split;
  if constexpr (kConfig.cluster_k > 1) part = part * kConfig.cluster_k + cluster_rank();
  range.begin = steps * part / kConfig.k_slices();
  range.end = steps * (part + 1) / kConfig.k_slices();
  return range;
}

// Where a step lies: its K, and that of the outer loop.
struct KTileCoord {
  i32 k = 0;
  i32 outer = 0;
};

template <const GemmSm90Config& kConfig>
CATENARY_DEVICE KTileCoord k_tile_coord(const WorkTile& work, const KTileRange& steps, i64 step) {
  i64 outer = 0;
  if constexpr (kConfig.k_outer > 1) outer = step / steps.per_outer;
  const i64 inner = step - outer * steps.per_outer;
  return {static_cast<i32>(work.k_begin + inner * kConfig.block_k()), static_cast<i32>(outer)};
}

// When CTAs of two to an SM let the next kernel in, whose weights then take turns with their own
// copies. H200, us by moment, and by the first instruction; 2048x4096 weights unless said:
//
//                                              first    kLastLoad   kLanded
//   64 rows, 2048x1024, 4 steps of K            4.08      3.46        3.61
//   64 rows, 2048x2048, 8 steps in 6 stages     5.19      4.58        4.59
//   32 rows, 16 in 8                            6.81      6.00        5.67
//   64 rows, 16 in 6                            7.39      6.94        8.22
//
// Where a ring has many rounds to go, CTAs would come in twos and stream unevenly: 48 rows,
// 1024x28672, 20 us let in by the end, 24 by the last copy.
enum class PdlTrigger {
  kLastLoad,  // the last copy has been asked for
  kLanded,    // A has landed as far as the ring reaches
  kEnd,       // no earlier than by its end
};

template <const GemmSm90Config& kConfig>
CATENARY_DEVICE PdlTrigger pdl_trigger(i64 steps) {
  if (steps > 3 * kConfig.stages) return PdlTrigger::kEnd;
  const bool two_rounds = steps > kConfig.stages && steps <= 2 * kConfig.stages;
  return two_rounds ? PdlTrigger::kLanded : PdlTrigger::kLastLoad;
}

// Which copies of a step of a tile: those of stationary operands (the role weight) and of others.
struct Copies {
  bool w_is_weight = true;
  bool others = true;
  CATENARY_DEVICE bool of(bool weight) const { return weight ? w_is_weight : others; }
};

}  // namespace catenary
