// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/cluster.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE u32 cluster_rank(sim::Site = sim::here()) {
  return sim::machine->at.cta_in_cluster;
}

CATENARY_DEVICE u32 cluster_size(sim::Site = sim::here()) { return sim::machine->at.cluster_ctas; }

CATENARY_DEVICE u32 map_shared(u32 address, u32 rank, sim::Site at = sim::here()) {
  return sim::machine->map_shared(address, rank, sim::in(at, __func__));
}

CATENARY_DEVICE void cluster_arrive(sim::Site at = sim::here()) {
  sim::machine->cluster_arrive(true, sim::in(at, __func__));
}

CATENARY_DEVICE void cluster_arrive_relaxed(sim::Site at = sim::here()) {
  sim::machine->cluster_arrive(false, sim::in(at, __func__));
}

CATENARY_DEVICE void cluster_wait(sim::Site at = sim::here()) {
  sim::machine->cluster_wait(sim::in(at, __func__));
}

CATENARY_DEVICE float ld_cluster_f32(u32 mapped, sim::Site at = sim::here()) {
  float v;
  sim::machine->load_shared(&v, mapped, 4, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE u32 ld_cluster_u32(u32 mapped, sim::Site at = sim::here()) {
  u32 v;
  sim::machine->load_shared(&v, mapped, 4, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x4 ld_cluster_v4(u32 mapped, sim::Site at = sim::here()) {
  U32x4 v;
  sim::machine->load_shared(&v, mapped, 16, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE void st_cluster_f32(u32 mapped, float v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v, site);
  sim::machine->store_shared(mapped, &v, 4, site);
}

CATENARY_DEVICE void st_cluster_u32(u32 mapped, u32 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v, site);
  sim::machine->store_shared(mapped, &v, 4, site);
}

CATENARY_DEVICE void st_cluster_v4(u32 mapped, U32x4 v, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v.x, site);
  sim::use(v.y, site);
  sim::use(v.z, site);
  sim::use(v.w, site);
  sim::machine->store_shared(mapped, &v, 16, site);
}

CATENARY_DEVICE void st_async_u32(u32 mapped, u32 v, u32 barrier, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v, site);
  sim::machine->store_async(mapped, &v, 4, barrier, site);
}

CATENARY_DEVICE void st_async_v2(u32 mapped, U32x2 v, u32 barrier, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v.x, site);
  sim::use(v.y, site);
  sim::machine->store_async(mapped, &v, 8, barrier, site);
}

CATENARY_DEVICE void st_async_v4(u32 mapped, U32x4 v, u32 barrier, sim::Site at = sim::here()) {
  const sim::Site site = sim::in(at, __func__);
  sim::use(v.x, site);
  sim::use(v.y, site);
  sim::use(v.z, site);
  sim::use(v.w, site);
  sim::machine->store_async(mapped, &v, 16, barrier, site);
}

}  // namespace catenary
