// SPDX-License-Identifier: Apache-2.0
// ptx/cp_async.cuh: copies with every number of valid bytes, in two groups. Where no byte is valid,
// the source may be outside the input (symbol).
#include "ptx/cp_async.cuh"
#include "ptx/global.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
}  // namespace

extern "C" __global__ void __launch_bounds__(64) cp_async_zero_fill(const __grid_constant__ P p) {
  const u32 t = threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  const u32 smem = dynamic_smem();
  cp_async_16(smem + 16 * t, in + 16 * t + (t % 17 == 0 ? p.symbol : 0), t % 17);
  cp_async_commit();
  cp_async_8(smem + 1024 + 8 * t, in + 8 * t + (t % 9 == 0 ? p.symbol : 0), t % 9);
  cp_async_4(smem + 1536 + 4 * t, in + 4 * t + (t % 5 == 0 ? p.symbol : 0), t % 5);
  cp_async_commit();
  cp_async_wait<1>();
  cta_barrier();
  const u32 o = 63 - t;
  st_global_v4(out + 16 * o, ld_shared_v4(smem + 16 * o));
  cp_async_wait<0>();
  cta_barrier();
  st_global_v2(out + 1024 + 8 * o, ld_shared_v2(smem + 1024 + 8 * o));
  st_global_u32(out + 1536 + 4 * o, ld_shared_u32(smem + 1536 + 4 * o));
}
