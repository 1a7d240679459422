// SPDX-License-Identifier: Apache-2.0
// One-dimensional bulk loads, stores and reductions of sm_90. PTX ISA 9.7.9.25.4 (cp.async.bulk,
// cp.reduce.async.bulk). Addresses and byte counts are multiples of 16. Per thread. They run in the
// async proxy: shared memory that threads wrote needs fence_proxy_async_shared first.
//
// Loads complete on an mbarrier, with `bytes` transaction bytes each. Stores complete by bulk
// groups of the issuing thread: commit, then wait.
#pragma once

#include "ptx/device.cuh"
#include "shared/tensor_map.h"

namespace catenary {

// Global -> this CTA's shared memory.
CATENARY_DEVICE void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier,
                               u64 policy = kEvictNormal) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
      "[%0], [%1], %2, [%3], %4;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
      : "memory");
}

// The same bytes to the same offset in every CTA whose rank is a bit of `mask`; the mbarrier at the
// same offset in each of these CTAs counts the bytes it receives.
CATENARY_DEVICE void bulk_load_multicast(u32 to, const void* from, u32 bytes, u32 barrier, u16 mask,
                                         u64 policy = kEvictNormal) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%0], [%1], %2, [%3], %4, %5;" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier), "h"(mask), "l"(policy)
      : "memory");
}

CATENARY_DEVICE void bulk_store(void* to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}

// to[i] += from[i], each element atomically (relaxed, gpu scope), in no fixed order. 16-bit sums
// are rounded to nearest even, subnormals are kept.
CATENARY_DEVICE void bulk_reduce_add_f32(void* to, u32 from, u32 bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}

CATENARY_DEVICE void bulk_reduce_add_bf16(void* to, u32 from, u32 bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%0], [%1], %2;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}

CATENARY_DEVICE void bulk_reduce_add_f16(void* to, u32 from, u32 bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%0], [%1], %2;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}

// This CTA's shared memory -> another CTA of the cluster, completing on an mbarrier there. `to` and
// `barrier` are addresses from map_shared of the same CTA.
CATENARY_DEVICE void bulk_copy_cluster(u32 to, u32 from, u32 bytes, u32 barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
      "[%0], [%1], %2, [%3];" ::"r"(to),
      "r"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// A hint: prefetches `bytes` to L2.
CATENARY_DEVICE void bulk_prefetch_l2(const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

// The thread's bulk stores and reductions since the last commit become one group.
CATENARY_DEVICE void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// At most kPending of the thread's groups are incomplete afterwards; the writes of the others are
// visible to this thread.
template <int kPending>
CATENARY_DEVICE void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

// Weaker: the other groups have read their shared memory, which may be overwritten.
template <int kPending>
CATENARY_DEVICE void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace catenary
