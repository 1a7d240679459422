// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/sync.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE void cta_barrier(sim::Site at = sim::here()) {
  sim::machine->barrier(0, 0, true, sim::in(at, __func__));
}

CATENARY_DEVICE void warp_barrier(sim::Site at = sim::here()) {
  sim::machine->warp_barrier(0xffffffffu, sim::in(at, __func__));
}

CATENARY_DEVICE void griddepcontrol_wait(sim::Site at = sim::here()) {
  sim::machine->griddepcontrol_wait(sim::in(at, __func__));
}

CATENARY_DEVICE void griddepcontrol_launch_dependents(sim::Site at = sim::here()) {
  sim::machine->griddepcontrol_launch_dependents(sim::in(at, __func__));
}

}  // namespace catenary
