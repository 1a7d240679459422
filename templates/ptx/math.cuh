// SPDX-License-Identifier: Apache-2.0
// f32 arithmetic, approximate functions, min and max. PTX ISA 9.7.3: ex2.approx.ftz has a relative
// error below 2^-22, rcp.approx.ftz below 1 ulp, lg2.approx.ftz an absolute error below 2^-22 in
// (0.5, 2), else a relative one below 2^-22 (measured: RESULTS hw-33), rsqrt.approx a relative
// error below 2^-22.9. sqrt.rn and rcp.rn round correctly. `.NaN` min and max return NaN if either
// operand is NaN, as the reference does.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE float ex2_approx(float x) {
  float v;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}

CATENARY_DEVICE float rcp_approx(float x) {
  float v;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}

CATENARY_DEVICE float lg2_approx(float x) {
  float v;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}

// Without .ftz: subnormal operands are not 0. rsqrt of -0 is -inf, of other negative numbers NaN.
CATENARY_DEVICE float rsqrt_approx(float x) {
  float v;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}

CATENARY_DEVICE float sqrt_rn(float x) {
  float v;
  asm("sqrt.rn.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}

CATENARY_DEVICE float rcp_rn(float x) {
  float v;
  asm("rcp.rn.f32 %0, %1;" : "=f"(v) : "f"(x));
  return v;
}

// The explicit .rn forbids ptxas to contract a multiplication and an addition to fma: fused and
// unfused plans of a chain round identically.
CATENARY_DEVICE float add_rn(float a, float b) {
  float v;
  asm("add.rn.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}

CATENARY_DEVICE float sub_rn(float a, float b) {
  float v;
  asm("sub.rn.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}

CATENARY_DEVICE float mul_rn(float a, float b) {
  float v;
  asm("mul.rn.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}

CATENARY_DEVICE float fma_rn(float a, float b, float c) {
  float v;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(v) : "f"(a), "f"(b), "f"(c));
  return v;
}

// The other operand where one is NaN.
CATENARY_DEVICE float min_number(float a, float b) {
  float v;
  asm("min.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}

CATENARY_DEVICE float abs_f32(float a) {
  float v;
  asm("abs.f32 %0, %1;" : "=f"(v) : "f"(a));
  return v;
}

// NVVM folds -(a < b ? 1 : 0) to a selection of -1 and -0, for which ptxas 13.0 forms an integer
// that has no -0. It does not see through this.
CATENARY_DEVICE float neg_f32(float a) {
  float v;
  asm("neg.f32 %0, %1;" : "=f"(v) : "f"(a));
  return v;
}

CATENARY_DEVICE float min_nan(float a, float b) {
  float v;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}

CATENARY_DEVICE float max_nan(float a, float b) {
  float v;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(v) : "f"(a), "f"(b));
  return v;
}

}  // namespace catenary
