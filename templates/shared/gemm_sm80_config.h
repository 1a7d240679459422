// SPDX-License-Identifier: Apache-2.0
// The config of `gemm_sm80`.
#pragma once

#include "shared/config.h"

namespace catenary {

// The tile of D that a CTA computes, and the pipeline that feeds it.
struct GemmSm80Tile {
  i32 block_m = 128;
  i32 block_n = 128;  // columns of D; a dual GEMM has two B tiles of block_n rows
  i32 block_k = 32;
  i32 warps_m = 2;
  i32 warps_n = 2;
  i32 stages = 3;
  constexpr bool operator==(const GemmSm80Tile&) const = default;
};

struct GemmSm80Schedule {
  bool trigger_early = false;  // PDL trigger at the start, else before the epilogue
  i32 split_k = 1;       // > 1: the split's number is the dimension before the batch dimensions
  i32 tile_swizzle = 8;  // tiles of M that share one sweep over N, for L2 reuse
  constexpr bool operator==(const GemmSm80Schedule&) const = default;
};

// D = epilogue(A * B), or a sum of such products. A dual GEMM has a second B, multiplied by the
// same A.
struct GemmSm80Config {
  ContractionSpace space = {};
  MatrixOperand a = {};
  MatrixOperand b = {};
  MatrixOperand b2 = {};
  bool dual = false;
  i32 segments = 1;  // K segments: the first one has a, b and the space's K, the others are `more`
  KSegment<MatrixOperand> more[kMaxSegments - 1] = {};
  GemmSm80Tile tile = {};
  GemmSm80Schedule schedule = {};
  i32 vec = 8;          // columns one thread takes in the epilogue
  i32 column_sums = 0;  // stores that are sums of kSummedRows rows
  RaggedGroups ragged = {};
  constexpr bool operator==(const GemmSm80Config&) const = default;

  constexpr i32 threads() const { return tile.warps_m * tile.warps_n * 32; }
  constexpr i32 cluster_tile_m() const { return tile.block_m; }
  constexpr i32 cluster_tile_n() const { return tile.block_n; }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr const MatrixOperand& segment_a(i32 segment) const {
    return segment == 0 ? a : more[segment - 1].a;
  }
  constexpr const MatrixOperand& segment_b(i32 segment) const {
    return segment == 0 ? b : more[segment - 1].b;
  }
  constexpr Extent segment_k(i32 segment) const {
    return segment == 0 ? space.k : Extent(more[segment - 1].k);
  }
  constexpr i64 segment_k_outer(i32 segment) const {
    return segment == 0 ? space.k_outer : more[segment - 1].k_outer;
  }
  // One pipeline stage: the A tile, then the B tiles.
  constexpr i32 stage_bytes() const {
    return (tile.block_m + num_accumulators() * tile.block_n) * tile.block_k *
           space.element_bytes();
  }
  constexpr i32 pipeline_bytes() const { return tile.stages * stage_bytes(); }
  // Epilogue staging of one warp: 16 rows of its accumulators, in the memory of the pipeline
  // stages. Rows are padded by 8 floats, so that the 8-byte stores of half a warp (four rows of
  // four lanes) hit 32 different banks.
  constexpr i32 staging_row() const {
    return num_accumulators() * (tile.block_n / tile.warps_n) + 8;
  }
  constexpr i32 staging_bytes() const {
    return tile.warps_m * tile.warps_n * 16 * staging_row() * 4;
  }
  constexpr i32 smem_bytes() const {
    return pipeline_bytes() > staging_bytes() ? pipeline_bytes() : staging_bytes();
  }
};

}  // namespace catenary
