// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/global.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE u32 ld_global_u8(const void* p, sim::Site at = sim::here()) {
  u8 v;
  sim::machine->load_global(&v, p, 1, sim::Read::kPlain, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE u16 ld_global_u16(const void* p, sim::Site at = sim::here()) {
  u16 v;
  sim::machine->load_global(&v, p, 2, sim::Read::kPlain, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE u32 ld_global_u32(const void* p, sim::Site at = sim::here()) {
  u32 v;
  sim::machine->load_global(&v, p, 4, sim::Read::kPlain, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x2 ld_global_v2(const void* p, sim::Site at = sim::here()) {
  U32x2 v;
  sim::machine->load_global(&v, p, 8, sim::Read::kPlain, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x4 ld_global_v4(const void* p, sim::Site at = sim::here()) {
  U32x4 v;
  sim::machine->load_global(&v, p, 16, sim::Read::kPlain, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE u32 ld_global_constant_u8(const void* p, sim::Site at = sim::here()) {
  u8 v;
  sim::machine->load_global(&v, p, 1, sim::Read::kConstant, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE u16 ld_global_constant_u16(const void* p, sim::Site at = sim::here()) {
  u16 v;
  sim::machine->load_global(&v, p, 2, sim::Read::kConstant, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE u32 ld_global_constant_u32(const void* p, sim::Site at = sim::here()) {
  u32 v;
  sim::machine->load_global(&v, p, 4, sim::Read::kConstant, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x2 ld_global_constant_v2(const void* p, sim::Site at = sim::here()) {
  U32x2 v;
  sim::machine->load_global(&v, p, 8, sim::Read::kConstant, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x4 ld_global_constant_v4(const void* p, sim::Site at = sim::here()) {
  U32x4 v;
  sim::machine->load_global(&v, p, 16, sim::Read::kConstant, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x2 ld_global_streamed_v2(const void* p, sim::Site at = sim::here()) {
  U32x2 v;
  sim::machine->load_global(&v, p, 8, sim::Read::kPlain, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x4 ld_global_streamed_v4(const void* p, sim::Site at = sim::here()) {
  U32x4 v;
  sim::machine->load_global(&v, p, 16, sim::Read::kPlain, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x4 ld_global_weight_v4(const void* p, sim::Site at = sim::here()) {
  U32x4 v;
  sim::machine->load_global(&v, p, 16, sim::Read::kPlain, sim::in(at, __func__));
  return v;
}

// Nothing in the simulator but the check of the address.
CATENARY_DEVICE void prefetch_l2(const void* p, sim::Site at = sim::here()) {
  sim::machine->bulk_prefetch(p, 16, sim::in(at, __func__));
}

CATENARY_DEVICE void st_global_u8(void* p, u32 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v, site);
  const u8 byte = static_cast<u8>(v);
  sim::machine->store_global(p, &byte, 1, site);
}

CATENARY_DEVICE void st_global_u16(void* p, u16 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::machine->store_global(p, &v, 2, site);
}

CATENARY_DEVICE void st_global_u32(void* p, u32 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v, site);
  sim::machine->store_global(p, &v, 4, site);
}

CATENARY_DEVICE void st_global_v2(void* p, U32x2 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v.x, site);
  sim::use(v.y, site);
  sim::machine->store_global(p, &v, 8, site);
}

CATENARY_DEVICE void st_global_streamed_v4(void* p, U32x4 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v.x, site);
  sim::use(v.y, site);
  sim::use(v.z, site);
  sim::use(v.w, site);
  sim::machine->store_global(p, &v, 16, site);
}

CATENARY_DEVICE void st_global_v4(void* p, U32x4 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v.x, site);
  sim::use(v.y, site);
  sim::use(v.z, site);
  sim::use(v.w, site);
  sim::machine->store_global(p, &v, 16, site);
}

}  // namespace catenary
