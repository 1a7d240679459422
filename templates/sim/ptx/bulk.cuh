// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/bulk.cuh. L2 policies are ignored.
#pragma once

#include "ptx/device.cuh"
#include "shared/tensor_map.h"

namespace catenary {

CATENARY_DEVICE void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier,
                               u64 policy = kEvictNormal, sim::Site at = sim::here()) {
  sim::machine->bulk_load(to, from, bytes, barrier, 0, sim::in(at, __func__));
}

CATENARY_DEVICE void bulk_load_multicast(u32 to, const void* from, u32 bytes, u32 barrier, u16 mask,
                                         u64 policy = kEvictNormal, sim::Site at = sim::here()) {
  sim::machine->bulk_load(to, from, bytes, barrier, mask, sim::in(at, __func__));
}

CATENARY_DEVICE void bulk_store(void* to, u32 from, u32 bytes, sim::Site at = sim::here()) {
  sim::machine->bulk_store(to, from, bytes, sim::in(at, __func__));
}

CATENARY_DEVICE void bulk_reduce_add_f32(void* to, u32 from, u32 bytes,
                                         sim::Site at = sim::here()) {
  sim::machine->bulk_reduce(to, from, bytes, sim::Number::kF32, sim::in(at, __func__));
}

CATENARY_DEVICE void bulk_reduce_add_bf16(void* to, u32 from, u32 bytes,
                                          sim::Site at = sim::here()) {
  sim::machine->bulk_reduce(to, from, bytes, sim::Number::kBF16, sim::in(at, __func__));
}

CATENARY_DEVICE void bulk_reduce_add_f16(void* to, u32 from, u32 bytes,
                                         sim::Site at = sim::here()) {
  sim::machine->bulk_reduce(to, from, bytes, sim::Number::kF16, sim::in(at, __func__));
}

CATENARY_DEVICE void bulk_copy_cluster(u32 to, u32 from, u32 bytes, u32 barrier,
                                       sim::Site at = sim::here()) {
  sim::machine->bulk_copy_cluster(to, from, bytes, barrier, sim::in(at, __func__));
}

CATENARY_DEVICE void bulk_prefetch_l2(const void* from, u32 bytes, sim::Site at = sim::here()) {
  sim::machine->bulk_prefetch(from, bytes, sim::in(at, __func__));
}

CATENARY_DEVICE void bulk_commit(sim::Site at = sim::here()) {
  sim::machine->bulk_commit(sim::in(at, __func__));
}

template <int kPending>
CATENARY_DEVICE void bulk_wait(sim::Site at = sim::here()) {
  sim::machine->bulk_wait(kPending, false, sim::in(at, __func__));
}

template <int kPending>
CATENARY_DEVICE void bulk_wait_read(sim::Site at = sim::here()) {
  sim::machine->bulk_wait(kPending, true, sim::in(at, __func__));
}

}  // namespace catenary
