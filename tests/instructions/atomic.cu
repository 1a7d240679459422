// SPDX-License-Identifier: Apache-2.0
// ptx/atomic.cuh: reductions in no fixed order, synchronisation of CTAs through global memory, and
// the fences between threads and the async proxy.
#include "ptx/atomic.cuh"
#include "ptx/bulk.cuh"
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
using P3 = Params<3, 0>;
}  // namespace

// Sections of the output, 64 threads wide: f32, pairs, fours, bf16 pairs, f16 pairs. The input: the
// words that every CTA adds, in the same sections.
extern "C" __global__ void __launch_bounds__(64) atomic_sums(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  red_add_f32(out + 4 * t, bits_to_f32(ld_global_u32(in + 4 * t)));
  const U32x2 two = ld_global_v2(in + 256 + 8 * t);
  red_add_f32x2(out + 256 + 8 * t, bits_to_f32(two.x), bits_to_f32(two.y));
  const U32x4 four = ld_global_v4(in + 768 + 16 * t);
  red_add_f32x4(out + 768 + 16 * t, bits_to_f32(four.x), bits_to_f32(four.y), bits_to_f32(four.z),
                bits_to_f32(four.w));
  red_add_bf16x2(out + 1792 + 4 * t, ld_global_u32(in + 1792 + 4 * t));
  red_add_f16x2(out + 2048 + 4 * t, ld_global_u32(in + 2048 + 4 * t));
}

// Every CTA stores a part in the workspace; the last one to arrive adds all parts. Workspace: the
// counter, then from byte 128 on the parts.
extern "C" __global__ void __launch_bounds__(32) atomic_last(const __grid_constant__ P3 p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* work = static_cast<u8*>(p.ptr[1]);
  u8* out = static_cast<u8*>(p.ptr[2]);
  const u32 smem = dynamic_smem();
  griddepcontrol_wait();
  const u32 offset = 4 * (32 * blockIdx.x + t);
  st_global_u32(work + 128 + offset, 3 * ld_global_u32(in + offset));
  fence_gpu();
  cta_barrier();
  if (t == 0) st_shared_u32(smem, atom_add_u32(work, 1));
  cta_barrier();
  if (ld_shared_u32(smem) + 1 != gridDim.x) return;
  fence_gpu();
  u32 sum = 0;
  for (u32 cta = 0; cta < gridDim.x; ++cta) {
    sum += ld_global_u32(work + 128 + 4 * (32 * cta + t));
  }
  st_global_u32(out + 4 * t, sum);
}

// CTA i continues after CTA i - 1, by a flag per CTA and by a count. Workspace: the count, then
// from byte 128 on the flags. The output: a running sum.
extern "C" __global__ void __launch_bounds__(32) atomic_flags(const __grid_constant__ P3 p) {
  const u32 t = threadIdx.x;
  const u32 cta = blockIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* work = static_cast<u8*>(p.ptr[1]);
  u8* out = static_cast<u8*>(p.ptr[2]);
  griddepcontrol_wait();
  u32 sum = ld_global_u32(in + 4 * (32 * cta + t));
  if (cta > 0) {
    if (t == 0) {
      while (ld_acquire_u32(work + 128 + 4 * (cta - 1)) == 0) {
      }
      while (ld_acquire_u32(work) < cta) {
      }
    }
    cta_barrier();
    sum += ld_global_u32(out + 4 * (32 * (cta - 1) + t));
  }
  st_global_u32(out + 4 * (32 * cta + t), sum);
  cta_barrier();
  if (t == 0) {
    red_release_add_u32(work, 1);
    st_release_u32(work + 128 + 4 * cta, 1);
  }
}

// A bulk load reads what threads wrote to global memory, a bulk store reads what they wrote to
// shared memory. 64 threads, 16 bytes each.
extern "C" __global__ void __launch_bounds__(64) atomic_proxies(const __grid_constant__ P3 p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* work = static_cast<u8*>(p.ptr[1]);
  u8* out = static_cast<u8*>(p.ptr[2]);
  const u32 smem = dynamic_smem();
  const u32 barrier = smem + 2048;
  if (t == 0) {
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
  }
  griddepcontrol_wait();
  st_global_v4(work + 16 * t, ld_global_v4(in + 16 * t));
  fence_proxy_async_global();
  cta_barrier();
  if (t == 0) {
    mbarrier_arrive_expect_tx(barrier, 1024);
    bulk_load(smem, work, 1024, barrier);
  }
  mbarrier_wait(barrier, 0);
  const U32x4 v = ld_shared_v4(smem + 16 * (63 - t));
  st_shared_v4(smem + 1024 + 16 * t, {v.w, v.z, v.y, v.x});
  fence_proxy_async_shared();
  cta_barrier();
  if (t == 0) {
    bulk_store(out, smem + 1024, 1024);
    bulk_commit();
    bulk_wait<0>();
  }
}
