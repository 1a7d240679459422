// SPDX-License-Identifier: Apache-2.0
// CTAs of a cluster that share K in `skinny`: each has the sums of all columns (rows of X) over its
// part, and adds every cluster_k-th column over the cluster. What belongs to another CTA goes
// straight from registers to that CTA's shared memory (st.async); nobody waits for a barrier of the
// cluster behind the products (epilogue/cluster_split_k.cuh says why).
//
//   arrivals of a CTA, behind its slices: one area per other CTA, in order of rank; in it its
//   columns, each rows() x sums() floats
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/cluster.cuh"
#include "ptx/convert.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/config.h"

namespace catenary {

template <const SkinnyConfig& kConfig>
struct SkinnyCluster {
  using Sums = Vec<kConfig.vec>[kConfig.num_accumulators()];
  static constexpr u32 kCtas = kConfig.cluster_k;
  static constexpr u32 kVectors = kConfig.rows() / kConfig.vec;  // of a column
  static_assert(kConfig.columns % kConfig.cluster_k == 0, "as many columns for each CTA");
  static_assert(kConfig.vec % 2 == 0, "8 bytes at a time");

  // This CTA's place; 0 without a cluster.
  static CATENARY_DEVICE u32 rank() {
    if constexpr (kCtas > 1) return cluster_rank();
    return 0;
  }

  // This thread's vector among those that CTA `to` adds: its column, and its first row of the
  // CTA's.
  static CATENARY_DEVICE u32 column(u32 to) {
    const u32 column = threadIdx.x / kVectors * kCtas + to;
    // Threads behind the last vector have a column that no problem has.
    return threadIdx.x < kConfig.vectors() ? column : kConfig.columns;
  }
  static CATENARY_DEVICE u32 row() { return threadIdx.x % kVectors * kConfig.vec; }

  // The mbarrier of the arrivals: 1 arrival, thread 0's, which expects their bytes; phase 0 alone.
  static CATENARY_DEVICE u32 barrier() { return dynamic_smem() + 8 * (kConfig.barriers() - 1); }

  // Where sum number `sum` of this thread's vector arrives from CTA `from` at CTA `to`.
  static CATENARY_DEVICE u32 place(u32 from, u32 to, u32 sum) {
    const u32 area = from < to ? from : from - 1;
    return dynamic_smem() + kConfig.partials_offset() + area * kConfig.partials_bytes() +
           (threadIdx.x * kConfig.num_accumulators() + sum) * kConfig.vec * 4;
  }

  // All threads, before anything else: the mbarrier, and a first arrival at the cluster's barrier,
  // behind which every CTA has started and has its mbarrier. Relaxed: fence.mbarrier_init releases
  // all that there is (PTX ISA 9.7.13.4). Of m columns, every kCtas-th from `rank` on arrives.
  static CATENARY_DEVICE void begin(i64 m) {
    if (threadIdx.x == 0) {
      const u32 columns = (static_cast<u32>(m) + kCtas - 1 - rank()) / kCtas;
      mbarrier_init(barrier(), 1);
      fence_mbarrier_init();
      mbarrier_arrive_expect_tx(
          barrier(), (kCtas - 1) * columns * kConfig.rows() * kConfig.num_accumulators() * 4);
    }
    warp_barrier();
    cluster_arrive_relaxed();
  }

  // To CTA `to`, behind cluster_wait().
  static CATENARY_DEVICE void send(const Sums& own, u32 to) {
    const u32 mapped = map_shared(barrier(), to);
#pragma unroll
    for (u32 s = 0; s < kConfig.num_accumulators(); ++s) {
      const u32 at = map_shared(place(rank(), to, s), to);
#pragma unroll
      for (u32 i = 0; i < kConfig.vec; i += 2) {
        st_async_v2(at + i * 4, {f32_to_bits(own[s].v[i]), f32_to_bits(own[s].v[i + 1])}, mapped);
      }
    }
  }

  // The other CTAs' sums, in ascending order of the parts of K, which are the ranks.
  static CATENARY_DEVICE void add_partials(Sums& own) {
    mbarrier_wait(barrier(), 0);
#pragma unroll
    for (u32 s = 0; s < kConfig.num_accumulators(); ++s) {
#pragma unroll
      for (u32 i = 0; i < kConfig.vec; ++i) {
        float total = 0;
#pragma unroll
        for (u32 from = 0; from < kCtas; ++from) {
          const bool mine = from == rank();
          const float part = mine ? own[s].v[i] : ld_shared_f32(place(from, rank(), s) + i * 4);
          total = from == 0 ? part : total + part;
        }
        own[s].v[i] = total;
      }
    }
  }
};

}  // namespace catenary
