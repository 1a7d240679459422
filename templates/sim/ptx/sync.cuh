// SPDX-License-Identifier: Apache-2.0
// Twins of ptx/sync.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE void cta_barrier(sim::Site at = sim::here()) {
  sim::machine->barrier(0, 0, true, sim::in(at, __func__));
}

CATENARY_DEVICE void warp_barrier(sim::Site at = sim::here()) {
  sim::machine->warp_barrier(0xffffffffu, sim::in(at, __func__));
}

CATENARY_DEVICE void grid_dependency_wait(sim::Site at = sim::here()) {
  sim::machine->dependency_wait(sim::in(at, __func__));
}

CATENARY_DEVICE void grid_dependency_launch(sim::Site at = sim::here()) {
  sim::machine->dependency_launch(sim::in(at, __func__));
}

}  // namespace catenary
