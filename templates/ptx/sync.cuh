// SPDX-License-Identifier: Apache-2.0
// CTA and warp barriers, and programmatic dependent launch (PDL). PTX ISA 9.7.13 (barrier,
// griddepcontrol).
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// All threads of the CTA arrive; shared memory written before is visible after.
CATENARY_DEVICE void cta_barrier() { asm volatile("barrier.sync.aligned 0;" ::: "memory"); }

// All lanes of the warp arrive; shared memory written before is visible after.
CATENARY_DEVICE void warp_barrier() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// The dependency wait: blocks until the previous kernels have completed and their memory is
// visible. Before it a kernel reads nothing that another kernel may write, and writes nothing. A
// no-op without PDL; no instruction before sm_90.
CATENARY_DEVICE void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// The PDL trigger: dependent kernels may be scheduled. Gives no visibility of memory.
CATENARY_DEVICE void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace catenary
