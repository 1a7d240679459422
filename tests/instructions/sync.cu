// SPDX-License-Identifier: Apache-2.0
// ptx/sync.cuh: values exchanged within a warp and across warps, in several launches with PDL. Each
// launch adds to the result of the previous one.
#include "ptx/global.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
}  // namespace

extern "C" __global__ void __launch_bounds__(96) sync_launches(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]) + 384 * blockIdx.x;
  u8* out = static_cast<u8*>(p.ptr[1]) + 384 * blockIdx.x;
  const u32 smem = dynamic_smem();
  griddepcontrol_launch_dependents();
  griddepcontrol_wait();
  u32 v = ld_global_u32(in + 4 * t);
  st_shared_u32(smem + 4 * t, v);
  warp_barrier();
  v += 2 * ld_shared_u32(smem + 4 * (t ^ 1));
  cta_barrier();
  st_shared_u32(smem + 4 * t, v);
  cta_barrier();
  v += 3 * ld_shared_u32(smem + 4 * (95 - t));
  st_global_u32(out + 4 * t, 5 * ld_global_u32(out + 4 * t) + v);
}
