// SPDX-License-Identifier: Apache-2.0
// ptx/convert.cuh: every conversion of a list of bit patterns, one section of words each.
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
constexpr u32 kValues = 1024;
}  // namespace

extern "C" __global__ void __launch_bounds__(256) convert_values(const __grid_constant__ P p) {
  const u32 t = blockIdx.x * 256 + threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  const u32 bits = ld_global_u32(in + 4 * t);
  const float x = bits_to_f32(bits);
  const float y = bits_to_f32(ld_global_u32(in + 4 * (kValues - 1 - t)));
  const u16 half = static_cast<u16>(bits >> 16);
  const u32 words[] = {f32_to_f16(x),
                       f32_to_bf16(x),
                       f32_to_f16x2(x, y),
                       f32_to_bf16x2(x, y),
                       f32_to_tf32(bits),
                       f32_to_bits(f16_to_f32(half)),
                       f32_to_bits(bf16_to_f32(half)),
                       f32_to_e4m3x2(x, y),
                       f32_to_e5m2x2(x, y),
                       e4m3x2_to_f16x2(half),
                       e5m2x2_to_f16x2(half)};
#pragma unroll
  for (int i = 0; i < 11; ++i) st_global_u32(out + 4 * (i * kValues + t), words[i]);
}
