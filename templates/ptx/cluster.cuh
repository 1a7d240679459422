// SPDX-License-Identifier: Apache-2.0
// CTA clusters and distributed shared memory (DSMEM), sm_90. PTX ISA 9.7.13.3 (barrier.cluster),
// 9.7.9 (mapa, st.async, ld and st with state space shared::cluster).
//
// A mapped address (map_shared) is shared memory of any CTA of the cluster. It is valid from the
// first cluster barrier on (that CTA has started) until that CTA exits.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// This CTA's rank in its cluster.
CATENARY_DEVICE u32 cluster_rank() {
  u32 v;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(v));
  return v;
}

// CTAs of the cluster; 1 without one.
CATENARY_DEVICE u32 cluster_size() {
  u32 v;
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(v));
  return v;
}

// The address in the CTA of that rank that corresponds to this CTA's shared `address`.
CATENARY_DEVICE u32 map_shared(u32 address, u32 rank) {
  u32 v;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(v) : "r"(address), "r"(rank));
  return v;
}

// All threads of the cluster arrive, then wait; each warp convergently. Memory written before
// cluster_arrive is visible after cluster_wait.
CATENARY_DEVICE void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// The same without release: for CTAs that only keep their shared memory alive, or whose writes are
// released by another instruction.
CATENARY_DEVICE void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

CATENARY_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

CATENARY_DEVICE float ld_cluster_f32(u32 mapped) {
  float v;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(mapped) : "memory");
  return v;
}

CATENARY_DEVICE u32 ld_cluster_u32(u32 mapped) {
  u32 v;
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(mapped) : "memory");
  return v;
}

CATENARY_DEVICE U32x4 ld_cluster_v4(u32 mapped) {
  U32x4 v;
  asm volatile("ld.shared::cluster.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(mapped)
               : "memory");
  return v;
}

CATENARY_DEVICE void st_cluster_f32(u32 mapped, float v) {
  asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(mapped), "f"(v) : "memory");
}

CATENARY_DEVICE void st_cluster_u32(u32 mapped, u32 v) {
  asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(mapped), "r"(v) : "memory");
}

CATENARY_DEVICE void st_cluster_v4(u32 mapped, U32x4 v) {
  asm volatile("st.shared::cluster.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(mapped), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

// Asynchronous stores: each completes its bytes on the mbarrier, whose completed phase makes them
// visible. Both addresses are mapped addresses of the same CTA. Per thread.
CATENARY_DEVICE void st_async_u32(u32 mapped, u32 v, u32 barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 "
      "[%0], %1, [%2];" ::"r"(mapped),
      "r"(v), "r"(barrier)
      : "memory");
}

CATENARY_DEVICE void st_async_v2(u32 mapped, U32x2 v, u32 barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%0], {%1, %2}, "
      "[%3];" ::"r"(mapped),
      "r"(v.x), "r"(v.y), "r"(barrier)
      : "memory");
}

CATENARY_DEVICE void st_async_v4(u32 mapped, U32x4 v, u32 barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(mapped),
      "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w), "r"(barrier)
      : "memory");
}

}  // namespace catenary
