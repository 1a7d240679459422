// SPDX-License-Identifier: Apache-2.0
// Kernel configs: plain structs of integers, enums and bools. The planner fills them, emission
// prints them with named fields, and a template takes one as a class-type template argument, so
// that every size and stride is a constant in the machine code. This file has the parts that
// families share and the configs of `pointwise` and `reduce`; <family>_config.h has the others.
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

// dims(4096, 1): the given strides at the end, zeros before. For emitted text. In one expression:
// g++ 12 takes template arguments for equal whose elements a constexpr function set one after the
// other, where these differ only in the places of zeros.
template <class... T>
constexpr Dims dims(T... stride) {
  const i64 given[] = {static_cast<i64>(stride)...};
  constexpr i32 kFirst = kMaxDims - sizeof...(T);
  static_assert(kMaxDims == 8, "as many elements as below");
  const auto at = [&](i32 d) { return d < kFirst ? 0 : given[d - kFirst]; };
  return {{at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7)}};
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

// The rows in each partial sum over rows that a contraction's epilogue stores. A partial sum starts
// at a multiple of it, and an epilogue handles this many rows at a time.
inline constexpr i32 kSummedRows = 16;

// A tensor operand of an elementwise program.
struct Operand {
  i32 slot = 0;               // index into Params::ptr
  DType dtype = DType::kF32;  // element type in memory
  i32 vec = 1;                // elements per aligned access along the last dimension
  bool streamed = false;      // accessed once by the whole grid: caches need not keep it
  bool weight = false;        // does not change while the chain runs: constant loads
  bool before_wait = false;   // a weight whose load must stay above the dependency wait
  bool by_group = false;  // by the group of a ragged row: reads 0 and stores nothing without one
  i32 map = -1;           // of an output: index into Params::map of its TMA stores
  i32 rows = 1;           // kSummedRows: stores the f32 sums of this many rows, at row / rows
  // Above 1, of an output: one number for each row and this many columns. Strides then count
  // 1 / columns of an element.
  i32 columns = 1;
  i32 period = 0;        // above 0, of a load: its columns repeat after as many
  i64 stride_group = 0;  // elements per group
  Dims stride = {};      // elements per step of each iteration dimension
  constexpr bool operator==(const Operand&) const = default;
};

// Ragged groups of a kernel without a contraction: a device-resident tensor holds their int32
// inclusive ends.
struct GroupEnds {
  i64 num_groups = 0;  // 0: no groups
  i32 slot = 0;
  i32 dim = 0;  // the dimension of the rows (`pointwise`), or of the groups (`reduce`)
  constexpr bool operator==(const GroupEnds&) const = default;
};

// `pointwise`: out[i] = program(operands[i]) over the whole space.
struct PointwiseConfig {
  Extents size = {};
  i32 vec = 1;     // elements of the last dimension per vector
  i32 unroll = 1;  // vectors in flight per thread
  i32 threads = 256;
  GroupEnds ends = {};  // of the rows, where an operand is taken by the group of one
  constexpr bool operator==(const PointwiseConfig&) const = default;
};

// How `reduce` combines terms. The maximum is NaN if a term is, and -inf without terms.
enum class ReduceOp : i32 { kSum, kMax };

// `reduce`: out[i] = epilogue(sum or maximum over terms of prologue(i, term)), in a fixed order.
// The leading `term_rank` dimensions are reduced, the others are the output's. By group: the terms
// of an output are the rows of its group in dimension 0, and all of the other term dimensions.
// Along terms: the last dimension is reduced too, and vectors are of terms.
// With a skew, rows start inside an aligned vector; their vectors begin where memory is aligned.
struct ReduceConfig {
  Extents size = {};  // terms: indices 0 .. term_rank-1 (left-aligned); output: right-aligned
  i32 term_rank = 1;
  i32 sums = 1;  // accumulators per output element (2: a dual GEMM)
  i32 vec = 1;
  i32 lanes = 32;  // output vectors per CTA; along terms, outputs
  i32 slices = 8;  // threads of each of them; each adds every slices-th term, or vector of terms
  bool along_terms = false;
  ReduceOp op = ReduceOp::kSum;
  i32 unroll = 4;  // terms of a slice whose loads may be in flight together
  // Rows per term of dimension 0: kSummedRows if the terms are sums of rows. By group, those of
  // group g begin at term g + its first row / rows.
  i32 rows = 1;
  i32 parts = 1;     // parts of the terms, each with CTAs and results of its own
  i32 part_dim = 0;  // the output dimension whose index is the part
  Dims skew = {};    // along terms: elements, below vec, by which a step moves the start of a row
  GroupEnds ends = {};
  constexpr i32 result_vec() const { return along_terms ? 1 : vec; }
  // Sums of the slices; along terms, of their warps.
  constexpr i32 smem_bytes() const {
    const i32 apart = along_terms ? slices / 32 : slices;
    return apart > 1 ? 4 * sums * lanes * apart * result_vec() : 0;
  }
  constexpr bool skewed() const {
    for (const i64 step : skew.at) {
      if (step != 0) return true;
    }
    return false;
  }
  // Along terms: does a vector reach over an end of its row?
  constexpr bool partial_vectors() const {
    const Extent& inner = size.at[kMaxDims - 1];
    return along_terms && (skewed() || (inner.scale != 0 ? inner.scale : inner.size) % vec != 0);
  }
  constexpr bool operator==(const ReduceConfig&) const = default;
};

// Swizzle of a shared-memory tile, as in tensor maps and wgmma descriptors: within spans of 32, 64
// or 128 bytes, 16-byte chunk c is stored at c ^ (index of its 128-byte line).
enum class Swizzle : u8 { kNone, k32, k64, k128 };

// What a contraction computes: D[b, m, n] = sum over k of A[b, m, k] * B[b, n, k].
struct ContractionSpace {
  MathMode math = MathMode::kBF16;
  Extents batch = {};  // right-aligned
  i32 batch_rank = 0;
  Extent m = {};
  Extent n = {};
  Extent k = {};
  i64 k_outer = 1;  // size of the outer K dimension: the sum has k_outer * k terms
  constexpr bool operator==(const ContractionSpace&) const = default;

  constexpr i32 element_bytes() const { return math_info(math).operand_bytes; }
};

// Which label of a contraction is divided into groups, if any.
enum class Ragged : u8 { kNone, kMGrouped, kKGrouped };

// The groups of the ragged label: a device-resident tensor holds their int32 inclusive ends.
struct RaggedGroups {
  Ragged kind = Ragged::kNone;
  i32 group_ends_slot = 0;
  i64 num_groups = 0;
  constexpr bool operator==(const RaggedGroups&) const = default;
};

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

// A vector along K by which A is multiplied as it is loaded, in the dtype of A.
struct GainOperand {
  bool used = false;
  i32 slot = 0;
  bool weight = true;  // it may be read before the dependency wait
  constexpr bool operator==(const GainOperand&) const = default;
};

// The sum of a contraction may have several K segments, each with its own A, B and K: the kernel
// adds A0 B0 + A1 B1 + ... in one accumulator. KSegment is a segment after the first; MatrixOf is
// the family's operand type.
inline constexpr i32 kMaxSegments = 4;
template <class MatrixOf>
struct KSegment {
  MatrixOf a = {};
  MatrixOf b = {};
  i64 k = 0;
  i64 k_outer = 1;  // as ContractionSpace::k_outer
  constexpr bool operator==(const KSegment&) const = default;
};

// Which coordinate a tensor map's third and later dimensions take: the batch coordinate of that
// index (0 to kMaxDims - 1), or one of these.
inline constexpr i32 kCoordNone = -1;             // the map has no such dimension
inline constexpr i32 kCoordOuterK = kMaxDims;     // the index of the outer K dimension
inline constexpr i32 kCoordGroup = kMaxDims + 1;  // the group of a ragged label

// A matrix operand for TMA and wgmma: a tensor map whose first two dimensions are K and the free
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

}  // namespace catenary
