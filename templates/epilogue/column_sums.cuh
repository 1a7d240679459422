// SPDX-License-Identifier: Apache-2.0
// Sums of columns over the kSummedRows rows that a warp's epilogue handles at a time. A lane adds
// the rows that it computes, pass by pass; lanes with the same columns then add their sums:
//
//   lane          0 .. kLanesPerRow-1 | kLanesPerRow .. | ...     columns of one row each
//   pass p        row r               | row r + 1       | ...
//   after the last pass: butterflies over lanes kLanesPerRow, 2 kLanesPerRow, .. apart
//
// The register epilogue has two rows of a lane's columns at a time, and no passes.
//
// Rows past the end add nothing, and the sums of rows of no group are not stored. The order is that
// of the lanes and passes: it depends only on the tile.
#pragma once

#include "epilogue/ops.cuh"
#include "epilogue/vec.cuh"
#include "ptx/convert.cuh"
#include "ptx/warp.cuh"

namespace catenary {

// `kSums`: stores of the epilogue that are such sums.
template <int V, int kSums>
struct RowSums {
  Vec<V> of[kSums];

  CATENARY_DEVICE RowSums() {
#pragma unroll
    for (int i = 0; i < kSums; ++i) of[i] = splat<V>(0.0f);
  }

  // The epilogue of one row's vector.
  template <class Epilogue, class P, class... Accumulators>
  CATENARY_DEVICE void store(const P& params, const Coord& at,
                             const typename Epilogue::Operands& operands,
                             const Accumulators&... accumulators) {
    Epilogue::store(params, at, operands, of, accumulators...);
  }

  // Adds and stores the sums of the rows from `m` on. All lanes execute it.
  template <class Epilogue, u32 kLanesPerRow, class P>
  CATENARY_DEVICE void finish(const P& params, Coord at, i64 m, i64 m_end) {
#pragma unroll
    for (u32 apart = kLanesPerRow; apart < 32; apart *= 2) {
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
#pragma unroll
        for (int j = 0; j < V; ++j) {
          const float other = bits_to_f32(shuffle_xor(f32_to_bits(of[i].v[j]), apart));
          of[i].v[j] = op_add::apply(of[i].v[j], other);
        }
      }
    }
    if (threadIdx.x % 32 < kLanesPerRow && m < m_end && at.valid > 0) {
      at.dim[kMaxDims - 2] = static_cast<u32>(m / kSummedRows);
      Epilogue::store_rows(params, at, of);
    }
  }
};

template <int V>
struct RowSums<V, 0> {
  template <class Epilogue, class P, class... Accumulators>
  CATENARY_DEVICE void store(const P& params, const Coord& at,
                             const typename Epilogue::Operands& operands,
                             const Accumulators&... accumulators) {
    Epilogue::store(params, at, operands, accumulators...);
  }
  template <class Epilogue, u32 kLanesPerRow, class P>
  CATENARY_DEVICE void finish(const P&, const Coord&, i64, i64) {}
};

// Adds the kSummedRows rows of a subtile that begins at row m and column n, and stores the sums. A
// lane has two rows of two columns in each chunk of 8 columns, as bits of f32 values.
template <Operand kOutput, u32 kChunks, class P>
CATENARY_DEVICE void store_column_sums(const P& params, Coord at, const u32 (&value)[kChunks][2][2],
                                       u32 m, u32 m_end, u32 n, u32 n_end) {
  const u32 lane = threadIdx.x % 32;
  if (kOutput.by_group && at.group == kNoGroup) m_end = m;  // nothing is stored
  at.dim[kMaxDims - 2] = m / kSummedRows;
#pragma unroll
  for (u32 g = 0; g < kChunks; ++g) {
    u32 sums[2];
#pragma unroll
    for (u32 j = 0; j < 2; ++j) {
      float sum = 0.0f;
#pragma unroll
      for (u32 half = 0; half < 2; ++half) {
        const float term = bits_to_f32(value[g][half][j]);
        if (m + lane / 4 + 8 * half < m_end) sum = op_add::apply(sum, term);
      }
#pragma unroll
      for (u32 apart = 4; apart < 32; apart *= 2)
        sum = op_add::apply(sum, bits_to_f32(shuffle_xor(f32_to_bits(sum), apart)));
      sums[j] = f32_to_bits(sum);
    }
    const u32 column = n + 8 * g + lane % 4 * 2;
    at.dim[kMaxDims - 1] = column;
    u8* p = static_cast<u8*>(params.ptr[kOutput.slot]) + element_offset<kOutput>(at) * 4;
    if (lane < 4 && m < m_end && column < n_end) store_words<2, false>(p, sums);
  }
}

}  // namespace catenary
