// SPDX-License-Identifier: Apache-2.0
// Barriers and launch edges. PTX ISA 9.7.13 (barrier, griddepcontrol).
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// All threads of the CTA arrive; shared memory written before is visible after.
CATENARY_DEVICE void cta_barrier() { asm volatile("barrier.sync.aligned 0;" ::: "memory"); }

// All lanes of the warp arrive; shared memory written before is visible after.
CATENARY_DEVICE void warp_barrier() { asm volatile("bar.warp.sync 0xffffffff;" ::: "memory"); }

// Blocks until every kernel this launch depends on has completed and its memory is visible. Nothing
// that another kernel may write is read before it, and nothing at all is written. Without a
// programmatic launch edge, and before sm_90, it is no operation.
CATENARY_DEVICE void griddepcontrol_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets kernels that depend programmatically on this one be scheduled. Gives no visibility.
CATENARY_DEVICE void griddepcontrol_launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace catenary
