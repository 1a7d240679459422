// SPDX-License-Identifier: Apache-2.0
// ptx/cluster.cuh: clusters of four that read and write each other's shared memory.
#include "ptx/cluster.cuh"
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
constexpr u32 kBytes = 1536;  // of the output, per CTA
}  // namespace

// Each CTA reads the next CTA and writes into the one after that. The input: 512 bytes per CTA.
extern "C" __global__ void __launch_bounds__(32) cluster_exchange(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]) + 512 * blockIdx.x;
  u8* out = static_cast<u8*>(p.ptr[1]) + kBytes * blockIdx.x;
  const u32 smem = dynamic_smem();
  const u32 rank = cluster_rank();
  const u32 size = cluster_size();
  griddepcontrol_wait();
  const U32x4 v = ld_global_v4(in + 16 * t);
  st_shared_v4(smem + 16 * t, v);
  cluster_arrive();
  cluster_wait();
  const u32 next = map_shared(smem, (rank + 1) % size);
  st_global_v4(out + 16 * t, ld_cluster_v4(next + 16 * (31 - t)));
  st_global_u32(out + 512 + 4 * t, ld_cluster_u32(next + 16 * t));
  st_global_u32(out + 640 + 4 * t, f32_to_bits(ld_cluster_f32(next + 16 * t + 4)));
  const u32 second = map_shared(smem + 512, (rank + 2) % size);
  st_cluster_v4(second + 16 * t, {v.w, v.x, v.y, v.z});
  st_cluster_u32(second + 512 + 4 * t, v.x);
  st_cluster_f32(second + 640 + 4 * t, bits_to_f32(v.y));
  cluster_arrive();
  cluster_wait();
  st_global_v4(out + 768 + 16 * t, ld_shared_v4(smem + 512 + 16 * (31 - t)));
  st_global_u32(out + 1280 + 4 * t, ld_shared_u32(smem + 1024 + 4 * (31 - t)));
  st_global_u32(out + 1408 + 4 * t, ld_shared_u32(smem + 1152 + 4 * (31 - t)) + rank + 16 * size);
}

// Asynchronous stores to the next CTA. A CTA's mbarrier: one arrival of its own thread 0, and 28
// bytes from each of 32 threads.
extern "C" __global__ void __launch_bounds__(32) cluster_async(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]) + 512 * blockIdx.x;
  u8* out = static_cast<u8*>(p.ptr[1]) + 896 * blockIdx.x;
  const u32 smem = dynamic_smem();
  const u32 barrier = smem + 896;
  if (t == 0) {
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  griddepcontrol_wait();
  if (t == 0) mbarrier_arrive_expect_tx(barrier, 896);
  const u32 next = (cluster_rank() + 1) % cluster_size();
  const u32 to = map_shared(smem, next);
  const u32 barrier_at = map_shared(barrier, next);
  const U32x4 v = ld_global_v4(in + 16 * t);
  st_async_v4(to + 16 * t, v, barrier_at);
  st_async_v2(to + 512 + 8 * t, {v.y, v.x}, barrier_at);
  st_async_u32(to + 768 + 4 * t, v.z, barrier_at);
  mbarrier_wait_cluster(barrier, 0);
  st_global_v4(out + 16 * t, ld_shared_v4(smem + 16 * (31 - t)));
  st_global_v2(out + 512 + 8 * t, ld_shared_v2(smem + 512 + 8 * (31 - t)));
  st_global_u32(out + 768 + 4 * t, ld_shared_u32(smem + 768 + 4 * (31 - t)));
  // No CTA may exit while stores to it are in flight.
  cluster_arrive_relaxed();
  cluster_wait();
}
