// SPDX-License-Identifier: Apache-2.0
// ptx/math.cuh: functions with an exact result, and functions with an error bound.
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/math.cuh"
#include "ptx/sync.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<2, 0>;
constexpr u32 kValues = 1024;

CATENARY_DEVICE float load(const u8* in, u32 index) {
  return bits_to_f32(ld_global_u32(in + 4 * index));
}
CATENARY_DEVICE void store(u8* out, u32 index, float v) {
  st_global_u32(out + 4 * index, f32_to_bits(v));
}
}  // namespace

// The input: three lists of operands. The third has no NaN.
extern "C" __global__ void __launch_bounds__(256) math_exact(const __grid_constant__ P p) {
  const u32 t = blockIdx.x * 256 + threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  const float a = load(in, t);
  const float b = load(in, kValues + t);
  const float c = load(in, 2 * kValues + t);
  store(out, t, add_rn(a, b));
  store(out, kValues + t, sub_rn(a, b));
  store(out, 2 * kValues + t, mul_rn(a, b));
  store(out, 3 * kValues + t, neg_f32(c));
  store(out, 4 * kValues + t, fma_rn(a, b, c));
  store(out, 5 * kValues + t, min_number(a, b));
  store(out, 6 * kValues + t, min_nan(a, b));
  store(out, 7 * kValues + t, max_nan(a, b));
  store(out, 8 * kValues + t, abs_f32(c));
  store(out, 9 * kValues + t, sqrt_rn(a));
  store(out, 10 * kValues + t, rcp_rn(a));
}

// The input: a list for each function.
extern "C" __global__ void __launch_bounds__(256) math_approximate(const __grid_constant__ P p) {
  const u32 t = blockIdx.x * 256 + threadIdx.x;
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  u8* out = static_cast<u8*>(p.ptr[1]);
  griddepcontrol_wait();
  store(out, t, ex2_approx(load(in, t)));
  store(out, kValues + t, rcp_approx(load(in, kValues + t)));
  store(out, 2 * kValues + t, lg2_approx(load(in, 2 * kValues + t)));
  store(out, 3 * kValues + t, rsqrt_approx(load(in, 3 * kValues + t)));
}
