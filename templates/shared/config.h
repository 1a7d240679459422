// SPDX-License-Identifier: Apache-2.0
// Kernel configs: plain structs of integers, enums and bools. The planner fills them, emission
// prints them with named fields, and a template takes one as a class-type template argument, so
// that every size and stride is a constant in the machine code.
//
// Iteration space: up to kMaxDims dimensions, right-aligned. Index kMaxDims-1 is the vector
// dimension; unused leading dimensions have size 1 and stride 0. In a GEMM kernel the last two are
// M and N, the batch dimensions come before them, and the split-K index (if any) before those.
//
// A struct with padding between its fields must have none at its end: clang 14 misreads template
// arguments of such a type.
#pragma once

#include "shared/dtype.h"
#include "shared/math.h"

namespace catenary {

inline constexpr i32 kMaxDims = 8;

// The size of a dimension. scale == 0: `size` is exact. Otherwise the dimension is symbolic: its
// size at launch is Params::symbol * scale, and `size` is its upper bound.
struct Extent {
  i64 size = 1;
  i64 scale = 0;
  constexpr Extent() = default;
  constexpr Extent(i64 exact) : size(exact) {}  // NOLINT: sizes convert silently in emitted text
  constexpr Extent(i64 largest, i64 per_symbol) : size(largest), scale(per_symbol) {}
  constexpr bool operator==(const Extent&) const = default;
};

// Strides in elements, right-aligned; 0 broadcasts.
struct Dims {
  i64 at[kMaxDims] = {};
  constexpr bool operator==(const Dims&) const = default;
};

// Sizes, right-aligned.
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

// A tensor operand of an elementwise program.
struct Operand {
  i32 slot = 0;               // index into Params::ptr
  DType dtype = DType::kF32;  // element type in memory
  i32 vec = 1;                // elements per aligned access along the last dimension
  bool streamed = false;      // accessed once by the whole grid: caches need not keep it
  bool weight = false;        // does not change while the chain runs: loads may move and merge
  bool before_wait = false;   // a weight whose load must stay above the dependency wait
  i32 map = -1;               // of an output: index into Params::map of its TMA stores
  Dims stride = {};           // elements per step of each iteration dimension
  constexpr bool operator==(const Operand&) const = default;
};

// `pointwise`: out[i] = program(operands[i]) over the whole space.
struct PointwiseConfig {
  Extents size = {};
  i32 vec = 1;     // elements of the last dimension per vector
  i32 unroll = 1;  // vectors in flight per thread
  i32 threads = 256;
  constexpr bool operator==(const PointwiseConfig&) const = default;
};

// `reduce`: out[i] = epilogue(sum over terms of prologue(i, term)), in a fixed order.
// The leading `term_rank` dimensions are summed over, the others are the output's.
struct ReduceConfig {
  Extents size = {};  // terms: indices 0 .. term_rank-1 (left-aligned); output: right-aligned
  i32 term_rank = 1;
  i32 sums = 1;  // accumulators per output element (2: a dual GEMM)
  i32 vec = 1;
  i32 lanes = 32;  // output vectors per CTA
  i32 slices = 8;  // threads per output vector; each adds every slices-th term
  constexpr bool operator==(const ReduceConfig&) const = default;
};

// Swizzle of a shared-memory tile, as in tensor maps and wgmma descriptors: within spans of 32, 64
// or 128 bytes, 16-byte chunk c is stored at c ^ (index of its 128-byte line).
enum class Swizzle : u8 { kNone, k32, k64, k128 };

// Which label of the contraction device-resident inclusive ends divide into groups, if any.
enum class Ragged : u8 { kNone, kMGrouped, kKGrouped };

// One matrix operand of a contraction. `row` is its free dimension (M for A, N for B).
struct MatrixOperand {
  i32 slot = 0;
  i64 stride_row = 0;
  i64 stride_k = 0;
  i64 stride_outer = 0;    // of the outer K dimension, where K does not merge into one
  i64 stride_group = 0;    // of the group of a ragged label
  Dims stride_batch = {};  // right-aligned batch dimensions (without M and N); 0: label absent
  bool k_major = true;     // K is contiguous in shared memory, else the row dimension
  i32 copy_bytes = 16;     // bytes per copy: 16, 8, 4 by cp.async; 2: elements through registers
  constexpr bool operator==(const MatrixOperand&) const = default;
};

// `gemm_sm80`: D[b, m, n] = epilogue(sum over k of A[b, m, k] * B[b, n, k]). A dual GEMM has a
// second B, multiplied by the same A.
struct GemmSm80Config {
  MathMode math = MathMode::kBF16;
  Extents batch = {};  // right-aligned
  i32 batch_rank = 0;
  Extent m = {};
  Extent n = {};
  Extent k = {};
  i64 k_outer = 1;  // size of the outer K dimension: the sum has k_outer * k terms
  MatrixOperand a = {};
  MatrixOperand b = {};
  MatrixOperand b2 = {};
  bool dual = false;
  bool trigger_early = false;  // PDL trigger at the start, else before the epilogue
  i32 block_m = 128;
  i32 block_n = 128;  // columns of D; a dual GEMM has two B tiles of block_n rows
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
  constexpr i32 cluster_tile_n() const { return block_n; }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr i32 element_bytes() const { return math_info(math).operand_bytes; }
  // One pipeline stage: the A tile, then the B tiles.
  constexpr i32 stage_bytes() const {
    return (block_m + num_accumulators() * block_n) * block_k * element_bytes();
  }
  // Epilogue staging of one warp: 16 rows of its accumulators, in the memory of the pipeline
  // stages. Rows are padded by 8 floats, so that the 8-byte stores of half a warp (four rows of
  // four lanes) hit 32 different banks.
  constexpr i32 staging_row() const { return num_accumulators() * (block_n / warps_n) + 8; }
  constexpr i32 staging_bytes() const { return warps_m * warps_n * 16 * staging_row() * 4; }
  constexpr i32 smem_bytes() const {
    return stages * stage_bytes() > staging_bytes() ? stages * stage_bytes() : staging_bytes();
  }
};

// `skinny`: D[b, m, n] = epilogue(sum over k of X[b, m, k] * W[b, n, k]) for small M: the kernel is
// a weight stream. A CTA has warps_n x row_tiles x 16 rows of W; its warps_k warps divide K. All of
// W is requested before the dependency wait. K counts in blocks of 128 bytes. In a dual GEMM half
// of a warp's rows are W's, half W2's. M-grouped: a CTA has W of one group and computes `columns`
// rows of X of that group at a time.
struct SkinnyConfig {
  MathMode math = MathMode::kBF16;
  Extents batch = {};  // right-aligned
  i32 batch_rank = 0;
  Extent m = {};
  Extent n = {};     // exact
  i64 k_blocks = 1;  // all of K, in blocks of 128 bytes
  MatrixOperand x = {};
  MatrixOperand w = {};
  MatrixOperand w2 = {};
  bool dual = false;
  bool w_is_weight = true;  // W has the role weight: it is loaded before the dependency wait
  bool bulk = true;         // shared blocks by cp.async.bulk (sm_90), else by cp.async (sm_80)
  Ragged ragged = Ragged::kNone;  // kNone or kMGrouped
  i32 warps_k = 16;
  i32 warps_n = 1;
  i32 row_tiles = 1;        // 16-row tiles of W per warp
  i32 shared_blocks = 3;    // K blocks of a warp that are loaded into shared memory
  i32 register_blocks = 1;  // K blocks of a warp after those, loaded into registers
  i32 columns = 8;          // N of the MMAs: m rounded up to a multiple of 8
  // Load groups of a warp. Bulk: groups of rows; with PDL each is issued when the one before has
  // completed. cp.async: groups of blocks, one commit each.
  i32 copy_groups = 2;
  i32 x_chunks = 2;   // a warp's K blocks are divided into chunks; X of one is in registers
  i32 x_columns = 8;  // columns of X in registers at a time
  i32 split_k = 1;
  // Cluster split-K: CTAs that divide K (of one split), each with all columns. sm_90.
  i32 cluster_k = 1;
  i32 vec = 2;
  i32 group_ends_slot = 0;  // int32 inclusive ends
  i64 num_groups = 0;
  constexpr bool operator==(const SkinnyConfig&) const = default;

  constexpr i32 threads() const { return warps_k * warps_n * 32; }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr i32 warp_rows() const { return row_tiles * 16; }  // of W and W2 together
  // Indices of D's n that a CTA computes.
  constexpr i32 rows() const { return warps_n * warp_rows() / num_accumulators(); }
  constexpr i32 warp_blocks() const { return shared_blocks + register_blocks; }
  // Vectors of D that a CTA stores: every cluster_k-th column.
  constexpr i32 vectors() const { return rows() / vec * (columns / cluster_k); }
  // CTAs that divide K.
  constexpr i32 k_slices() const { return split_k * cluster_k; }
  // A warp's slice is its rows of W in shared memory. Rows are padded by 16 bytes: a quarter of a
  // warp reads 16 of every 32 bytes of rows g and g+1, which are then in different banks.
  constexpr i32 row_bytes() const { return shared_blocks > 0 ? shared_blocks * 128 + 16 : 0; }
  // The slice is reused for the warp's accumulators, [column][row]. Columns are padded by 4 floats:
  // columns 2t of a store are 40, 72 or 136 words apart, that is 8 banks, which rows g fill. An
  // M-grouped kernel needs W again for the next rows: its accumulators follow W.
  constexpr i32 sum_row() const { return warp_rows() + 4; }
  constexpr i32 weight_bytes() const { return warp_rows() * row_bytes(); }
  constexpr i32 sums_offset() const { return ragged == Ragged::kNone ? 0 : weight_bytes(); }
  constexpr i32 slice_bytes() const {
    const i32 sums_end = sums_offset() + columns * sum_row() * 4;
    return weight_bytes() > sums_end ? weight_bytes() : sums_end;
  }
  // mbarriers: one per warp and load group, one for the DSMEM partials.
  constexpr i32 barriers() const {
    return (bulk ? warps_k * warps_n * copy_groups : 0) + (cluster_k > 1 ? 1 : 0);
  }
  constexpr i32 barrier_bytes() const { return (barriers() * 8 + 127) / 128 * 128; }
  // After the slices: DSMEM partials, one buffer per other CTA of the cluster, for the columns that
  // this CTA stores.
  constexpr i32 partials_offset() const {
    return barrier_bytes() + warps_k * warps_n * slice_bytes();
  }
  constexpr i32 partials_bytes() const { return vectors() * vec * num_accumulators() * 4; }
  constexpr i32 smem_bytes() const {
    return partials_offset() + (cluster_k - 1) * partials_bytes();
  }
};

// Which coordinate a tensor map's third and later dimensions take: the batch coordinate of that
// index (0 to kMaxDims - 1), or one of these.
inline constexpr i32 kCoordNone = -1;             // the map has no such dimension
inline constexpr i32 kCoordOuterK = kMaxDims;     // the index of the outer K dimension
inline constexpr i32 kCoordGroup = kMaxDims + 1;  // the group of a ragged label

// A matrix operand of `gemm_sm90`: a tensor map whose first two dimensions are K and the free
// dimension, innermost first; or, where no tensor map can describe it, memory for cp.async.
struct Sm90Operand {
  i32 map = 0;               // index into Params::map
  bool k_major = true;       // K is innermost, else the free dimension
  bool weight = false;       // a weight: may be loaded before the dependency wait
  bool by_cp_async = false;  // cp.async fallback loads of `memory`
  i32 coord2 = kCoordNone;
  i32 coord3 = kCoordNone;
  i32 coord4 = kCoordNone;
  MatrixOperand memory = {};
  constexpr bool operator==(const Sm90Operand&) const = default;

  constexpr i32 rank() const {
    return 2 + (coord2 != kCoordNone) + (coord3 != kCoordNone) + (coord4 != kCoordNone);
  }
};

// `gemm_sm90`: the contraction of GemmSm80Config by TMA and wgmma. kTF32 operands are K-major.
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
  bool ping_pong = false;  // consumer warpgroups take alternate tiles, else they share one
  i32 block_m = 128;       // rows of a tile
  i32 block_n = 256;       // columns of D; a dual GEMM has two B tiles of block_n rows
  i32 consumers = 2;       // consumer warpgroups; cooperative ones divide a tile's rows
  i32 stages = 4;
  i32 a_rows = 0;     // rows of A in a stage, a multiple of 8, where M is no larger; 0: block_m
  i32 cluster_m = 1;  // M cluster: CTAs with neighbouring row tiles share B by TMA multicast
  i32 cluster_n = 1;  // N cluster: neighbouring column tiles share A; not in an M cluster
  // 0: persistent CTAs. Else one tile per cluster of cluster_k CTAs, which divide K, add their
  // partials and exit; an SM holds ctas_per_sm of them.
  i32 cluster_k = 0;
  i32 ctas_per_sm = 1;
  i32 split_k = 1;       // > 1: the split's number is the dimension before the batch dimensions
  i32 tile_swizzle = 8;  // tiles of M that share one sweep over N, for L2 reuse
  i32 vec = 8;           // columns one thread takes in the epilogue
  bool register_epilogue =
      false;  // the epilogue runs on accumulators in registers, two columns at a time
  Ragged ragged = Ragged::kNone;
  i32 group_ends_slot = 0;  // int32 inclusive ends
  i64 num_groups = 0;
  constexpr bool operator==(const GemmSm90Config&) const = default;

  constexpr i32 threads() const { return 128 * (1 + consumers); }
  constexpr i32 num_accumulators() const { return dual ? 2 : 1; }
  constexpr i32 element_bytes() const { return math_info(math).operand_bytes; }
  constexpr i32 block_k() const { return kRowBytes / element_bytes(); }
  constexpr i32 cluster_tile_m() const { return block_m * cluster_m; }
  constexpr i32 cluster_tile_n() const { return block_n * cluster_n; }
  // Accumulator registers of a thread.
  constexpr i32 accumulator_registers() const {
    return num_accumulators() * warpgroup_m() / 64 * block_n / 2;
  }
  // Rows of the tile of one consumer warpgroup, in wgmma fragments of 64.
  constexpr i32 warpgroup_m() const { return ping_pong ? block_m : block_m / consumers; }
  constexpr i32 cluster_ctas() const { return cluster_k > 1 ? cluster_k : cluster_m * cluster_n; }
  // K-slices, each summed by one CTA.
  constexpr i32 k_slices() const { return cluster_k > 1 ? cluster_k * split_k : split_k; }
  // Rows of A in a stage. With fewer rows than block_m, wgmma reads bytes of the B tiles after them
  // as further rows of A. Rows of D depend on their own row of A only, and rows past M are never
  // stored. The reads must end inside the stage: a_box_rows() + num_accumulators() * block_n is at
  // least block_m.
  constexpr i32 a_box_rows() const { return a_rows == 0 ? block_m : a_rows; }

  // Columns of an epilogue subtile (16 rows). Half as many where registers are scarce or block_n is
  // not a multiple of 64.
  constexpr i32 subtile_n() const {
    const i32 most = uses_cp_async() ? 96 : 128;  // registers that leave room for 64 columns
    const bool halves = register_epilogue && (accumulator_registers() > most || block_n % 64 == 32);
    return num_accumulators() > 1 || halves ? 32 : 64;
  }
  // Staging of one consumer warp: two subtiles of 16-bit results (one may still be read by a TMA
  // store), or one subtile of f32 accumulators.
  constexpr i32 staging_bytes() const {
    return register_epilogue ? 2 * 16 * subtile_n() * 2 : 16 * 64 * 4;
  }

  // Shared memory: the pipeline stages (the A tile, then the B tiles), the staging of the consumer
  // warps, the mbarriers: full and empty of each stage, two order barriers, and the TMA barrier of
  // each stage whose K tail is cleared. With cluster_k there is no staging: the CTA's own partials
  // reuse the stages, the DSMEM partials of the other CTAs follow, and the last mbarrier counts
  // their bytes.
  static constexpr i32 kRowBytes = 128;  // row of an operand's tile: one swizzle span
  constexpr i32 tile_a_bytes() const { return a_box_rows() * kRowBytes; }
  constexpr i32 tile_b_bytes() const { return block_n * kRowBytes; }
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
    return ragged == Ragged::kKGrouped && tma_bytes() > 0;
  }
  constexpr i32 staging_offset() const { return stages * stage_bytes(); }
  // Rows of partials are padded by 8 floats, so that the 8-byte stores of half a warp (four rows of
  // four lanes) hit 32 different banks.
  constexpr i32 partials_row_bytes() const { return (num_accumulators() * block_n + 8) * 4; }
  // Rows of the tile that each CTA of a split-K cluster adds.
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
