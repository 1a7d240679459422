// SPDX-License-Identifier: Apache-2.0
// Every width of ptx/shared.cuh: each thread stores its elements, and loads those of the thread
// opposite.
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
constexpr u32 kThreads = 128;
constexpr u32 kSection = 2048;
}  // namespace

extern "C" __global__ void __launch_bounds__(128) shared_copies(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  const u32 smem = dynamic_smem();
  const U32x4 v = ld_global_v4(in + 16 * t);
  st_shared_u16(smem + 2 * t, static_cast<u16>(v.x));
  st_shared_u32(smem + kSection + 4 * t, v.x);
  st_shared_f32(smem + 2 * kSection + 4 * t, bits_to_f32(v.y));
  st_shared_f32x2(smem + 3 * kSection + 8 * t, bits_to_f32(v.z), bits_to_f32(v.w));
  st_shared_v2(smem + 4 * kSection + 8 * t, {v.x, v.z});
  st_shared_v4(smem + 5 * kSection + 16 * t, v);
  cta_barrier();
  const u32 o = kThreads - 1 - t;
  st_global_u16(out + 2 * t, ld_shared_u16(smem + 2 * o));
  st_global_u32(out + kSection + 4 * t, ld_shared_u32(smem + kSection + 4 * o));
  const float f = ld_shared_f32(smem + 2 * kSection + 4 * o);
  st_global_u32(out + 2 * kSection + 4 * t, f32_to_bits(f));
  st_global_v2(out + 3 * kSection + 8 * t, ld_shared_v2(smem + 3 * kSection + 8 * o));
  st_global_v2(out + 4 * kSection + 8 * t, ld_shared_v2(smem + 4 * kSection + 8 * o));
  st_global_v4(out + 5 * kSection + 16 * t, ld_shared_v4(smem + 5 * kSection + 16 * o));
}
