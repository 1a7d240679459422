// SPDX-License-Identifier: Apache-2.0
// mbarrier objects: 8 bytes of shared memory, 8-byte aligned, by 32-bit address. PTX ISA 9.7.13.15
// (mbarrier). A phase completes when its pending arrivals and its pending transaction bytes are
// both zero; the next phase then expects the initial count again. The first phase has parity 0: a
// wait for parity 0 blocks until it completes, a wait for parity 1 falls through until then.
//
// sm_80 has init, invalidate, arrive and cp_async_mbarrier_arrive; the rest is sm_90. One thread
// executes for itself, unless a function says otherwise.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// `count`: arrivals per phase, 1 to 2^20 - 1. One thread, before anybody else uses the barrier: a
// CTA barrier must follow; with remote arrivals or bulk copies, fence_mbarrier_init before it.
CATENARY_DEVICE void mbarrier_init(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

// The 8 bytes are ordinary memory again. One thread, after all have left the last wait.
CATENARY_DEVICE void mbarrier_invalidate(u32 barrier) {
  asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// One arrival; releases what this thread wrote before to those that wait (scope: the CTA).
CATENARY_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier)
               : "memory");
}

// `count` arrivals at once, at most as many as are pending.
CATENARY_DEVICE void mbarrier_arrive_count(u32 barrier, u32 count) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(count)
               : "memory");
}

// One arrival at a barrier of another CTA of the cluster, by an address from map_shared; releases
// at cluster scope. That CTA must not have exited.
CATENARY_DEVICE void mbarrier_arrive_remote(u32 mapped) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mapped)
               : "memory");
}

// The same by a thread that has only read: it hands over no data, and its reads have completed. At
// the instruction's own scope (the CTA's), since a release at cluster scope is a fence of the whole
// GPU in machine code (MEMBAR.ALL.GPU, CUDA 13.0); one per warp and stage halved a GEMM's rate.
CATENARY_DEVICE void mbarrier_release_remote(u32 mapped) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(mapped) : "memory");
}

// The current phase waits for `bytes` more of bulk copies. No arrival: the phase must be kept open
// by another one that is pending.
CATENARY_DEVICE void mbarrier_expect_tx(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// The same, then one arrival. A tensor copy counts its full box, whatever lies out of bounds.
CATENARY_DEVICE void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Whether the phase of this parity has completed; may suspend the thread for a while first. If so,
// what was released by its arrivals and written by its copies is visible (scope: the CTA).
CATENARY_DEVICE bool mbarrier_try_wait(u32 barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

CATENARY_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

// The same where arrivals came from other CTAs of the cluster: acquires at cluster scope.
CATENARY_DEVICE bool mbarrier_try_wait_cluster(u32 barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

CATENARY_DEVICE void mbarrier_wait_cluster(u32 barrier, u32 parity) {
  while (!mbarrier_try_wait_cluster(barrier, parity)) {
  }
}

// Makes this thread's mbarrier_init visible to the asynchronous proxy and to the cluster. The
// thread that initialised, before the CTA or cluster barrier that follows.
CATENARY_DEVICE void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// One arrival when all earlier cp.async of this thread have landed. The arrival is one of those
// that the initial count foresees (noinc).
CATENARY_DEVICE void cp_async_mbarrier_arrive(u32 barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

}  // namespace catenary
