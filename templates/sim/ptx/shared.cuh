// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/shared.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE u32 dynamic_smem(sim::Site = sim::here()) { return sim::machine->dynamic_smem(); }

CATENARY_DEVICE float ld_shared_f32(u32 address, sim::Site at = sim::here()) {
  float v;
  sim::machine->load_shared(&v, address, 4, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE u16 ld_shared_u16(u32 address, sim::Site at = sim::here()) {
  u16 v;
  sim::machine->load_shared(&v, address, 2, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE u32 ld_shared_u32(u32 address, sim::Site at = sim::here()) {
  u32 v;
  sim::machine->load_shared(&v, address, 4, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x2 ld_shared_v2(u32 address, sim::Site at = sim::here()) {
  U32x2 v;
  sim::machine->load_shared(&v, address, 8, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x4 ld_shared_v4(u32 address, sim::Site at = sim::here()) {
  U32x4 v;
  sim::machine->load_shared(&v, address, 16, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE void st_shared_u16(u32 address, u16 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::machine->store_shared(address, &v, 2, site);
}

CATENARY_DEVICE void st_shared_u32(u32 address, u32 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v, site);
  sim::machine->store_shared(address, &v, 4, site);
}

CATENARY_DEVICE void st_shared_f32(u32 address, float v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v, site);
  sim::machine->store_shared(address, &v, 4, site);
}

CATENARY_DEVICE void st_shared_f32x2(u32 address, float a, float b, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(a, site);
  sim::use(b, site);
  const float v[2] = {a, b};
  sim::machine->store_shared(address, v, 8, site);
}

CATENARY_DEVICE void st_shared_v2(u32 address, U32x2 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v.x, site);
  sim::use(v.y, site);
  sim::machine->store_shared(address, &v, 8, site);
}

CATENARY_DEVICE void st_shared_v4(u32 address, U32x4 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v.x, site);
  sim::use(v.y, site);
  sim::use(v.z, site);
  sim::use(v.w, site);
  sim::machine->store_shared(address, &v, 16, site);
}

}  // namespace catenary
