// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/cp_async.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE void cp_async_16(u32 to, const void* from, u32 valid, sim::Site at = sim::here()) {
  sim::machine->cp_async(to, from, 16, valid, sim::in(at, __func__));
}

CATENARY_DEVICE void cp_async_8(u32 to, const void* from, u32 valid, sim::Site at = sim::here()) {
  sim::machine->cp_async(to, from, 8, valid, sim::in(at, __func__));
}

CATENARY_DEVICE void cp_async_4(u32 to, const void* from, u32 valid, sim::Site at = sim::here()) {
  sim::machine->cp_async(to, from, 4, valid, sim::in(at, __func__));
}

CATENARY_DEVICE void cp_async_commit(sim::Site at = sim::here()) {
  sim::machine->cp_async_commit(sim::in(at, __func__));
}

template <int kPending>
CATENARY_DEVICE void cp_async_wait(sim::Site at = sim::here()) {
  sim::machine->cp_async_wait(kPending, sim::in(at, __func__));
}

}  // namespace catenary
