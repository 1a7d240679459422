// SPDX-License-Identifier: Apache-2.0
// Reductions and synchronising accesses in global memory, and fences. PTX ISA 9.7.13 (red, atom,
// fence), 9.7.9 (ld.acquire, st.release). Per thread.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// *p += v, each element atomically (relaxed, gpu scope), in no fixed order. p is aligned to the
// size of v. Vectors and bf16: sm_90. 16-bit sums are rounded to nearest even, subnormals are kept.
CATENARY_DEVICE void red_add_f32(void* p, float v) {
  asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(p), "f"(v) : "memory");
}

CATENARY_DEVICE void red_add_f32x2(void* p, float x, float y) {
  asm volatile("red.relaxed.gpu.global.add.v2.f32 [%0], {%1, %2};" ::"l"(p), "f"(x), "f"(y)
               : "memory");
}

CATENARY_DEVICE void red_add_f32x4(void* p, float x, float y, float z, float w) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(x), "f"(y),
               "f"(z), "f"(w)
               : "memory");
}

CATENARY_DEVICE void red_add_bf16x2(void* p, u32 v) {
  asm volatile("red.relaxed.gpu.global.add.noftz.bf16x2 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

CATENARY_DEVICE void red_add_f16x2(void* p, u32 v) {
  asm volatile("red.relaxed.gpu.global.add.noftz.f16x2 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// *p += v (release, gpu scope).
CATENARY_DEVICE void red_release_add_u32(void* p, u32 v) {
  asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// *p += v; returns the old value (acq_rel, gpu scope).
CATENARY_DEVICE u32 atom_add_u32(void* p, u32 v) {
  u32 before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(p), "r"(v)
               : "memory");
  return before;
}

CATENARY_DEVICE u32 ld_acquire_u32(const void* p) {
  u32 v;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}

CATENARY_DEVICE void st_release_u32(void* p, u32 v) {
  asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// Orders this thread's memory accesses before and after it (gpu scope).
CATENARY_DEVICE void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// Shared memory that this thread wrote (st.shared, stmatrix, completed cp.async) becomes visible to
// the async proxy: to wgmma, bulk and TMA operations issued by this thread or after a barrier.
// sm_90.
CATENARY_DEVICE void fence_proxy_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// The same for global memory that bulk and TMA loads of this launch read. sm_90.
CATENARY_DEVICE void fence_proxy_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

}  // namespace catenary
