// SPDX-License-Identifier: Apache-2.0
// ptx/half2.cuh, ptx/bits.cuh: every function on a list of pairs, one section of words each.
#include "ptx/bits.cuh"
#include "ptx/global.cuh"
#include "ptx/half2.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
constexpr u32 kValues = 1024;
}  // namespace

// In: words of bf16 and their subtrahends, then of f16, a section each. Products of the same.
extern "C" __global__ void __launch_bounds__(256) half2_pairs(const __grid_constant__ P p) {
  const u32 t = blockIdx.x * 256 + threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  u32 difference = sub_bf16x2(ld_global_u32(in + 4 * t), ld_global_u32(in + 4 * (kValues + t)));
  renew(difference);
  st_global_u32(out + 4 * t, difference);
  st_global_u32(out + 4 * (kValues + t), sub_f16x2(ld_global_u32(in + 4 * (2 * kValues + t)),
                                                   ld_global_u32(in + 4 * (3 * kValues + t))));
  st_global_u32(out + 4 * (2 * kValues + t),
                and_xor(ld_global_u32(in + 4 * t), ld_global_u32(in + 4 * (kValues + t)),
                        ld_global_u32(in + 4 * (2 * kValues + t))));
  st_global_u32(out + 4 * (3 * kValues + t),
                mul_bf16x2(ld_global_u32(in + 4 * t), ld_global_u32(in + 4 * (kValues + t))));
  st_global_u32(out + 4 * (4 * kValues + t), mul_f16x2(ld_global_u32(in + 4 * (2 * kValues + t)),
                                                       ld_global_u32(in + 4 * (3 * kValues + t))));
}
