// SPDX-License-Identifier: Apache-2.0
// What pipeline/ knows of a kernel: a kernel derives it from its own config.
#pragma once

#include "shared/config.h"

namespace catenary {

// A stage holds the tiles of A, B and, in a dual GEMM, B2, in this order. Offsets are bytes from
// the start of dynamic shared memory, which the stages begin at.
struct PipelineConfig {
  ContractionSpace space = {};
  RaggedGroups ragged = {};
  Sm90Operand a = {};
  Sm90Operand b = {};
  Sm90Operand b2 = {};
  bool dual = false;
  i32 segments = 1;  // K segments; `more` has those after the first, which TMA loads
  KSegment<Sm90Operand> more[kMaxSegments - 1] = {};
  i64 more_k_tiles = 0;        // of those
  bool uses_cp_async = false;  // some operand is loaded by cp.async

  i32 stages = 4;
  i32 block_k = 64;
  i32 tile_m = 128;  // first row of A in the next CTA of an M cluster
  i32 a_rows = 128;  // of A's tile; fewer than tile_m where M is smaller
  i32 b_rows = 128;  // of B's tile
  // Rows of a TMA box of K-major A and B; whether boxes past the matrix are loaded from rows of it.
  i32 box_rows_a = 128;
  i32 box_rows_b = 128;
  bool redirects_a = false;
  bool redirects_b = false;
  i32 tile_a_bytes = 0;
  i32 tile_b_bytes = 0;
  i32 stage_bytes = 0;
  i32 tma_bytes = 0;  // of a stage

  i32 barrier_offset = 0;   // full barriers, then empty barriers
  i32 tma_full_offset = 0;  // one barrier a stage, where zero_fills_k_tails
  i32 full_arrivals = 1;
  i32 empty_arrivals = 4;
  // A cluster has cluster_m row tiles times cluster_n column tiles; the rank of a CTA counts row
  // tiles first. TMA multicast loads A once for a row tile, and B once for a column tile.
  i32 cluster_m = 1;
  i32 cluster_n = 1;
  // CTAs with which a CTA shares a tile, and itself: it loads into these, and these into it.
  constexpr i32 sharing_ctas() const { return cluster_m + cluster_n - 1; }

  // The k-tiles of a tile are divided over k_slices CTAs; cluster_k of these form a cluster.
  i32 k_slices = 1;
  i32 cluster_k = 1;
  bool zero_fills_k_tails = false;

  // cp.async fallback loads are predicated where a tile may end past the matrix.
  bool check_m = false;
  bool check_n = false;
  bool check_k = false;
};

}  // namespace catenary
