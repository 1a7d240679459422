// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/math.cuh. Approximate functions are rounded from f64: well inside their bounds
// and the same on every host. Subnormal inputs and results are flushed to zero with their sign.
#pragma once

#include "ptx/device.cuh"

namespace catenary {
namespace sim {

inline float flush(float v) { return __builtin_fabsf(v) < 0x1p-126f ? v * 0.0f : v; }

}  // namespace sim

CATENARY_DEVICE float ex2_approx(float x, sim::Site at = sim::here()) {
  sim::use(x, sim::in(at, __func__));
  const double exact = __builtin_exp2(static_cast<double>(sim::flush(x)));
  return sim::canonical(sim::flush(static_cast<float>(exact)));
}

CATENARY_DEVICE float rcp_approx(float x, sim::Site at = sim::here()) {
  sim::use(x, sim::in(at, __func__));
  return sim::canonical(sim::flush(1.0f / sim::flush(x)));
}

CATENARY_DEVICE float lg2_approx(float x, sim::Site at = sim::here()) {
  sim::use(x, sim::in(at, __func__));
  const double exact = __builtin_log2(static_cast<double>(sim::flush(x)));
  return sim::canonical(static_cast<float>(exact));
}

CATENARY_DEVICE float rsqrt_approx(float x, sim::Site at = sim::here()) {
  sim::use(x, sim::in(at, __func__));
  return sim::canonical(static_cast<float>(1 / __builtin_sqrt(static_cast<double>(x))));
}

CATENARY_DEVICE float sqrt_rn(float x, sim::Site at = sim::here()) {
  sim::use(x, sim::in(at, __func__));
  return sim::canonical(__builtin_sqrtf(x));
}

CATENARY_DEVICE float rcp_rn(float x, sim::Site at = sim::here()) {
  sim::use(x, sim::in(at, __func__));
  return sim::canonical(1.0f / x);
}

CATENARY_DEVICE float add_rn(float a, float b, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  return sim::canonical(a + b);
}

CATENARY_DEVICE float sub_rn(float a, float b, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  return sim::canonical(a - b);
}

CATENARY_DEVICE float mul_rn(float a, float b, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  return sim::canonical(a * b);
}

CATENARY_DEVICE float fma_rn(float a, float b, float c, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  sim::use(c, sim::in(at, __func__));
  return sim::canonical(__builtin_fmaf(a, b, c));
}

namespace sim {

// -0 is less than +0 (PTX ISA 9.7.3, min).
inline bool less(float a, float b) {
  return a < b || (a == b && __builtin_signbit(a) && !__builtin_signbit(b));
}

}  // namespace sim

CATENARY_DEVICE float min_number(float a, float b, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  if (a != a) return sim::canonical(b);
  return sim::less(b, a) ? b : a;
}

CATENARY_DEVICE float abs_f32(float a, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  return __builtin_fabsf(a);
}

CATENARY_DEVICE float neg_f32(float a, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  return -a;
}

CATENARY_DEVICE float min_nan(float a, float b, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  if (a != a || b != b) return sim::canonical(a + b);
  return sim::less(b, a) ? b : a;
}

CATENARY_DEVICE float max_nan(float a, float b, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  if (a != a || b != b) return sim::canonical(a + b);
  return sim::less(a, b) ? b : a;
}

}  // namespace catenary
