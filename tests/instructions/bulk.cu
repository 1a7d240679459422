// SPDX-License-Identifier: Apache-2.0
// ptx/bulk.cuh: loads and stores of lines, reductions in global memory, and copies within a
// cluster.
#include "ptx/atomic.cuh"
#include "ptx/bulk.cuh"
#include "ptx/cluster.cuh"
#include "ptx/global.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
constexpr u32 kLine = 1024;
}  // namespace

// Two lines each way; the first line's buffer is overwritten while the second store may be in
// flight. full: one arrival, which expects both lines; phase 0.
extern "C" __global__ void __launch_bounds__(64) bulk_lines(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]) + 2 * kLine * blockIdx.x;
  u8* out = static_cast<u8*>(p.ptr[1]) + 3 * kLine * blockIdx.x;
  const u32 smem = dynamic_smem();
  const u32 full = smem + 2 * kLine;
  if (t == 0) {
    mbarrier_init(full, 1);
    fence_mbarrier_init();
  }
  cta_barrier();
  griddepcontrol_wait();
  if (t == 0) {
    bulk_prefetch_l2(in, 2 * kLine);
    mbarrier_arrive_expect_tx(full, 2 * kLine);
    bulk_load(smem, in, kLine, full, kEvictFirst);
    bulk_load(smem + kLine, in + kLine, kLine, full);
  }
  mbarrier_wait(full, 0);
  const U32x4 v = ld_shared_v4(smem + 16 * t);
  cta_barrier();
  st_shared_v4(smem + 16 * t, {v.x + 1, v.y + 2, v.z + 3, v.w + 4});
  fence_proxy_async_shared();
  cta_barrier();
  if (t == 0) {
    bulk_store(out, smem, kLine);
    bulk_commit();
    bulk_store(out + kLine, smem + kLine, kLine);
    bulk_commit();
    bulk_wait_read<1>();
  }
  cta_barrier();
  st_shared_v4(smem + 16 * t, {v.w, v.z, v.y, v.x});
  fence_proxy_async_shared();
  cta_barrier();
  if (t == 0) {
    bulk_store(out + 2 * kLine, smem, kLine);
    bulk_commit();
    bulk_wait<0>();
  }
}

// Every CTA adds 512 bytes of f32, 256 of bf16 and 256 of f16 to the output.
extern "C" __global__ void __launch_bounds__(64) bulk_sums(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  const u32 smem = dynamic_smem();
  griddepcontrol_wait();
  st_shared_v4(smem + 16 * t, ld_global_v4(in + kLine * blockIdx.x + 16 * t));
  fence_proxy_async_shared();
  cta_barrier();
  if (t == 0) {
    bulk_reduce_add_f32(out, smem, 512);
    bulk_reduce_add_bf16(out + 512, smem + 512, 256);
    bulk_reduce_add_f16(out + 768, smem + 768, 256);
    bulk_commit();
    bulk_wait<0>();
  }
}

// A cluster of two: each CTA loads a line for both, then copies its own line to the other CTA.
// lines: one arrival, two lines of bytes. given: one arrival, one line of bytes. Phase 0 each.
extern "C" __global__ void __launch_bounds__(64) bulk_cluster(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u32 rank = cluster_rank();
  const u8* in = static_cast<const u8*>(p.ptr[0]) + kLine * blockIdx.x;
  u8* out = static_cast<u8*>(p.ptr[1]) + 3 * kLine * blockIdx.x;
  const u32 smem = dynamic_smem();
  const u32 lines = smem + 3 * kLine;
  const u32 given = lines + 8;
  if (t == 0) {
    mbarrier_init(lines, 1);
    mbarrier_init(given, 1);
    fence_mbarrier_init();
  }
  cluster_arrive();
  cluster_wait();
  griddepcontrol_wait();
  if (t == 0) {
    mbarrier_arrive_expect_tx(lines, 2 * kLine);
    mbarrier_arrive_expect_tx(given, kLine);
    bulk_load_multicast(smem + kLine * rank, in, kLine, lines, 3);
    mbarrier_wait(lines, 0);
    bulk_copy_cluster(map_shared(smem + 2 * kLine, rank ^ 1), smem + kLine * rank, kLine,
                      map_shared(given, rank ^ 1));
  } else {
    mbarrier_wait(lines, 0);
  }
  mbarrier_wait_cluster(given, 0);
  for (u32 i = t; i < 192; i += 64) {
    st_global_v4(out + 16 * i, ld_shared_v4(smem + 16 * i));
  }
  cluster_arrive();
  cluster_wait();
}
