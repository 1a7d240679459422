// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/atomic.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE void red_add_f32(void* p, float v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v, site);
  sim::machine->reduce_global(p, &v, 1, sim::Number::kF32, false, site);
}

CATENARY_DEVICE void red_add_f32x2(void* p, float x, float y, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(x, site);
  sim::use(y, site);
  const float values[2] = {x, y};
  sim::machine->reduce_global(p, values, 2, sim::Number::kF32, false, site);
}

CATENARY_DEVICE void red_add_f32x4(void* p, float x, float y, float z, float w,
                                   sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(x, site);
  sim::use(y, site);
  sim::use(z, site);
  sim::use(w, site);
  const float values[4] = {x, y, z, w};
  sim::machine->reduce_global(p, values, 4, sim::Number::kF32, false, site);
}

CATENARY_DEVICE void red_add_bf16x2(void* p, u32 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v, site);
  sim::machine->reduce_global(p, &v, 2, sim::Number::kBF16, false, site);
}

CATENARY_DEVICE void red_add_f16x2(void* p, u32 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v, site);
  sim::machine->reduce_global(p, &v, 2, sim::Number::kF16, false, site);
}

CATENARY_DEVICE void red_release_add_u32(void* p, u32 v, sim::Site at = sim::here()) {
  sim::machine->reduce_global(p, &v, 1, sim::Number::kU32, true, sim::in(at, __func__));
}

CATENARY_DEVICE u32 atom_add_u32(void* p, u32 v, sim::Site at = sim::here()) {
  return sim::machine->atomic_add_global(p, v, sim::in(at, __func__));
}

CATENARY_DEVICE u32 ld_acquire_u32(const void* p, sim::Site at = sim::here()) {
  return sim::machine->load_acquire_global(p, sim::in(at, __func__));
}

CATENARY_DEVICE void st_release_u32(void* p, u32 v, sim::Site at = sim::here()) {
  sim::machine->store_release_global(p, v, sim::in(at, __func__));
}

CATENARY_DEVICE void fence_gpu(sim::Site at = sim::here()) {
  sim::machine->fence_gpu(sim::in(at, __func__));
}

CATENARY_DEVICE void fence_proxy_async_shared(sim::Site at = sim::here()) {
  sim::machine->fence_proxy_async(sim::in(at, __func__));
}

CATENARY_DEVICE void fence_proxy_async_global(sim::Site at = sim::here()) {
  sim::machine->fence_proxy_async(sim::in(at, __func__));
}

}  // namespace catenary
