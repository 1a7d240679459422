// SPDX-License-Identifier: Apache-2.0
// cp.async of sm_80: global -> shared memory. PTX ISA 9.7.9.25: `valid` bytes are read, the rest of
// the destination is filled with zeros; with valid == 0 the source is not accessed. Groups complete
// in order. A thread's wait covers its own copies only: a barrier must follow before other threads
// read them.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE void cp_async_16(u32 to, const void* from, u32 valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(valid)
               : "memory");
}

CATENARY_DEVICE void cp_async_8(u32 to, const void* from, u32 valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}

CATENARY_DEVICE void cp_async_4(u32 to, const void* from, u32 valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(valid)
               : "memory");
}

CATENARY_DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// At most kPending of the thread's groups are still in flight afterwards.
template <int kPending>
CATENARY_DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace catenary
