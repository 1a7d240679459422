// SPDX-License-Identifier: Apache-2.0
// Cluster split-K of `skinny`. Each CTA of a cluster has accumulators of all columns (rows of X)
// for its k-slice, and adds and stores every cluster_k-th column. The other columns go from
// registers to the CTAs that store them by st.async.
//
//   DSMEM partials of a CTA, after its slices: one buffer per other CTA, in ascending rank; a
//   buffer has the CTA's columns, each rows() x num_accumulators() floats
//
//   barrier          arrivals                         phase  meaning
//   cluster barrier  all threads, at the start        -      all CTAs have their mbarrier
//   mbarrier         thread 0, expects all partials   0      the partials have arrived
//
// No cluster barrier follows the MMAs: a CTA waits for all bytes that are sent to it, and needs
// nothing more of the CTAs that it sends to. No CTA exits before it has received what others send.
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/cluster.cuh"
#include "ptx/convert.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/skinny_config.h"

namespace catenary {

// kConfig: SkinnyConfig, or the config of another kernel with the members that are used here.
template <const auto& kConfig>
struct SkinnyCluster {
  using Partials = Vec<kConfig.vec>[kConfig.num_accumulators()];
  static constexpr u32 kCtas = kConfig.schedule.cluster_k;
  static constexpr u32 kVectors = kConfig.rows() / kConfig.vec;  // per column
  static_assert(kConfig.tile.columns >= kConfig.schedule.cluster_k,
                "every CTA of a cluster may have a column");
  static_assert(kConfig.vec % 2 == 0, "st.async stores 8 bytes");

  // 0 without a cluster.
  static CATENARY_DEVICE u32 rank() {
    if constexpr (kCtas > 1) return cluster_rank();
    return 0;
  }

  // This thread's vector among those that CTA `to` stores: its column and its first n index.
  static CATENARY_DEVICE u32 column(u32 to) {
    const u32 column = threadIdx.x / kVectors * kCtas + to;
    // Threads without a vector get a column past every m.
    return threadIdx.x < kConfig.vectors() ? column : kConfig.tile.columns;
  }
  static CATENARY_DEVICE u32 row() { return threadIdx.x % kVectors * kConfig.vec; }

  // The mbarrier of the partials: 1 arrival (thread 0, which expects their bytes), phase 0 only.
  static CATENARY_DEVICE u32 barrier() { return dynamic_smem() + 8 * (kConfig.barriers() - 1); }

  // Shared address in CTA `to` of what CTA `from` sends for this thread's vector.
  static CATENARY_DEVICE u32 partial_address(u32 from, u32 to, u32 accumulator) {
    const u32 buffer = from < to ? from : from - 1;
    return dynamic_smem() + kConfig.partials_offset() + buffer * kConfig.partials_bytes() +
           (threadIdx.x * kConfig.num_accumulators() + accumulator) * kConfig.vec * 4;
  }
  // The same for the sum of squares of the vector's row of X, after the vectors.
  static CATENARY_DEVICE u32 squares_address(u32 from, u32 to) {
    const u32 buffer = from < to ? from : from - 1;
    return dynamic_smem() + kConfig.partials_offset() + (buffer + 1) * kConfig.partials_bytes() -
           (kConfig.vectors() - threadIdx.x) * kConfig.kSquaresBytes;
  }

  // All threads, first of all: initialises the mbarrier and arrives at the cluster barrier.
  // Relaxed: fence.mbarrier_init releases the initialisation (PTX ISA 9.7.13.4), the only write so
  // far. Partials are expected for the columns of this CTA below m, each of `rows` indices of D's
  // n.
  static CATENARY_DEVICE void begin(i64 m, i32 rows) {
    if (threadIdx.x == 0) {
      const u32 columns = (static_cast<u32>(m) + kCtas - 1 - rank()) / kCtas;
      const u32 vectors = (static_cast<u32>(rows) + kConfig.vec - 1) / kConfig.vec;
      mbarrier_init(barrier(), 1);
      fence_mbarrier_init();
      mbarrier_arrive_expect_tx(barrier(), (kCtas - 1) * columns * vectors *
                                               (kConfig.vec * kConfig.num_accumulators() * 4 +
                                                (kConfig.row_squares ? kConfig.kSquaresBytes : 0)));
    }
    warp_barrier();
    cluster_arrive_relaxed();
  }

  // Sends partials to CTA `to`; after cluster_wait().
  static CATENARY_DEVICE void send(const Partials& partials, float squares, u32 to) {
    const u32 mapped = map_shared(barrier(), to);
    if constexpr (kConfig.row_squares) {
      st_async_v2(map_shared(squares_address(rank(), to), to), {f32_to_bits(squares), 0}, mapped);
    }
#pragma unroll
    for (u32 s = 0; s < kConfig.num_accumulators(); ++s) {
      const u32 at = map_shared(partial_address(rank(), to, s), to);
#pragma unroll
      for (u32 i = 0; i < kConfig.vec; i += 2) {
        st_async_v2(at + i * 4, {f32_to_bits(partials[s].v[i]), f32_to_bits(partials[s].v[i + 1])},
                    mapped);
      }
    }
  }

  // Adds the partials of all CTAs in ascending order of rank, which is the order of their k-slices.
  static CATENARY_DEVICE void add_partials(Partials& partials, float& squares) {
    mbarrier_wait(barrier(), 0);
    if constexpr (kConfig.row_squares) {
      const float own = squares;
      squares = 0;
#pragma unroll
      for (u32 from = 0; from < kCtas; ++from) {
        squares += from == rank() ? own : ld_shared_f32(squares_address(from, rank()));
      }
    }
#pragma unroll
    for (u32 s = 0; s < kConfig.num_accumulators(); ++s) {
#pragma unroll
      for (u32 i = 0; i < kConfig.vec; ++i) {
        float total = 0;
#pragma unroll
        for (u32 from = 0; from < kCtas; ++from) {
          const bool is_own = from == rank();
          const float value =
              is_own ? partials[s].v[i] : ld_shared_f32(partial_address(from, rank(), s) + i * 4);
          total = from == 0 ? value : total + value;
        }
        partials[s].v[i] = total;
      }
    }
  }
};

}  // namespace catenary
