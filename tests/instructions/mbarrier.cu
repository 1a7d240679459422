// SPDX-License-Identifier: Apache-2.0
// ptx/mbarrier.cuh: a pipeline between warps, transactions and asynchronous arrivals, and arrivals
// from another CTA.
#include "ptx/bulk.cuh"
#include "ptx/cluster.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/global.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
constexpr u32 kStages = 2;
constexpr u32 kItems = 7;
}  // namespace

// Warp 0 writes a line of 32 words per item, warps 1 and 2 read it. full: the 32 writers arrive;
// phase 0 first. empty: warp 1 arrives twice, warp 2 once; the first wait, for phase 1, falls
// through.
extern "C" __global__ void __launch_bounds__(96) mbarrier_ring(const __grid_constant__ P p) {
  const u32 warp = threadIdx.x / 32;
  const u32 lane = threadIdx.x % 32;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  const u32 smem = dynamic_smem();
  const u32 full = smem + kStages * 128;
  const u32 empty = full + kStages * 8;
  if (threadIdx.x == 0) {
    for (u32 s = 0; s < kStages; ++s) {
      mbarrier_init(full + 8 * s, 32);
      mbarrier_init(empty + 8 * s, 3);
    }
  }
  cta_barrier();
  griddepcontrol_wait();
  for (u32 item = 0; item < kItems; ++item) {
    const u32 s = item % kStages;
    const u32 phase = item / kStages % 2;
    const u32 line = smem + 128 * s;
    if (warp == 0) {
      while (!mbarrier_try_wait(empty + 8 * s, phase ^ 1)) {
      }
      st_shared_u32(line + 4 * lane, ld_global_u32(in + 4 * (32 * item + lane)));
      mbarrier_arrive(full + 8 * s);
    } else {
      mbarrier_wait(full + 8 * s, phase);
      const u32 v = ld_shared_u32(line + 4 * (warp == 1 ? 31 - lane : (lane + 5) % 32));
      warp_barrier();
      if (lane == 0 && warp == 1) mbarrier_arrive_count(empty + 8 * s, 2);
      if (lane == 0 && warp == 2) mbarrier_arrive(empty + 8 * s);
      st_global_u32(out + 4 * (32 * (2 * item + warp - 1) + lane), v);
    }
  }
  cta_barrier();
  if (threadIdx.x == 0) {
    for (u32 s = 0; s < 2 * kStages; ++s) mbarrier_invalidate(full + 8 * s);
    st_shared_u32(full, 77);
  }
  cta_barrier();
  if (warp == 0) st_global_u32(out + 4 * (64 * kItems + lane), ld_shared_u32(full));
}

// Two phases of each mbarrier. `bytes`: one arrival, which expects 128 bytes more than the 256 that
// are already expected. `copies`: 32 arrivals, each when the thread's cp.async has completed.
extern "C" __global__ void __launch_bounds__(32) mbarrier_copies(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  const u32 smem = dynamic_smem();
  const u32 bytes = smem + 1024;
  const u32 copies = smem + 1032;
  if (t == 0) {
    mbarrier_init(bytes, 1);
    mbarrier_init(copies, 32);
    fence_mbarrier_init();
  }
  cta_barrier();
  griddepcontrol_wait();
  for (u32 phase = 0; phase < 2; ++phase) {
    const u8* from = in + 896 * phase;
    if (t == 0) {
      mbarrier_expect_tx(bytes, 256);
      bulk_load(smem, from, 256, bytes);
      mbarrier_arrive_expect_tx(bytes, 128);
      bulk_load(smem + 256, from + 256, 128, bytes);
    }
    cp_async_16(smem + 384 + 16 * t, from + 384 + 16 * t, 16);
    cp_async_mbarrier_arrive(copies);
    mbarrier_wait(bytes, phase);
    mbarrier_wait(copies, phase);
    for (u32 i = t; i < 56; i += 32) {
      st_global_v4(out + 896 * phase + 16 * i, ld_shared_v4(smem + 16 * (55 - i)));
    }
    // All threads arrive: the reads above precede the next phase's loads.
    cta_barrier();
  }
}

// A cluster of two. Each thread writes a word into the other CTA and arrives there: 32 remote
// arrivals per phase, phase 0, then 1.
extern "C" __global__ void __launch_bounds__(32) mbarrier_remote(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  const u32 smem = dynamic_smem();
  const u32 barrier = smem + 256;
  if (t == 0) {
    mbarrier_init(barrier, 32);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  griddepcontrol_wait();
  const u32 peer = cluster_rank() ^ 1;
  const u32 from = 4 * (64 * blockIdx.x + t);
  st_cluster_u32(map_shared(smem + 4 * t, peer), ld_global_u32(in + from));
  mbarrier_arrive_remote(map_shared(barrier, peer));
  mbarrier_wait_cluster(barrier, 0);
  st_global_u32(out + from, ld_shared_u32(smem + 4 * (31 - t)));
  // All threads have seen the end of the first phase before any arrives in the second.
  cluster_arrive_relaxed();
  cluster_wait();
  st_cluster_u32(map_shared(smem + 128 + 4 * t, peer), ld_global_u32(in + from + 128));
  mbarrier_arrive_remote(map_shared(barrier, peer));
  while (!mbarrier_try_wait_cluster(barrier, 1)) {
  }
  st_global_u32(out + from + 128, ld_shared_u32(smem + 128 + 4 * (31 - t)));
  cluster_arrive();
  cluster_wait();
}
