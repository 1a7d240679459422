// SPDX-License-Identifier: Apache-2.0
// `reduce`: out[i] = epilogue(sum or maximum over terms of prologue(i, term)), for the reduction of
// split-K, for `sum` (bias gradients) and `reduce_max`. Terms are combined in a fixed order: the
// same plan gives the same bits. The terms of a sum by group are the rows of a
// group, which the ends in device memory give.
//
//   threads of a CTA     lane 0   lane 1   ...  lanes-1     a lane is an output vector
//     slice 0            terms 0, slices, 2 slices, ... of the part, where terms have parts
//     slice 1            terms 1, slices+1, ...
//     ...
//   shared memory: f32 [slice][sum][lane][vec]
//
// Along terms a lane is one output, its slices are neighbouring threads, and each adds vectors of
// terms, which are adjacent in memory. The first and the last vector of a row may have fewer terms:
// the others begin where the row's memory is aligned. Its sum of a vector's elements, in ascending
// order, joins those of its warp by butterflies, and those of the output's warps by shared memory:
// f32 [lane][warp][sum].
//
//   timeline: PDL trigger, dependency wait | each slice combines its terms | stores to shared
//   memory, CTA barrier (all threads arrive: all slices are stored) | slice 0 combines the slices
//   in ascending order and runs the epilogue
//   along terms: .. | butterflies in each warp | first lanes store to shared memory, CTA barrier |
//   slice 0 combines the warps
#pragma once

#include "epilogue/group_ends.cuh"
#include "epilogue/operand.cuh"
#include "epilogue/ops.cuh"
#include "epilogue/reduction.cuh"
#include "ptx/math.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/warp.cuh"

namespace catenary {

// The rows of dimension 0 whose terms an output has: all, or those of its group.
template <const ReduceConfig& kConfig, class P>
CATENARY_DEVICE RowRange reduce_rows(const P& params, const Coord& at) {
  const i64 rows = extent_at_launch(kConfig.size.at[0], params);
  if constexpr (kConfig.ends.num_groups > 0) {
    return rows_of_group<kConfig.ends>(params, at.dim[kConfig.ends.dim], rows);
  } else {
    return {0, rows};
  }
}

// Along terms: the vectors of a row, with one that may be empty where rows have different starts.
template <const ReduceConfig& kConfig, class P>
CATENARY_DEVICE i64 row_vectors(const P& params) {
  constexpr i64 kMostShift = kConfig.skewed() ? kConfig.vec - 1 : 0;
  const i64 size = extent_at_launch(kConfig.size.at[kMaxDims - 1], params);
  return ceil_div(size + kMostShift, i64{kConfig.vec});
}

template <const ReduceConfig& kConfig, class P>
CATENARY_DEVICE i64 reduce_terms(const P& params, i64 rows) {
  i64 terms = ceil_div(rows, i64{kConfig.rows});
#pragma unroll
  for (int d = 1; d < kConfig.term_rank; ++d) terms *= extent_at_launch(kConfig.size.at[d], params);
  if constexpr (kConfig.along_terms) terms *= row_vectors<kConfig>(params);
  return terms;
}

// Coordinates of output vector i; false when there is no such vector.
template <const ReduceConfig& kConfig, class P>
CATENARY_DEVICE bool reduce_coord(const P& params, u64 i, Coord& at) {
  if constexpr (kConfig.along_terms) {
    at.dim[kMaxDims - 1] = 0;
    at.valid = kConfig.vec;
  } else {
    const i64 inner = extent_at_launch(kConfig.size.at[kMaxDims - 1], params);
    const u64 row = static_cast<u64>(ceil_div(inner, kConfig.vec));
    if (row == 0) return false;
    const u64 column = (i % row) * kConfig.vec;
    const i64 left = inner - static_cast<i64>(column);
    at.dim[kMaxDims - 1] = static_cast<u32>(column);
    at.valid = left < kConfig.vec ? static_cast<i32>(left) : kConfig.vec;
    i /= row;
  }
#pragma unroll
  for (int d = kMaxDims - 2; d >= kConfig.term_rank; --d) {
    const u64 size = static_cast<u64>(extent_at_launch(kConfig.size.at[d], params));
    if (size == 0) return false;
    at.dim[d] = static_cast<u32>(i % size);
    i /= size;
  }
  return i == 0;
}

// Along terms: sets the begin and the number of the terms of a vector, whose row is in `at`.
template <const ReduceConfig& kConfig, class P>
CATENARY_DEVICE void set_vector(const P& params, u64 vector, Coord& at) {
  if constexpr (!kConfig.partial_vectors()) {
    at.dim[kMaxDims - 1] = static_cast<u32>(vector * kConfig.vec);
  } else {
    const i64 size = extent_at_launch(kConfig.size.at[kMaxDims - 1], params);
    // Elements between the aligned address before the row and the row.
    u32 shift = 0;
#pragma unroll
    for (int d = 0; d < kMaxDims - 1; ++d)
      shift += static_cast<u32>(kConfig.skew.at[d]) * at.dim[d];
    shift %= kConfig.vec;
    const i64 start = static_cast<i64>(vector * kConfig.vec) - shift;
    const i64 begin = start < 0 ? 0 : start;
    const i64 end = start + kConfig.vec < size ? start + kConfig.vec : size;
    at.dim[kMaxDims - 1] = static_cast<u32>(begin);
    at.valid = begin < end ? static_cast<i32>(end - begin) : 0;
  }
}

// `first`: the index of the first term in dimension 0.
template <const ReduceConfig& kConfig, class P>
CATENARY_DEVICE void set_term(const P& params, u64 term, i64 first, Coord& at) {
  [[maybe_unused]] u64 vector = term;
  if constexpr (kConfig.along_terms && kConfig.term_rank > 0) {
    const u64 vectors = static_cast<u64>(row_vectors<kConfig>(params));
    vector = term % vectors;
    term /= vectors;
  }
#pragma unroll
  for (int d = kConfig.term_rank - 1; d >= 0; --d) {
    if (d == 0) {
      at.dim[0] = static_cast<u32>(term + static_cast<u64>(first));
    } else {
      const u64 size = static_cast<u64>(extent_at_launch(kConfig.size.at[d], params));
      at.dim[d] = static_cast<u32>(term % size);
      term /= size;
    }
  }
  if constexpr (kConfig.along_terms) set_vector<kConfig>(params, vector, at);
}

// Combines the results of an output's slices, vectors of terms; `total` is complete in slice 0. All
// threads of the CTA execute it.
template <const ReduceConfig& kConfig, int V>
CATENARY_DEVICE void combine_slices_along_terms(u32 lane, u32 slice,
                                                const Vec<V> (&sum)[kConfig.sums],
                                                Vec<1> (&total)[kConfig.sums]) {
  using Operator = Reduction<kConfig.op>;
  constexpr u32 kInWarp = kConfig.slices < 32 ? kConfig.slices : 32;
  constexpr u32 kWarps = kConfig.slices / kInWarp;  // of an output
#pragma unroll
  for (int s = 0; s < kConfig.sums; ++s) {
    float v = sum[s].v[0];
#pragma unroll
    for (int j = 1; j < V; ++j) v = Operator::apply(v, sum[s].v[j]);
#pragma unroll
    for (u32 distance = 1; distance < kInWarp; distance *= 2) {
      v = Operator::apply(v, bits_to_f32(shuffle_xor(f32_to_bits(v), distance)));
    }
    total[s].v[0] = v;
  }
  if constexpr (kWarps > 1) {
    const u32 sums = dynamic_smem() + lane * (kWarps * kConfig.sums * 4);
#pragma unroll
    for (int s = 0; s < kConfig.sums; ++s) {
      if (slice % 32 == 0) st_shared_f32(sums + (slice / 32 * kConfig.sums + s) * 4, total[s].v[0]);
    }
    // All threads arrive: the sums of all warps are stored.
    cta_barrier();
    if (slice != 0) return;
#pragma unroll
    for (u32 warp = 1; warp < kWarps; ++warp) {
#pragma unroll
      for (int s = 0; s < kConfig.sums; ++s) {
        total[s].v[0] =
            Operator::apply(total[s].v[0], ld_shared_f32(sums + (warp * kConfig.sums + s) * 4));
      }
    }
  }
}

// Combines the results of an output vector's slices, in ascending order, into those of slice 0. All
// threads of the CTA execute it.
template <const ReduceConfig& kConfig, int V>
CATENARY_DEVICE void combine_slices(u32 lane, u32 slice, Vec<V> (&sum)[kConfig.sums]) {
  using Operator = Reduction<kConfig.op>;
  if constexpr (kConfig.slices > 1) {
    // The slices' sums: [slice][sum][lane][V].
    const u32 smem = dynamic_smem();
    constexpr u32 kSliceBytes = kConfig.sums * kConfig.lanes * V * 4;
#pragma unroll
    for (int s = 0; s < kConfig.sums; ++s) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        st_shared_f32(smem + slice * kSliceBytes + ((s * kConfig.lanes + lane) * V + j) * 4,
                      sum[s].v[j]);
      }
    }
    // All threads arrive, those without an output vector too: all slices are stored.
    cta_barrier();
    if (slice != 0) return;
#pragma unroll 1
    for (u32 other = 1; other < kConfig.slices; ++other) {
#pragma unroll
      for (int s = 0; s < kConfig.sums; ++s) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
          sum[s].v[j] = Operator::apply(
              sum[s].v[j],
              ld_shared_f32(smem + other * kSliceBytes + ((s * kConfig.lanes + lane) * V + j) * 4));
        }
      }
    }
  }
}

// Runs the program on an output vector's sums; along terms, on an output's.
template <const ReduceConfig& kConfig, class Program, class P>
CATENARY_DEVICE void store_result(const P& params, Coord& at,
                                  const Vec<kConfig.result_vec()> (&total)[kConfig.sums]) {
#pragma unroll
  for (int d = 0; d < kConfig.term_rank; ++d) at.dim[d] = 0;
  if constexpr (kConfig.along_terms) {
    at.dim[kMaxDims - 1] = 0;
    at.valid = 1;
  }
  typename Program::Operands operands;
  Program::load_weights(params, at, operands);
  Program::load(params, at, operands);
  if constexpr (kConfig.sums == 2) {
    Program::store(params, at, operands, total[0], total[1]);
  } else {
    Program::store(params, at, operands, total[0]);
  }
}

template <const ReduceConfig& kConfig, class Prologue, class Program, class P>
CATENARY_DEVICE void reduce(const P& params) {
  constexpr int V = kConfig.vec;
  using Operator = Reduction<kConfig.op>;
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();

  constexpr bool kAlongTerms = kConfig.along_terms;
  const u32 lane = kAlongTerms ? threadIdx.x / kConfig.slices : threadIdx.x % kConfig.lanes;
  const u32 slice = kAlongTerms ? threadIdx.x % kConfig.slices : threadIdx.x / kConfig.lanes;
  Coord at;
  const bool inside =
      reduce_coord<kConfig>(params, static_cast<u64>(blockIdx.x) * kConfig.lanes + lane, at);

  Vec<V> sum[kConfig.sums];
#pragma unroll
  for (int s = 0; s < kConfig.sums; ++s) sum[s] = splat<V>(Operator::identity());
  RowRange rows = {0, 0};
  if (inside) rows = reduce_rows<kConfig>(params, at);
  // Each group has sums of rows of its own (compiler/fusion/column_sums.h).
  i64 first = rows.begin;
  if constexpr (kConfig.ends.num_groups > 0 && kConfig.rows > 1)
    first = rows.begin / kConfig.rows + at.dim[kConfig.ends.dim];
  i64 begin = 0;
  i64 end = inside ? reduce_terms<kConfig>(params, rows.end - rows.begin) : 0;
  if constexpr (kConfig.parts > 1) {
    const i64 part = at.dim[kConfig.part_dim];
    begin = end * part / kConfig.parts;
    end = end * (part + 1) / kConfig.parts;
  }
#pragma unroll(kConfig.unroll)
  for (i64 term = begin + slice; term < end; term += kConfig.slices) {
    set_term<kConfig>(params, static_cast<u64>(term), first, at);
    Vec<V> value[kConfig.sums];
    typename Prologue::Operands terms_in;
    Prologue::load_weights(params, at, terms_in);
    Prologue::load(params, at, terms_in);
    Prologue::values(params, at, terms_in, value);
#pragma unroll
    for (int s = 0; s < kConfig.sums; ++s) {
      if constexpr (kConfig.partial_vectors()) {
#pragma unroll
        for (int j = 0; j < V; ++j)
          value[s].v[j] = j < at.valid ? value[s].v[j] : Operator::identity();
      }
      sum[s] = map<V, Operator>(sum[s], value[s]);
    }
  }

  Vec<kConfig.result_vec()> total[kConfig.sums];
  if constexpr (kAlongTerms) {
    combine_slices_along_terms<kConfig>(lane, slice, sum, total);
  } else {
    combine_slices<kConfig>(lane, slice, sum);
#pragma unroll
    for (int s = 0; s < kConfig.sums; ++s) total[s] = sum[s];
  }
  if (slice == 0 && inside) store_result<kConfig, Program>(params, at, total);
}

}  // namespace catenary
