// SPDX-License-Identifier: Apache-2.0
// mbarrier objects: 8 bytes of shared memory, 8-byte aligned, by 32-bit address. PTX ISA 9.7.13.15.
// A phase completes when its pending arrivals and its pending transaction bytes are both zero; the
// next phase expects the initial count again. `phase` arguments are the index of a phase modulo
// 2: a wait for 0 blocks until the first phase completes, a wait for 1 does not block until then.
//
// sm_80 has init, invalidate, arrive and cp_async_mbarrier_arrive; the rest is sm_90. Per thread.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// `count`: arrivals per phase, 1 to 2^20 - 1. By one thread; a CTA barrier must follow before other
// threads use it, and fence_mbarrier_init before that if remote arrivals or bulk or TMA loads do.
CATENARY_DEVICE void mbarrier_init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// The 8 bytes become ordinary memory. By one thread, after all threads have left the last wait.
CATENARY_DEVICE void mbarrier_invalidate(u32 barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// One arrival; releases this thread's earlier writes to the waiting threads (cta scope).
CATENARY_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier)
               : "memory");
}

// `count` arrivals, at most as many as are pending.
CATENARY_DEVICE void mbarrier_arrive_count(u32 barrier, u32 count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(count)
               : "memory");
}

// One arrival at an mbarrier of another CTA of the cluster (address from map_shared); releases at
// cluster scope. That CTA must not have exited.
CATENARY_DEVICE void mbarrier_arrive_remote(u32 mapped) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mapped)
               : "memory");
}

// The same for a thread that has only read: it hands over no data and its reads have completed. At
// cta scope, the default: a release at cluster scope compiles to MEMBAR.ALL.GPU (RESULTS hw-34).
CATENARY_DEVICE void mbarrier_release_remote(u32 mapped) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(mapped) : "memory");
}

// Adds `bytes` to the transaction bytes that the current phase expects. No arrival: another pending
// arrival must keep the phase open.
CATENARY_DEVICE void mbarrier_expect_tx(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Adds `bytes` to the transaction bytes that the current phase expects, and arrives. A TMA load
// counts its full box, elements out of bounds included.
CATENARY_DEVICE void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Whether the phase has completed; may suspend the thread for a while first. If so, what its
// arrivals released and its bulk or TMA loads wrote is visible (cta scope).
CATENARY_DEVICE bool mbarrier_try_wait(u32 barrier, u32 phase) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(phase)
      : "memory");
  return done != 0;
}

CATENARY_DEVICE void mbarrier_wait(u32 barrier, u32 phase) {
  while (!mbarrier_try_wait(barrier, phase)) {
  }
}

// The same for arrivals from other CTAs of the cluster: acquires at cluster scope.
CATENARY_DEVICE bool mbarrier_try_wait_cluster(u32 barrier, u32 phase) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(phase)
      : "memory");
  return done != 0;
}

CATENARY_DEVICE void mbarrier_wait_cluster(u32 barrier, u32 phase) {
  while (!mbarrier_try_wait_cluster(barrier, phase)) {
  }
}

// Makes this thread's mbarrier_init visible to the async proxy and to the cluster. By the thread
// that initialised, before the CTA or cluster barrier that follows.
CATENARY_DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// One arrival when all earlier cp.async of this thread have completed. noinc: the arrival is part
// of the initial count.
CATENARY_DEVICE void cp_async_mbarrier_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace catenary
