// SPDX-License-Identifier: Apache-2.0
// `pointwise`: out[i] = program(operands[i]) over the iteration space, in one pass without shared
// memory. The space is divided into vectors of `vec` elements of the last dimension. A thread
// computes `unroll` vectors and issues all their loads before the first use:
//
//   CTA of `threads` threads, unroll = 2:   vectors   0 ... threads-1 | threads ... 2 threads-1
//                                           thread    0 ... threads-1 | 0       ... threads-1
//   vector i: last dimension i % ceil(inner / vec), the other dimensions by division
//
//   timeline: PDL trigger | load weights | dependency wait | load operands | compute, store
//
// Where an operand is taken by the group of a row, all loads are after the wait: a kernel before
// may write the ends. The elements of a vector are of one row.
#pragma once

#include "epilogue/group_ends.cuh"
#include "epilogue/operand.cuh"
#include "epilogue/ops.cuh"
#include "ptx/sync.cuh"

namespace catenary {

template <const PointwiseConfig& kConfig>
constexpr i64 pointwise_max_vectors() {
  i64 count = ceil_div(kConfig.size.at[kMaxDims - 1].size, kConfig.vec);
  for (int d = 0; d < kMaxDims - 1; ++d) count *= kConfig.size.at[d].size;
  return count;
}

template <const PointwiseConfig& kConfig, class P>
CATENARY_DEVICE i64 pointwise_vectors(const P& params) {
  i64 count = ceil_div(extent_at_launch(kConfig.size.at[kMaxDims - 1], params), kConfig.vec);
#pragma unroll
  for (int d = 0; d < kMaxDims - 1; ++d) count *= extent_at_launch(kConfig.size.at[d], params);
  return count;
}

// The outermost dimension of more than one element. Its coordinate is the remaining quotient, so
// that a symbolic size there needs no division.
template <const PointwiseConfig& kConfig>
constexpr int pointwise_outermost() {
  int d = 0;
  while (d < kMaxDims - 1 && kConfig.size.at[d] == Extent(1)) ++d;
  return d;
}

template <const PointwiseConfig& kConfig, class Index, class P>
CATENARY_DEVICE Coord pointwise_coord(const P& params, Index i) {
  constexpr int kOutermost = pointwise_outermost<kConfig>();
  Coord at;
  const i64 inner = extent_at_launch(kConfig.size.at[kMaxDims - 1], params);
  const Index row = static_cast<Index>(ceil_div(inner, kConfig.vec));
  const Index column = (i % row) * kConfig.vec;
  at.dim[kMaxDims - 1] = static_cast<u32>(column);
  const i64 left = inner - static_cast<i64>(column);
  at.valid = left < kConfig.vec ? static_cast<i32>(left) : kConfig.vec;
  i /= row;
#pragma unroll
  for (int d = kMaxDims - 2; d >= kOutermost; --d) {
    if (d == kOutermost) {
      at.dim[d] = static_cast<u32>(i);
    } else {
      const Index size = static_cast<Index>(extent_at_launch(kConfig.size.at[d], params));
      at.dim[d] = static_cast<u32>(i % size);
      i /= size;
    }
  }
  return at;
}

template <const PointwiseConfig& kConfig, class Program, class P>
CATENARY_DEVICE void pointwise(const P& params) {
  constexpr int kUnroll = kConfig.unroll;
  constexpr bool kWide = pointwise_max_vectors<kConfig>() >= (i64{1} << 31);
  constexpr bool kByGroup = kConfig.ends.num_groups > 0;
  using Index = typename IndexType<kWide>::type;
  griddepcontrol_launch_dependents();

  const Index total = static_cast<Index>(pointwise_vectors<kConfig>(params));
  const Index first = static_cast<Index>(blockIdx.x) * (kConfig.threads * kUnroll) + threadIdx.x;
  Coord at[kUnroll];
  typename Program::Operands operands[kUnroll];
  // Weights are loaded while the previous kernel may still run; other operands may be its results.
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + u * kConfig.threads;
    if (i < total) {
      at[u] = pointwise_coord<kConfig, Index>(params, i);
      if constexpr (!kByGroup) Program::load_weights(params, at[u], operands[u]);
    }
  }
  griddepcontrol_wait();
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kConfig.threads < total) {
      if constexpr (kByGroup) {
        at[u].group = group_of_row<kConfig.ends>(params, at[u].dim[kConfig.ends.dim]);
        Program::load_weights(params, at[u], operands[u]);
      }
      Program::load(params, at[u], operands[u]);
    }
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kConfig.threads < total) Program::store(params, at[u], operands[u]);
  }
}

}  // namespace catenary
