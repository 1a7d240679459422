// SPDX-License-Identifier: Apache-2.0
// What a kernel knows about its problem, as plain structs of integers, enums and bools. The planner
// fills these very structs; emission prints them with named fields; a template reads them as a
// class-type template argument, so every size and stride below is a constant in the machine code.
//
// Iteration space: up to kMaxDims dimensions, right-aligned: index kMaxDims-1 is the vector
// dimension, and unused leading ones have size 1 and stride 0. In a gemm kernel the last two are M
// and N, the batch dimensions stand before them, and the K split (if any) before those.
//
// A struct with padding between its fields has none at its end: clang 14 misreads template
// arguments of such a type.
#pragma once

#include "shared/dtype.h"

namespace catenary {

inline constexpr i32 kMaxDims = 8;

// The size of a dimension. scale == 0: `size` is exact. Otherwise the dimension is symbolic: its
// size at launch is Params::symbol * scale, and `size` is the largest it may be.
struct Extent {
  i64 size = 1;
  i64 scale = 0;
  constexpr Extent() = default;
  constexpr Extent(i64 exact) : size(exact) {}  // NOLINT: sizes convert silently in emitted text
  constexpr Extent(i64 largest, i64 per_symbol) : size(largest), scale(per_symbol) {}
  constexpr bool operator==(const Extent&) const = default;
};

// Strides in elements, right-aligned like the space; 0 broadcasts.
struct Dims {
  i64 at[kMaxDims] = {};
  constexpr bool operator==(const Dims&) const = default;
};

// Sizes, right-aligned like the space.
struct Extents {
  Extent at[kMaxDims] = {};
  constexpr bool operator==(const Extents&) const = default;
};

// dims(4096, 1): the given strides at the end, zeros before. For emitted text.
template <class... T>
constexpr Dims dims(T... stride) {
  Dims result;
  const i64 given[] = {static_cast<i64>(stride)...};
  constexpr i32 count = sizeof...(T);
  for (i32 i = 0; i < count; ++i) result.at[kMaxDims - count + i] = given[i];
  return result;
}

// extents(2560, 12, 3072): the given sizes at the end, ones before. For emitted text.
template <class... T>
constexpr Extents extents(T... size) {
  Extents result;
  const Extent given[] = {Extent(size)...};
  constexpr i32 count = sizeof...(T);
  for (i32 i = 0; i < count; ++i) result.at[kMaxDims - count + i] = given[i];
  return result;
}

// A tensor as an elementwise program addresses it.
struct Operand {
  i32 slot = 0;               // index into Params::ptr
  DType dtype = DType::kF32;  // element type in memory
  i32 vec = 1;                // elements one aligned access takes along the last dimension
  bool streamed = false;      // touched once by the whole grid: need not stay in a cache
  bool weight = false;        // stationary while the chain runs: its loads may be moved and merged
  bool before_wait = false;   // a weight whose load must not sink below the dependency wait
  i32 map = -1;               // of an output: index into Params::map where boxes of it are stored
  Dims stride = {};           // elements per step of each iteration dimension
  constexpr bool operator==(const Operand&) const = default;
};

// `pointwise`: out[i] = program(operands[i]) over the whole space.
struct PointwiseConfig {
  Extents size = {};
  i32 vec = 1;     // elements of the last dimension that one thread takes in one step
  i32 unroll = 1;  // such vectors in flight per thread
  i32 threads = 256;
  constexpr bool operator==(const PointwiseConfig&) const = default;
};

// `reduce`: out[i] = epilogue(sum over terms of prologue(i, term)), in a fixed order.
// The leading `term_rank` dimensions of the space are the terms, the rest the output's.
struct ReduceConfig {
  Extents size = {};  // terms: indices 0 .. term_rank-1 (left-aligned); output: right-aligned
  i32 term_rank = 1;
  i32 sums = 1;  // how many sums run side by side (2: both halves of a gated pair)
  i32 vec = 1;
  i32 lanes = 32;  // threads of a CTA side by side along the output
  i32 slices = 8;  // threads that share one output vector; each sums every slices-th term
  constexpr bool operator==(const ReduceConfig&) const = default;
};

// How the 16-byte chunks of a shared-memory tile are permuted, as tensor maps and wgmma descriptors
// know it: within spans of 32, 64 or 128 bytes, chunk c lies at c ^ (number of its 128-byte line).
enum class Swizzle : u8 { kNone, k32, k64, k128 };

// How products are formed. kTF32 rounds f32 operands to 10 fraction bits (nearest; ties away where
// a conversion does it, to even where a tensor copy does); kF32 multiplies exactly and adds in f32
// by fused multiply-add.
enum class MathMode : u8 { kBF16, kF16, kTF32, kF32 };

// Which label of the contraction is partitioned by device-resident inclusive ends, if any.
enum class Ragged : u8 { kNone, kMGrouped, kKGrouped };

// One matrix operand of a contraction. `row` is its free dimension (M for A, N for B).
struct MatrixOperand {
  i32 slot = 0;
  i64 stride_row = 0;
  i64 stride_k = 0;
  i64 stride_outer = 0;    // step of the outer K dimension, where K does not merge to one
  i64 stride_group = 0;    // step of the ragged group
  Dims stride_batch = {};  // right-aligned batch dimensions (without M and N); 0: label absent
  bool k_major = true;     // shared memory keeps K contiguous, else the row dimension
  i32 copy_bytes = 16;     // bytes per copy: 16, 8, 4 by cp.async; 2 element-wise through registers
  constexpr bool operator==(const MatrixOperand&) const = default;
};

// `gemm_sm80`: D[b, m, n] = epilogue(sum over k of A[b, m, k] * B[b, n, k]); a gated pair has a
// second B over the same A.
struct GemmSm80Config {
  MathMode math = MathMode::kBF16;
  Extents batch = {};  // right-aligned
  i32 batch_rank = 0;
  Extent m = {};
  Extent n = {};
  Extent k = {};
  i64 k_outer = 1;  // outer K steps: the sum runs over k_outer * k
  MatrixOperand a = {};
  MatrixOperand b = {};
  MatrixOperand b2 = {};
  bool dual = false;
  bool trigger_early = false;  // lets the next kernel start with this one, not with its epilogue
  i32 block_m = 128;
  i32 block_n = 128;  // columns of D; a gated kernel has two B tiles of block_n rows
  i32 block_k = 32;
  i32 warps_m = 2;
  i32 warps_n = 2;
  i32 stages = 3;
  i32 split_k = 1;       // > 1: the split's number is the dimension before the batch dimensions
  i32 tile_swizzle = 8;  // tiles of M that share one sweep over N, for L2 reuse
  i32 vec = 8;           // columns one thread takes in the epilogue
  Ragged ragged = Ragged::kNone;
  i32 group_ends_slot = 0;  // int32 inclusive ends
  i64 num_groups = 0;
  constexpr bool operator==(const GemmSm80Config&) const = default;

  constexpr i32 threads() const { return warps_m * warps_n * 32; }
  constexpr i32 cluster_tile_m() const { return block_m; }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr i32 element_bytes() const {
    return math == MathMode::kBF16 || math == MathMode::kF16 ? 2 : 4;
  }
  // One stage of the ring: the A tile, then the B tiles.
  constexpr i32 stage_bytes() const {
    return (block_m + num_accumulators() * block_n) * block_k * element_bytes();
  }
  // Epilogue staging: each warp turns 16 rows of its accumulators around in shared memory that the
  // ring no longer needs. Rows are padded by 8 floats: the 8-byte stores of half a warp (four rows
  // of four lanes) then meet 32 different banks.
  constexpr i32 staging_row() const { return num_accumulators() * (block_n / warps_n) + 8; }
  constexpr i32 staging_bytes() const { return warps_m * warps_n * 16 * staging_row() * 4; }
  constexpr i32 smem_bytes() const {
    return stages * stage_bytes() > staging_bytes() ? stages * stage_bytes() : staging_bytes();
  }
};

// `skinny`: D[b, m, n] = epilogue(sum over k of X[b, m, k] * W[b, n, k]) for so few m that the
// kernel is a stream of W. A CTA has warps_n x row_tiles x 16 rows of W, each of its warps a slice
// of their K; all of W is requested before the dependency wait, whose successor streams while this
// kernel waits. K counts in blocks of 128 bytes. Half of a gated pair's rows are W's, half W2's.
// Ragged rows: a CTA's W is that of one group, whose rows of X meet it `columns` at a time.
struct SkinnyConfig {
  MathMode math = MathMode::kBF16;
  Extents batch = {};  // right-aligned
  i32 batch_rank = 0;
  Extent m = {};
  Extent n = {};     // exact
  i64 k_blocks = 1;  // of K, all splits
  MatrixOperand x = {};
  MatrixOperand w = {};
  MatrixOperand w2 = {};
  bool dual = false;
  bool w_is_weight = true;  // W has the role weight, and is known before the dependency wait
  bool bulk = true;         // shared blocks by bulk copies, of sm_90; else by cp.async, of sm_80
  Ragged ragged = Ragged::kNone;  // kRows, or none
  i32 warps_k = 16;
  i32 warps_n = 1;
  i32 row_tiles = 1;        // of 16 rows of W, that a warp multiplies with each piece of X it loads
  i32 shared_blocks = 3;    // blocks of a warp's slice that wait in shared memory
  i32 register_blocks = 1;  // the rest, in registers
  i32 columns = 8;          // of the products: m rounded up to 8
  // Parts of a warp's copies. In bulk: of its rows, each started when the one before has landed;
  // else of its blocks, waited for one by one.
  i32 copy_groups = 2;
  i32 x_chunks = 2;   // parts of a warp's blocks whose X is in registers, one after the other
  i32 x_columns = 8;  // of the columns, that are in registers at a time
  i32 split_k = 1;
  // CTAs of a cluster that share K (of one split), each with all columns of the products: fewer
  // bytes of X for each. sm_90.
  i32 cluster_k = 1;
  i32 vec = 2;
  i32 group_ends_slot = 0;  // int32 inclusive ends
  i64 num_groups = 0;
  constexpr bool operator==(const SkinnyConfig&) const = default;

  constexpr i32 threads() const { return warps_k * warps_n * 32; }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr i32 warp_rows() const { return row_tiles * 16; }  // of W, and of W2 with them
  // Rows of D's n that a CTA computes.
  constexpr i32 rows() const { return warps_n * warp_rows() / num_accumulators(); }
  constexpr i32 warp_blocks() const { return shared_blocks + register_blocks; }
  // Vectors of D that a CTA stores: of a cluster's columns, every cluster_k-th.
  constexpr i32 vectors() const { return rows() / vec * (columns / cluster_k); }
  // Parts of K, each a CTA's.
  constexpr i32 k_slices() const { return split_k * cluster_k; }
  // A row of a warp's slice: 16 bytes more than its blocks, so that rows g and g+1 of a fragment,
  // of which a quarter of a warp reads 16 of every 32 bytes, meet different banks.
  constexpr i32 row_bytes() const { return shared_blocks > 0 ? shared_blocks * 128 + 16 : 0; }
  // The slice later holds the warp's sums, of each column its rows and 4 floats: of the
  // accumulator's stores, columns 2t are 40, 72 or 136 words apart, that is 8 banks, and rows g
  // fill those. Ragged rows may need W again, so that the sums stand behind it.
  constexpr i32 sum_row() const { return warp_rows() + 4; }
  constexpr i32 weight_bytes() const { return warp_rows() * row_bytes(); }
  constexpr i32 sums_offset() const { return ragged == Ragged::kNone ? 0 : weight_bytes(); }
  constexpr i32 slice_bytes() const {
    const i32 sums_end = sums_offset() + columns * sum_row() * 4;
    return weight_bytes() > sums_end ? weight_bytes() : sums_end;
  }
  // Those of the warps' copies, and the one of what the cluster sends.
  constexpr i32 barriers() const {
    return (bulk ? warps_k * warps_n * copy_groups : 0) + (cluster_k > 1 ? 1 : 0);
  }
  constexpr i32 barrier_bytes() const { return (barriers() * 8 + 127) / 128 * 128; }
  // Behind the slices, the sums of the other CTAs of the cluster for the columns that this one
  // adds: every cluster_k-th.
  constexpr i32 partials_offset() const {
    return barrier_bytes() + warps_k * warps_n * slice_bytes();
  }
  constexpr i32 partials_bytes() const { return vectors() * vec * num_accumulators() * 4; }
  constexpr i32 smem_bytes() const {
    return partials_offset() + (cluster_k - 1) * partials_bytes();
  }
};

// How a tensor map's dimension behind the first two is walked: by the batch coordinate of that
// index (0 to kMaxDims - 1), or by one of these.
inline constexpr i32 kCoordNone = -1;             // the map has no such dimension
inline constexpr i32 kCoordOuterK = kMaxDims;     // by the outer K step
inline constexpr i32 kCoordGroup = kMaxDims + 1;  // by the ragged group

// A matrix operand of `gemm_sm90`: a tensor map whose first two dimensions are K and the free
// dimension, innermost first; or, where the hardware takes no such map, memory that threads copy.
struct Sm90Operand {
  i32 map = 0;          // index into Params::map
  bool k_major = true;  // K is innermost, else the free dimension
  bool weight = false;  // stationary while the chain runs: may be loaded before the dependency wait
  bool by_cp_async = false;  // by threads, from where `memory` says
  i32 coord2 = kCoordNone;
  i32 coord3 = kCoordNone;
  i32 coord4 = kCoordNone;
  MatrixOperand memory = {};
  constexpr bool operator==(const Sm90Operand&) const = default;

  constexpr i32 rank() const {
    return 2 + (coord2 != kCoordNone) + (coord3 != kCoordNone) + (coord4 != kCoordNone);
  }
};

// `gemm_sm90`: what GemmSm80Config says, by tensor maps and wgmma. Operands of kTF32 are K-major.
struct GemmSm90Config {
  MathMode math = MathMode::kBF16;
  Extents batch = {};
  i32 batch_rank = 0;
  Extent m = {};
  Extent n = {};
  Extent k = {};
  i64 k_outer = 1;
  Sm90Operand a = {};
  Sm90Operand b = {};
  Sm90Operand b2 = {};
  bool dual = false;
  bool ping_pong = false;  // each consumer warpgroup has a tile of its own, in turns
  i32 block_m = 128;       // rows of a CTA's tile
  i32 block_n = 256;       // columns of D; a gated kernel has two B tiles of block_n rows
  i32 consumers = 2;       // warpgroups that multiply; cooperative ones share a tile's rows
  i32 stages = 4;
  i32 a_rows = 0;     // rows of A in a stage, a multiple of 8, where M is no larger; 0: block_m
  i32 cluster_m = 1;  // CTAs with neighbouring row tiles of one column, which share the tiles of B
  // 0: persistent CTAs. Else each tile has a cluster of so many CTAs, which take consecutive parts
  // of K, add their sums and end; an SM has room for ctas_per_sm of them.
  i32 cluster_k = 0;
  i32 ctas_per_sm = 1;
  i32 split_k = 1;       // > 1: the split's number is the dimension before the batch dimensions
  i32 tile_swizzle = 8;  // tiles of M that share one sweep over N, for L2 reuse
  i32 vec = 8;           // columns one thread takes in the epilogue
  bool register_epilogue =
      false;  // the epilogue works on accumulators where they lie, two columns each
  Ragged ragged = Ragged::kNone;
  i32 group_ends_slot = 0;  // int32 inclusive ends
  i64 num_groups = 0;
  constexpr bool operator==(const GemmSm90Config&) const = default;

  constexpr i32 threads() const { return 128 * (1 + consumers); }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr i32 element_bytes() const { return math == MathMode::kTF32 ? 4 : 2; }
  constexpr i32 block_k() const { return kRowBytes / element_bytes(); }
  constexpr i32 cluster_tile_m() const { return block_m * cluster_m; }
  // A thread's accumulators.
  constexpr i32 accumulator_registers() const {
    return num_accumulators() * warpgroup_m() / 64 * block_n / 2;
  }
  // Rows of the tile that one consumer warpgroup multiplies, in fragments of 64.
  constexpr i32 warpgroup_m() const { return ping_pong ? block_m : block_m / consumers; }
  constexpr i32 cluster_ctas() const { return cluster_k > 1 ? cluster_k : cluster_m; }
  // Parts of K that are summed apart.
  constexpr i32 k_slices() const { return cluster_k > 1 ? cluster_k * split_k : split_k; }
  // Rows of A in a stage. Where they are fewer than the products take, those reach into the tiles
  // of B behind them and take such bytes for rows of A: rows do not meet in a product, and sums of
  // rows behind M are never stored. So that they end inside the stage, a_box_rows() + sums() *
  // block_n is at least block_m.
  constexpr i32 a_box_rows() const { return a_rows == 0 ? block_m : a_rows; }

  // Columns of each sum that the epilogue takes at a time, with 16 rows. Where registers are few,
  // or the tile ends in half a piece, halves.
  constexpr i32 subtile_n() const {
    const i32 most = uses_cp_async() ? 96 : 128;  // accumulators that leave room for whole pieces
    const bool halves = register_epilogue && (accumulator_registers() > most || block_n % 64 == 32);
    return num_accumulators() > 1 || halves ? 32 : 64;
  }
  // Of a consumer warp: two pieces of 16-bit results, of which one is on its way to memory, or one
  // of sums.
  constexpr i32 staging_bytes() const {
    return register_epilogue ? 2 * 16 * subtile_n() * 2 : 16 * 64 * 4;
  }

  // Shared memory: the ring's stages (the A tile, then the B tiles), the staging of the consumer
  // warps, the mbarriers: full and empty of each stage, two turns, and landed of each stage where
  // ragged terms are cleared. With cluster_k there is no staging: a CTA's own sums of the rows that
  // it adds take the ring's place, those that the other CTAs send have theirs behind it, and the
  // last barrier is for their arrival.
  static constexpr i32 kRowBytes = 128;  // of an operand's tile: one swizzle span
  constexpr i32 tile_a_bytes() const { return a_box_rows() * kRowBytes; }
  constexpr i32 tile_b_bytes() const { return block_n * kRowBytes; }
  constexpr i32 stage_bytes() const { return tile_a_bytes() + num_accumulators() * tile_b_bytes(); }
  // Of a stage: does it hold operands that threads copy, and what do tensor copies bring?
  constexpr bool uses_cp_async() const {
    return a.by_cp_async || b.by_cp_async || (dual && b2.by_cp_async);
  }
  constexpr i32 tma_bytes() const {
    return (a.by_cp_async ? 0 : tile_a_bytes()) + (b.by_cp_async ? 0 : tile_b_bytes()) +
           (!dual || b2.by_cp_async ? 0 : tile_b_bytes());
  }
  // Tensor copies do not stop at a ragged group's last term; threads do.
  constexpr bool zero_fills_k_tails() const {
    return ragged == Ragged::kKGrouped && tma_bytes() > 0;
  }
  constexpr i32 staging_offset() const { return stages * stage_bytes(); }
  // A row of the tile's sums. 8 floats more: the 8-byte stores of half a warp (four rows of four
  // lanes) then meet 32 different banks.
  constexpr i32 partials_row_bytes() const { return (num_accumulators() * block_n + 8) * 4; }
  // Of the tile's rows, those that one CTA of a cluster along K adds.
  constexpr i32 reduce_rows() const { return a_box_rows() / cluster_k; }
  constexpr i32 partials_bytes() const { return reduce_rows() * partials_row_bytes(); }
  constexpr i32 partials_offset() const {
    return staging_offset() > partials_bytes() ? staging_offset() : partials_bytes();
  }
  constexpr i32 barrier_offset() const {
    if (cluster_k == 0) return staging_offset() + consumers * 4 * staging_bytes();
    return partials_offset() + (cluster_k - 1) * partials_bytes();
  }
  constexpr i32 stage_barriers() const { return zero_fills_k_tails() ? 3 : 2; }
  constexpr i32 barriers() const { return stage_barriers() * stages + 2; }
  constexpr i32 smem_bytes() const { return barrier_offset() + 8 * barriers(); }
};

}  // namespace catenary
