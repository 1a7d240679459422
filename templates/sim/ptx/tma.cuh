// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/tma.cuh. L2 policies are ignored.
#pragma once

#include "ptx/device.cuh"
#include "shared/tensor_map.h"

namespace catenary {

template <int kRank>
CATENARY_DEVICE void tma_load(u32 to, const TensorMap& map, const i32 (&corner)[kRank], u32 barrier,
                              u64 policy = kEvictNormal, sim::Site at = sim::here()) {
  static_assert(kRank >= 2 && kRank <= 5, "a box has two to five dimensions");
  sim::machine->tma_load(to, &map, corner, kRank, barrier, 0, sim::in(at, __func__));
}

template <int kRank>
CATENARY_DEVICE void tma_load_multicast(u32 to, const TensorMap& map, const i32 (&corner)[kRank],
                                        u32 barrier, u16 mask, u64 policy = kEvictNormal,
                                        sim::Site at = sim::here()) {
  static_assert(kRank >= 2 && kRank <= 5, "a box has two to five dimensions");
  sim::machine->tma_load(to, &map, corner, kRank, barrier, mask, sim::in(at, __func__));
}

template <int kRank>
CATENARY_DEVICE void tma_store(const TensorMap& map, const i32 (&corner)[kRank], u32 from,
                               u64 policy = kEvictNormal, sim::Site at = sim::here()) {
  static_assert(kRank >= 2 && kRank <= 5, "a box has two to five dimensions");
  sim::machine->tma_store(&map, corner, kRank, from, sim::in(at, __func__));
}

template <int kRank>
CATENARY_DEVICE void tma_reduce_add(const TensorMap& map, const i32 (&corner)[kRank], u32 from,
                                    sim::Site at = sim::here()) {
  static_assert(kRank >= 2 && kRank <= 5, "a box has two to five dimensions");
  sim::machine->tma_reduce(&map, corner, kRank, from, sim::in(at, __func__));
}

CATENARY_DEVICE void tma_prefetch_descriptor(const TensorMap& map, sim::Site at = sim::here()) {
  sim::machine->tma_prefetch_descriptor(&map, sim::in(at, __func__));
}

}  // namespace catenary
