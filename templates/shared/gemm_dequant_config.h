// SPDX-License-Identifier: Apache-2.0
// The config of `gemm_dequant`.
#pragma once

#include "shared/dequant_operand.h"

namespace catenary {

// The part of D that a CTA computes. It has up to row_tiles x 16 rows of W, as many of W2, and
// `columns` rows of X.
struct GemmDequantTile {
  i32 row_tiles = 8;
  i32 columns = 64;  // N of the MMAs, a multiple of 8
  constexpr bool operator==(const GemmDequantTile&) const = default;
};

struct GemmDequantLoads {
  bool w_is_weight = true;  // q, scale and zero are weights: they are loaded before the wait
  i32 stages = 4;           // pipeline stages
  i32 stage_blocks = 2;     // K blocks of 64 columns of a stage: its k-tile
  constexpr bool operator==(const GemmDequantLoads&) const = default;
};

struct GemmDequantSchedule {
  i32 warpgroups = 2;  // mma warpgroups: they divide the rows; in a dual GEMM each has one weight
  i32 cluster_k = 1;   // cluster split-K: CTAs that divide K
  i64 n_slices = 1;    // slices of N: its row tiles are divided evenly among them
  i32 ctas_per_sm = 1;
  constexpr bool operator==(const GemmDequantSchedule&) const = default;
};

// D[b, m, n] = epilogue(sum over k of X[b, m, k] * W[b, n, k]) for a quantised W by wgmma: q,
// unpacked in registers, is its A, X its B. N and K are exact, K is a multiple of 32. In a dual
// GEMM W2 has the dtypes and blocks of W. M-grouped: a CTA has rows of one group.
struct GemmDequantConfig {
  ContractionSpace space = {};
  Sm90Operand x = {};
  DequantOperand w = {};
  DequantOperand w2 = {};
  bool dual = false;
  GemmDequantTile tile = {};
  GemmDequantLoads loads = {};
  GemmDequantSchedule schedule = {};
  i32 vec = 8;  // columns of D (rows of W) that one thread takes at a time in the epilogue
  RaggedGroups ragged = {};  // kNone or kMGrouped
  constexpr bool operator==(const GemmDequantConfig&) const = default;

  // The first warpgroup loads.
  constexpr i32 mma_warps() const { return schedule.warpgroups * 4; }
  constexpr i32 mma_threads() const { return schedule.warpgroups * 128; }
  constexpr i32 threads() const { return mma_threads() + 128; }
  // Registers of a thread at launch. setmaxnreg leaves a load thread kLoadRegisters, and gives the
  // others to the mma warpgroups.
  static constexpr i32 kLoadRegisters = 32, kMostRegisters = 240;
  constexpr i32 launch_registers() const {
    return 65536 / (threads() * schedule.ctas_per_sm) / 8 * 8;
  }
  constexpr bool moves_registers() const { return launch_registers() < kMostRegisters; }
  constexpr i32 mma_registers() const {
    const i32 share = (launch_registers() * (1 + schedule.warpgroups) - kLoadRegisters) /
                      schedule.warpgroups / 8 * 8;
    return share < kMostRegisters ? share : kMostRegisters;
  }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr bool has_groups() const { return ragged.kind != Ragged::kNone; }
  constexpr i64 batch() const {
    i64 count = 1;
    for (const Extent& extent : space.batch.at) count *= extent.size;
    return count;
  }
  // Row tiles of N, of 16 rows each; a CTA has row_tiles or one less.
  constexpr i64 n_tiles() const { return packed_tiles(space.n.size, kPackedRows); }
  constexpr bool has_equal_slices() const { return n_tiles() % schedule.n_slices == 0; }
  // The most indices of D's n that a CTA computes.
  constexpr i32 rows() const { return tile.row_tiles * 16; }
  // Row tiles of a CTA: those of W, then those of W2.
  constexpr i32 runs() const { return tile.row_tiles * num_accumulators(); }
  // Mma warpgroups of one weight, and fragments of 64 rows of one of them: warp w has row tile
  // 4 (f weight_warpgroups + g) + w as its part of fragment f of warpgroup g.
  constexpr i32 weight_warpgroups() const { return schedule.warpgroups / num_accumulators(); }
  constexpr i32 fragments() const {
    return static_cast<i32>(ceil_div(i64{tile.row_tiles}, i64{4} * weight_warpgroups()));
  }

  constexpr i64 k_blocks() const { return packed_tiles(space.k.size, kPackedColumns); }
  constexpr i32 stage_columns() const {
    return loads.stage_blocks * static_cast<i32>(kPackedColumns);
  }
  constexpr i64 k_tiles() const { return ceil_div(k_blocks(), i64{loads.stage_blocks}); }
  constexpr i32 k_slices() const { return schedule.cluster_k; }

  // One scale for a whole row of W: the sums are scaled at the end.
  constexpr bool has_row_scales() const { return w.block_columns >= space.k.size; }
  // Columns whose sums are scaled together: a k-tile, or as many as surely have one scale.
  constexpr i32 scaled_columns() const {
    if (has_row_scales() || w.block_columns % stage_columns() == 0) return stage_columns();
    if (w.block_columns % 128 == 0 && stage_columns() % 128 == 0) return 128;
    return w.block_columns % 64 == 0 ? 64 : 32;
  }
  constexpr i32 scaled_parts() const { return stage_columns() / scaled_columns(); }
  // Sums that are open at a time: one, or two where the halves of a K block have different scales.
  constexpr i32 open_sums() const { return has_row_scales() ? 0 : scaled_columns() < 64 ? 2 : 1; }

  // A stage: a box of X for each K block, under the 128-byte swizzle, then a run of q for each row
  // tile of W and W2.
  constexpr i32 tile_bytes() const { return packed_tile_bytes(w.dtype); }
  constexpr i32 run_bytes() const { return loads.stage_blocks * tile_bytes(); }
  constexpr i32 box_bytes() const { return tile.columns * 128; }
  constexpr i32 x_bytes() const { return loads.stage_blocks * box_bytes(); }
  constexpr i32 stage_bytes() const {
    return (x_bytes() + runs() * run_bytes() + 1023) / 1024 * 1024;
  }
  // The stages are reused for the sums, [column][row], padded by 4 floats: eight lanes of one
  // column and four columns of a store are in different banks.
  constexpr i32 sum_bytes() const { return runs() * 16 * 4; }
  constexpr i32 sum_pitch() const { return sum_bytes() + 16; }
  // After them: partials of the other CTAs of the cluster, for the columns that this CTA stores.
  constexpr i32 own_columns() const {
    return (tile.columns + schedule.cluster_k - 1) / schedule.cluster_k;
  }
  constexpr i32 partials_bytes() const { return own_columns() * sum_pitch(); }
  constexpr i32 partials_offset() const {
    const i32 stages = loads.stages * stage_bytes();
    const i32 sums = tile.columns * sum_pitch();
    return stages > sums ? stages : sums;
  }
  // mbarriers: full and empty of each stage, one of the partials.
  constexpr i32 barrier_offset() const {
    return partials_offset() + (schedule.cluster_k - 1) * partials_bytes();
  }
  constexpr i32 barriers() const { return 2 * loads.stages + 1; }
  constexpr i32 smem_bytes() const { return barrier_offset() + 8 * barriers(); }
};

}  // namespace catenary
