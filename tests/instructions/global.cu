// SPDX-License-Identifier: Apache-2.0
// Every width of ptx/global.cuh: each thread copies its elements of the input to one section of the
// output per pair of wrappers.
#include "ptx/global.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
constexpr u32 kSection = 2048;  // 128 threads, up to 16 bytes each
}  // namespace

extern "C" __global__ void __launch_bounds__(64) global_copies(const __grid_constant__ P p) {
  const u32 t = blockIdx.x * 64 + threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  prefetch_l2(in + 16 * t);
  griddepcontrol_wait();
  st_global_u16(out + 2 * t, ld_global_u16(in + 2 * t));
  st_global_u32(out + kSection + 4 * t, ld_global_u32(in + 4 * t));
  st_global_v2(out + 2 * kSection + 8 * t, ld_global_v2(in + 8 * t));
  st_global_v4(out + 3 * kSection + 16 * t, ld_global_v4(in + 16 * t));
  st_global_u16(out + 4 * kSection + 2 * t, ld_global_constant_u16(in + 2 * t));
  st_global_u32(out + 5 * kSection + 4 * t, ld_global_constant_u32(in + 4 * t));
  st_global_v2(out + 6 * kSection + 8 * t, ld_global_constant_v2(in + 8 * t));
  st_global_v4(out + 7 * kSection + 16 * t, ld_global_constant_v4(in + 16 * t));
  st_global_v2(out + 8 * kSection + 8 * t, ld_global_streamed_v2(in + 8 * t));
  st_global_streamed_v4(out + 9 * kSection + 16 * t, ld_global_streamed_v4(in + 16 * t));
  st_global_v4(out + 10 * kSection + 16 * t, ld_global_weight_v4(in + 16 * t));
  st_global_u16(out + 11 * kSection + 2 * t, static_cast<u16>(ld_global_u8(in + t)));
  st_global_u8(out + 12 * kSection + t, ld_global_constant_u8(in + t));
}
