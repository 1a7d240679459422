// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/mbarrier.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE void mbarrier_init(u32 barrier, u32 count, sim::Site at = sim::here()) {
  sim::machine->mbarrier_init(barrier, count, sim::in(at, __func__));
}

CATENARY_DEVICE void mbarrier_invalidate(u32 barrier, sim::Site at = sim::here()) {
  sim::machine->mbarrier_invalidate(barrier, sim::in(at, __func__));
}

CATENARY_DEVICE void mbarrier_arrive(u32 barrier, sim::Site at = sim::here()) {
  sim::machine->mbarrier_arrive(barrier, 1, sim::in(at, __func__));
}

CATENARY_DEVICE void mbarrier_arrive_count(u32 barrier, u32 count, sim::Site at = sim::here()) {
  sim::machine->mbarrier_arrive(barrier, count, sim::in(at, __func__));
}

CATENARY_DEVICE void mbarrier_arrive_remote(u32 mapped, sim::Site at = sim::here()) {
  sim::machine->mbarrier_arrive(mapped, 1, sim::in(at, __func__));
}

CATENARY_DEVICE void mbarrier_release_remote(u32 mapped, sim::Site at = sim::here()) {
  sim::machine->mbarrier_arrive(mapped, 1, sim::in(at, __func__));
}

CATENARY_DEVICE void mbarrier_expect_tx(u32 barrier, u32 bytes, sim::Site at = sim::here()) {
  sim::machine->mbarrier_expect(barrier, bytes, false, sim::in(at, __func__));
}

CATENARY_DEVICE void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes, sim::Site at = sim::here()) {
  sim::machine->mbarrier_expect(barrier, bytes, true, sim::in(at, __func__));
}

CATENARY_DEVICE bool mbarrier_try_wait(u32 barrier, u32 phase, sim::Site at = sim::here()) {
  return sim::machine->mbarrier_try_wait(barrier, phase, sim::in(at, __func__));
}

CATENARY_DEVICE void mbarrier_wait(u32 barrier, u32 phase, sim::Site at = sim::here()) {
  while (!sim::machine->mbarrier_try_wait(barrier, phase, sim::in(at, __func__))) {
  }
}

CATENARY_DEVICE bool mbarrier_try_wait_cluster(u32 barrier, u32 phase, sim::Site at = sim::here()) {
  return sim::machine->mbarrier_try_wait(barrier, phase, sim::in(at, __func__));
}

CATENARY_DEVICE void mbarrier_wait_cluster(u32 barrier, u32 phase, sim::Site at = sim::here()) {
  while (!sim::machine->mbarrier_try_wait(barrier, phase, sim::in(at, __func__))) {
  }
}

CATENARY_DEVICE void fence_mbarrier_init(sim::Site at = sim::here()) {
  sim::machine->fence_mbarrier_init(sim::in(at, __func__));
}

CATENARY_DEVICE void cp_async_mbarrier_arrive(u32 barrier, sim::Site at = sim::here()) {
  sim::machine->cp_async_arrive(barrier, sim::in(at, __func__));
}

}  // namespace catenary
