// SPDX-License-Identifier: Apache-2.0
// `pointwise`: a chain without contraction, at memory speed. The space is cut into vectors of
// kConfig.vec elements of the last dimension; a thread takes kConfig.unroll vectors, `threads`
// apart, and issues all their loads before the first use. One pass, no shared memory.
//
//   vector i -> coordinates: last dimension i % ceil(inner / vec), the others by division
#pragma once

#include "epilogue/ops.cuh"
#include "ptx/sync.cuh"

namespace catenary {

// 32-bit indices where all vectors can be counted in them: divisions by constants are then one
// multiplication each.
template <bool kWide>
struct IndexType {
  using type = u32;
};
template <>
struct IndexType<true> {
  using type = u64;
};

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

// The outermost dimension that has more than one step: it takes what is left of the index, so that
// a symbolic size there needs no division.
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
  using Index = typename IndexType<kWide>::type;
  griddepcontrol_launch_dependents();

  const Index total = static_cast<Index>(pointwise_vectors<kConfig>(params));
  const Index first = static_cast<Index>(blockIdx.x) * (kConfig.threads * kUnroll) + threadIdx.x;
  Coord at[kUnroll];
  typename Program::Operands operands[kUnroll];
  // Weights are on their way while the kernel before still runs; the rest may be its results.
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    const Index i = first + u * kConfig.threads;
    if (i < total) {
      at[u] = pointwise_coord<kConfig, Index>(params, i);
      Program::load_weights(params, at[u], operands[u]);
    }
  }
  griddepcontrol_wait();
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kConfig.threads < total) Program::load(params, at[u], operands[u]);
  }
#pragma unroll
  for (int u = 0; u < kUnroll; ++u) {
    if (first + u * kConfig.threads < total) Program::store(params, at[u], operands[u]);
  }
}

}  // namespace catenary
