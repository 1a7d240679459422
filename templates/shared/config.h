// SPDX-License-Identifier: Apache-2.0
// What a kernel knows about its problem, as plain structs of integers, enums and bools. The planner
// fills these very structs; emission prints them with named fields; a template reads them as a
// class-type template argument, so every size and stride below is a constant in the machine code.
//
// Iteration space. Every kernel runs over up to kMaxDims dimensions; the last one is the vector
// dimension. A `gemm` kernel's dimensions are its batch dimensions, then M, then N.
#pragma once

#include "shared/dtype.h"

namespace catenary {

inline constexpr i32 kMaxDims = 8;

// The size of a dimension. scale == 0: `size` is exact. Otherwise the dimension is
// symbolic: its size at launch is Params::symbol * scale, and `size` is the largest it may be.
struct Extent {
  i64 size = 0;
  i64 scale = 0;
  constexpr bool operator==(const Extent&) const = default;
};

// A tensor as the epilogue (or a pointwise kernel) addresses it.
struct Operand {
  i32 slot = 0;                // index into Params::ptr
  DType dtype = DType::kF32;   // element type in memory
  i32 vec = 1;                 // elements one aligned access takes along the last dimension
  bool streamed = false;       // read once by the whole grid: need not stay in L1
  i64 stride[kMaxDims] = {};   // elements per step of each iteration dimension; 0 broadcasts
};

// `pointwise`: out[i] = program(operands[i]) over the whole space.
struct PointwiseConfig {
  i32 rank = 1;
  Extent size[kMaxDims] = {};
  i32 vec = 1;      // elements of the last dimension that one thread takes in one step
  i32 unroll = 1;   // such vectors in flight per thread
  i32 threads = 256;
};

// `reduce`: out[i] = epilogue(sum over r of prologue(i, r)), r ascending in fixed slices.
// The prologue sees r as the dimension before the last: stride[rank] of an operand is its step in r.
struct ReduceConfig {
  i32 rank = 1;                // of the output space
  Extent size[kMaxDims] = {};  // of the output space
  Extent terms = {};           // how many are summed
  i32 sums = 1;                // how many sums run side by side (2: both halves of a gated pair)
  i32 vec = 1;
  i32 lanes = 32;    // threads of a CTA side by side along the vector dimension
  i32 slices = 8;    // threads of a CTA that share one output; each sums every slices-th term
};

// How products are formed. kTF32 rounds f32 operands to 10 fraction bits (nearest, ties away);
// kF32 multiplies exactly and adds in f32 with fused multiply-add.
enum class MathMode : u8 { kBF16, kF16, kTF32, kF32 };

// Which label of the contraction is partitioned by device-resident ends, if any.
enum class Ragged : u8 { kNone, kRows, kTerms };

// One matrix operand of a contraction. `row` is its own free dimension (M for A, N for B).
struct MatrixOperand {
  i32 slot = 0;
  DType dtype = DType::kBF16;
  i64 stride_row = 0;
  i64 stride_k = 0;
  i64 stride_outer = 0;              // step of the outer K dimension, where K does not merge to one
  i64 stride_batch[kMaxDims] = {};   // 0 where the operand lacks the label
  i32 copy_bytes = 0;                // bytes of one guarded cp.async along the contiguous dimension: 16, 8, 4;
                                     // 2 (or less than cp.async takes): element-wise through registers
};

// `gemm_sm80`: D[b, m, n] = epilogue(sum over k of A[b, m, k] * B[b, n, k]), with a second B for a
// gated pair.
struct GemmConfig {
  MathMode math = MathMode::kBF16;
  i32 batch_rank = 0;
  Extent batch[kMaxDims] = {};
  Extent m = {};
  Extent n = {};
  Extent k = {};
  i64 k_outer = 1;      // outer K steps; K = k_outer * k.size
  MatrixOperand a = {};
  MatrixOperand b = {};
  MatrixOperand b2 = {};
  bool gated = false;   // b2 is live: two contractions share A
  i32 block_m = 128;
  i32 block_n = 128;    // columns of D; a gated kernel's B tiles are block_n rows each
  i32 block_k = 32;
  i32 warps_m = 2;
  i32 warps_n = 2;
  i32 stages = 3;
  i32 split_k = 1;      // > 1: partial sums go to slot `partial_slot` as f32 [split, sums, batch.., M, N]
  i32 raster = 8;       // tiles of M that share one sweep of N, for L2 reuse
  i32 min_ctas = 1;     // CTAs per SM that the register budget must allow
  Ragged ragged = Ragged::kNone;
  i32 ends_slot = 0;    // int32 inclusive ends, one per group
  i32 groups = 0;       // the ragged kernel's group count; its group is batch dimension 0
};

}  // namespace catenary
