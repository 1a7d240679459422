// SPDX-License-Identifier: Apache-2.0
// The config of `gemm_sm90`.
#pragma once

#include "shared/config.h"

namespace catenary {

// The tile of D that a CTA computes at a time, and the pipeline that feeds it.
struct GemmSm90Tile {
  i32 block_m = 128;
  i32 block_n = 256;  // columns of D; a dual GEMM has two B tiles of block_n rows
  i32 stages = 4;
  i32 a_rows = 0;  // rows of A in a stage, a multiple of 8, where M is no larger; 0: block_m
  constexpr bool operator==(const GemmSm90Tile&) const = default;
};

// Which warpgroups and CTAs compute a tile, and the order of the tiles.
struct GemmSm90Schedule {
  bool ping_pong = false;  // consumer warpgroups take alternate tiles, else they share one
  i32 consumers = 2;       // consumer warpgroups; cooperative ones divide a tile's rows
  i32 cluster_m = 1;       // CTAs with neighbouring row tiles share B by TMA multicast
  i32 cluster_n = 1;       // CTAs with neighbouring column tiles share A
  // 0: persistent CTAs. Else one tile per cluster of cluster_k CTAs, which divide K, add their
  // partials and exit; an SM holds ctas_per_sm of them.
  i32 cluster_k = 0;
  i32 ctas_per_sm = 1;
  // > 1, of persistent CTAs: k-slices of a tile. The CTA sums each separately and adds the sums in
  // ascending order, as the CTAs of a split-K cluster do.
  i32 sum_slices = 1;
  i32 split_k = 1;       // > 1: the split's number is the dimension before the batch dimensions
  i32 tile_swizzle = 8;  // tiles of M that share one sweep over N, for L2 reuse
  constexpr bool operator==(const GemmSm90Schedule&) const = default;
};

struct GemmSm90Epilogue {
  // The epilogue runs on the accumulators of each thread, two columns at a time; else on rows that
  // are staged in shared memory, `vec` columns at a time.
  bool in_registers = false;
  i32 vec = 8;
  i32 column_sums = 0;      // stores that are sums of kSummedRows rows
  i32 matrices = 0;         // in registers: operands that vary along both M and N
  i32 reduced_columns = 1;  // in registers: columns of a block of row reductions; 1: none
  constexpr bool operator==(const GemmSm90Epilogue&) const = default;
};

// The scales of an fp8 operand: an f32 for each block of rows and of K. A block of A is one row or
// all of them, one of B a multiple of 128 rows or all of them.
struct BlockScales {
  i32 slot = 0;
  i64 rows = 0;           // of a block; 0: all
  i64 columns = 128;      // of K, a multiple of 128
  i64 stride_row = 0;     // elements from one block of rows to the next
  i64 stride_column = 0;  // the same of K
  i64 stride_group = 0;   // B of a ragged contraction: from one group to the next
  constexpr bool operator==(const BlockScales&) const = default;
};

// D = epilogue(A * B) by TMA and wgmma, or a sum of such products. A dual GEMM has a second B,
// multiplied by the same A. kTF32 operands are K-major. TMA loads all operands of a sum, and those
// of its segments have one layout in shared memory.
struct GemmSm90Config {
  ContractionSpace space = {};
  Sm90Operand a = {};
  Sm90Operand b = {};
  Sm90Operand b2 = {};
  bool dual = false;
  i32 segments = 1;  // K segments: the first one has a, b and the space's K, the others are `more`
  KSegment<Sm90Operand> more[kMaxSegments - 1] = {};
  bool block_scaled = false;  // fp8: the sums of a k-tile are scaled as they are promoted
  BlockScales scale_a = {};
  BlockScales scale_b = {};
  BlockScales scale_b2 = {};  // of a dual GEMM, in blocks as those of B
  bool row_squares = false;   // the epilogue takes one more sum: of the squares of the row of A
  GemmSm90Tile tile = {};
  GemmSm90Schedule schedule = {};
  GemmSm90Epilogue epilogue = {};
  RaggedGroups ragged = {};
  constexpr bool operator==(const GemmSm90Config&) const = default;

  constexpr i32 threads() const { return 128 * (1 + schedule.consumers); }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr i32 block_k() const { return kRowBytes / space.element_bytes(); }
  // Terms of all segments, at most, and k-tiles of the segments after the first.
  constexpr i64 total_k() const {
    i64 terms = space.k.size * space.k_outer;
    for (i32 i = 0; i + 1 < segments; ++i) terms += more[i].k * more[i].k_outer;
    return terms;
  }
  constexpr i64 more_k_tiles() const {
    i64 tiles = 0;
    for (i32 i = 0; i + 1 < segments; ++i)
      tiles += more[i].k_outer * ceil_div(more[i].k, i64{block_k()});
    return tiles;
  }
  constexpr bool has_weight() const {
    bool weight = a.weight || b.weight || (dual && b2.weight);
    for (i32 i = 0; i + 1 < segments; ++i) weight = weight || more[i].a.weight || more[i].b.weight;
    return weight;
  }
  // Whether an operand of every k-tile is no weight.
  constexpr bool always_has_activation() const {
    bool always = !a.weight || !b.weight || (dual && !b2.weight);
    for (i32 i = 0; i + 1 < segments; ++i)
      always = always && (!more[i].a.weight || !more[i].b.weight);
    return always;
  }
  constexpr i32 cluster_tile_m() const { return tile.block_m * schedule.cluster_m; }
  constexpr i32 cluster_tile_n() const { return tile.block_n * schedule.cluster_n; }
  // Accumulator registers of a thread.
  constexpr i32 accumulator_registers() const {
    return num_accumulators() * warpgroup_m() / 64 * tile.block_n / 2;
  }
  // Sums of one k-tile are added to sums in f32 (math.def). Then the registers of a thread also
  // hold the sums of one part of the tile, one fragment times one B. Where no other warpgroup has
  // MMAs at the time, they hold a second part, whose MMAs run beside the additions of the first.
  constexpr bool promotes() const { return math_info(space.math).promote_k != 0; }
  constexpr i32 partial_sets() const {
    if (!promotes()) return 0;
    if (!schedule.ping_pong && schedule.consumers > 1) return 1;
    return registers_with(2) <= most_mainloop_registers() ? 2 : 1;
  }
  // Are partial sums added to others in registers?
  constexpr bool adds_partials() const { return promotes() || schedule.sum_slices > 1; }
  constexpr i32 mainloop_registers() const {
    return schedule.sum_slices > 1 ? 2 * accumulator_registers() : registers_with(partial_sets());
  }
  // The most of these that leave a thread enough for the rest of a mainloop that adds partial sums.
  // setmaxnreg gives the mma warpgroups of persistent CTAs the registers of the load warpgroup.
  constexpr i32 most_mainloop_registers() const {
    // With more, the epilogue or the barriers of a cluster have too few.
    if (schedule.sum_slices > 1) return cluster_ctas() > 1 ? 128 : 160;
    if (schedule.cluster_k != 0)
      return schedule.ctas_per_sm > 1 ? 64 : schedule.consumers > 1 ? 96 : 192;
    return schedule.consumers == 3 ? 96 : 192;
  }
  // A thread's scales per block for one k-tile.
  constexpr i32 scale_registers() const {
    return block_scaled ? warpgroup_m() / 32 + num_accumulators() * scale_blocks().most : 0;
  }
  // Scales of a k-tile and of the next one count only in ping-pong warpgroups whose rows have
  // groups, or that have two products: those leave them a few registers. So do the products of two
  // blocks' scales in cooperative ones.
  constexpr i32 registers_with(i32 sets) const {
    const bool grouped = ragged.kind != Ragged::kNone;
    const bool few = schedule.ping_pong && (grouped || dual);
    const bool two_blocks = block_scaled && !schedule.ping_pong && scale_blocks().most > 1;
    const i32 scales = few ? 2 * scale_registers() - (grouped ? 4 : 8) : two_blocks ? 4 : 0;
    return accumulator_registers() + sets * (tile.block_n / 2) + (scales > 0 ? scales : 0);
  }
  // How many blocks of B's scales a column tile has columns of, at most, and how many of its
  // columns are of the first block: kVaries if that is no constant.
  static constexpr i32 kVaries = -1;
  struct ScaleBlocks {
    i32 most = 1;
    i32 first_columns = 0;
  };
  constexpr ScaleBlocks scale_blocks() const {
    const i64 rows = scale_b.rows;
    i32 most = 1;
    i64 of_one = 0, of_first = 0;  // columns of tiles of one block; of the first block of several
    bool varies = false;
    // Starts repeat after rows / 8 tiles at the latest: block_n is a multiple of 8.
    for (i64 i = 0; i < rows / 8 && i * tile.block_n < space.n.size; ++i) {
      const i64 start = i * tile.block_n % rows;
      const i64 left = space.n.size - i * tile.block_n;
      const i64 columns = left < tile.block_n ? left : tile.block_n;
      const i32 blocks = static_cast<i32>((start + columns - 1) / rows + 1);
      if (blocks > most) most = blocks;
      if (blocks == 1 && columns > of_one) of_one = columns;
      if (blocks == 1) continue;
      varies = varies || (of_first != 0 && of_first != rows - start);
      of_first = rows - start;
    }
    if (most == 1) return {most, tile.block_n};
    return {most, varies || of_one > of_first ? kVaries : static_cast<i32>(of_first)};
  }

  // Rows of the tile of one consumer warpgroup, in wgmma fragments of 64.
  constexpr i32 warpgroup_m() const {
    return schedule.ping_pong ? tile.block_m : tile.block_m / schedule.consumers;
  }
  constexpr i32 cluster_ctas() const {
    return schedule.cluster_k > 1 ? schedule.cluster_k : schedule.cluster_m * schedule.cluster_n;
  }
  // K-slices, each summed by one CTA.
  constexpr i32 k_slices() const {
    return schedule.cluster_k > 1 ? schedule.cluster_k * schedule.split_k : schedule.split_k;
  }
  // Rows of A in a stage. With fewer rows than block_m, wgmma reads bytes of the B tiles after them
  // as further rows of A. Rows of D depend on their own row of A only, and rows past M are never
  // stored. The reads must end inside the stage: a_box_rows() + num_accumulators() * block_n is at
  // least block_m.
  constexpr i32 a_box_rows() const { return tile.a_rows == 0 ? tile.block_m : tile.a_rows; }

  // Rows outside the matrix cost TMA more than twice as much as others (RESULTS sm90-142). Where
  // the tile of a cluster may end kManyRows or more past the matrix, a K-major tile is loaded in
  // boxes of at most 32 rows, and those past the end are loaded from rows of the matrix instead.
  // Weight streams (one mma warpgroup, one tile) wait for DRAM, not for TMA; the load warps of
  // M-grouped kernels have no registers for more boxes.
  static constexpr i32 kManyRows = 16;
  constexpr bool redirects(const Extent& size, i32 cluster_tile) const {
    const bool is_stream = schedule.cluster_k != 0 && schedule.consumers == 1;
    if (is_stream || ragged.kind == Ragged::kMGrouped) return false;
    return size.scale != 0 || (cluster_tile - size.size % cluster_tile) % cluster_tile >= kManyRows;
  }
  // Rows of a box, of `rows` that one CTA loads: the most up to kMostRows that divide them and
  // leave less than kManyRows of the last box outside. Many boxes of 8 would take longer than the
  // MMAs.
  static constexpr i32 box_rows(i32 rows, const Extent& size) {
    constexpr i32 kMostRows = 32, kMostBoxes = 17;
    for (i32 box = kMostRows; box > 8; box -= 8) {
      const bool few_outside = size.scale != 0 || (box - size.size % box) % box < kManyRows;
      if (rows % box == 0 && few_outside) return box;
    }
    return rows <= 8 * kMostBoxes ? 8 : rows;
  }
  constexpr bool redirects_a() const {
    return tile.a_rows == 0 && redirects(space.m, cluster_tile_m());
  }
  constexpr bool redirects_b() const { return redirects(space.n, cluster_tile_n()); }
  constexpr i32 box_rows_a() const {
    const i32 rows = a_box_rows() / schedule.cluster_n;
    return redirects_a() ? box_rows(rows, space.m) : rows;
  }
  // The CTAs of an M cluster load equal parts of B, of whole 8 rows each; else boxes in turns.
  constexpr bool has_equal_parts_b() const { return tile.block_n % (8 * schedule.cluster_m) == 0; }
  // Rows of boxes that CTAs load in turns: the most that divide the tile and leave none of them
  // more than a third above an equal part.
  constexpr i32 turn_rows_b() const {
    const i32 ctas = schedule.cluster_m;
    for (i32 box = tile.block_n / 2 / 8 * 8; box > 8; box -= 8) {
      if (tile.block_n % box != 0) continue;
      const i32 most = ceil_div(tile.block_n / box, ctas) * box;
      if (3 * most * ctas <= 4 * tile.block_n) return box;
    }
    return 8;
  }
  constexpr i32 box_rows_b() const {
    if (!has_equal_parts_b()) return redirects_b() ? 8 : turn_rows_b();
    const i32 rows = tile.block_n / schedule.cluster_m;
    return redirects_b() ? box_rows(rows, space.n) : rows;
  }

  // Columns of an epilogue subtile (16 rows). Half as many where registers are scarce, operands
  // take further ones, or block_n or the columns of a row reduction are no multiple of 64.
  constexpr i32 subtile_n() const {
    const i32 most = uses_cp_async() ? 96 : 128;  // registers that leave room for 64 columns
    const bool scarce =
        accumulator_registers() > most || schedule.consumers == 3 || epilogue.matrices > 0;
    const bool odd = tile.block_n % 64 == 32 ||
                     (epilogue.reduced_columns > 1 && epilogue.reduced_columns % 64 != 0);
    const bool halves = epilogue.in_registers && (scarce || odd);
    return num_accumulators() > 1 || halves ? 32 : 64;
  }
  // Two subtiles of 32 columns are stored at a time: one fence and one barrier for both.
  constexpr bool stores_pairs() const {
    return epilogue.in_registers && schedule.ping_pong && num_accumulators() == 1 &&
           epilogue.matrices == 0 && subtile_n() == 32;
  }
  // Staging of one consumer warp: two subtiles, or pairs, of 16-bit results (one may still be read
  // by a TMA store) and two of each matrix operand, or one subtile of f32 accumulators.
  constexpr i32 staging_bytes() const {
    const i32 subtiles = stores_pairs() ? 4 : 2 * (1 + epilogue.matrices);
    return epilogue.in_registers ? subtiles * 16 * subtile_n() * 2 : 16 * 64 * 4;
  }

  // Shared memory: the pipeline stages (the A tile, then the B tiles), the staging of the consumer
  // warps, the mbarriers: full and empty of each stage, two order barriers, and the TMA barrier of
  // each stage whose K tail is cleared. With cluster_k there is no staging: the CTA's own partials
  // reuse the stages, the DSMEM partials of the other CTAs follow, and the last mbarrier counts
  // their bytes.
  static constexpr i32 kRowBytes = 128;  // row of an operand's tile: one swizzle span
  constexpr i32 tile_a_bytes() const { return a_box_rows() * kRowBytes; }
  constexpr i32 tile_b_bytes() const { return tile.block_n * kRowBytes; }
  constexpr i32 stage_bytes() const { return tile_a_bytes() + num_accumulators() * tile_b_bytes(); }
  // Whether cp.async fills a part of a stage, and the bytes that TMA loads fill.
  constexpr bool uses_cp_async() const {
    return a.by_cp_async || b.by_cp_async || (dual && b2.by_cp_async);
  }
  constexpr i32 tma_bytes() const {
    return (a.by_cp_async ? 0 : tile_a_bytes()) + (b.by_cp_async ? 0 : tile_b_bytes()) +
           (!dual || b2.by_cp_async ? 0 : tile_b_bytes());
  }
  // TMA loads do not stop at the end of a group's K; cp.async fallback loads do.
  constexpr bool zero_fills_k_tails() const {
    return ragged.kind == Ragged::kKGrouped && tma_bytes() > 0;
  }
  constexpr i32 staging_offset() const { return tile.stages * stage_bytes(); }
  // Rows of partials are padded by 8 floats, so that the 8-byte stores of half a warp (four rows of
  // four lanes) hit 32 different banks.
  constexpr i32 partials_row_bytes() const { return (num_accumulators() * tile.block_n + 8) * 4; }
  // Rows of the tile that each CTA of a split-K cluster adds.
  constexpr i32 reduce_rows() const { return a_box_rows() / schedule.cluster_k; }
  constexpr i32 partials_bytes() const { return reduce_rows() * partials_row_bytes(); }
  constexpr i32 partials_offset() const {
    return staging_offset() > partials_bytes() ? staging_offset() : partials_bytes();
  }
  constexpr i32 barrier_offset() const {
    if (schedule.cluster_k == 0) return staging_offset() + schedule.consumers * 4 * staging_bytes();
    return partials_offset() + (schedule.cluster_k - 1) * partials_bytes();
  }
  constexpr i32 stage_barriers() const { return zero_fills_k_tails() ? 3 : 2; }
  constexpr i32 barriers() const { return stage_barriers() * tile.stages + 2; }
  constexpr i32 smem_bytes() const { return barrier_offset() + 8 * barriers(); }
};

}  // namespace catenary
