// SPDX-License-Identifier: Apache-2.0
// One functor per elementwise row of ir/ops.def, f32 in, f32 out, and map(), which applies one to
// vectors. Error bounds are in ops.def; the derivation stands with each functor. u = 2^-24.
#pragma once

#include "epilogue/vec.cuh"
#include "ptx/math.cuh"

namespace catenary {

inline constexpr float kLog2E = 1.4426950408889634f;

// exp(x) = 2^(x log2 e), the product split in two so that its rounding (|x| u, up to 88 u) does not
// reach the exponent: high part exact to f32, low part by fma. Error: ex2.approx 4u + 2u.
CATENARY_DEVICE float exp_split(float x) {
  constexpr float kLow = 1.925963033500e-8f;  // log2 e - f32(log2 e)
  const float high = mul_rn(x, kLog2E);
  const float low = fma_rn(x, kLog2E, -high) + x * kLow;
  // An infinite x makes `low` NaN; its exponent is decided by `high` alone.
  const float scaled = ex2_approx(high);
  return scaled == 0.0f || high > 128.0f ? scaled : fma_rn(scaled, low * 0.6931471805599453f, scaled);
}

// 1 / (1 + exp(-x)); exp error 6u, add u, rcp 2u.
CATENARY_DEVICE float sigmoid_f32(float x) { return rcp_approx(1.0f + exp_split(-x)); }

struct op_add {
  static CATENARY_DEVICE float apply(float a, float b) { return add_rn(a, b); }
};
struct op_sub {
  static CATENARY_DEVICE float apply(float a, float b) { return sub_rn(a, b); }
};
struct op_mul {
  static CATENARY_DEVICE float apply(float a, float b) { return mul_rn(a, b); }
};
struct op_div {
  static CATENARY_DEVICE float apply(float a, float b) { return div_rn(a, b); }
};
struct op_min {
  static CATENARY_DEVICE float apply(float a, float b) { return min_nan(a, b); }
};
struct op_max {
  static CATENARY_DEVICE float apply(float a, float b) { return max_nan(a, b); }
};
struct op_scale {
  static CATENARY_DEVICE float apply(float a, float factor) { return mul_rn(a, factor); }
};
struct op_neg {
  static CATENARY_DEVICE float apply(float x) { return -x; }
};
struct op_clamp {
  static CATENARY_DEVICE float apply(float x, float lo, float hi) {
    return min_nan(max_nan(x, lo), hi);
  }
};
struct op_relu {
  static CATENARY_DEVICE float apply(float x) { return max_nan(x, 0.0f); }
};
struct op_relu2 {
  static CATENARY_DEVICE float apply(float x) {
    const float r = max_nan(x, 0.0f);
    return mul_rn(r, r);
  }
};
struct op_leaky_relu {
  static CATENARY_DEVICE float apply(float x, float slope) { return x < 0.0f ? mul_rn(x, slope) : x; }
};

// 0.5 x erfc(-x / sqrt 2). erfc(z) for z >= 0 as t exp(-z^2 + P(t)), t = 1 / (1 + z/2): the rational
// Chebyshev fit of Numerical Recipes (2nd ed., 6.2, erfcc), fractional error below 1.2e-7 everywhere,
// so the left tail keeps its relative accuracy. z^2 reaches exp with its rounding error by fma.
struct op_gelu {
  static CATENARY_DEVICE float apply(float x) {
    const float z = (x < 0.0f ? -x : x) * 0.7071067811865476f;
    const float t = rcp_approx(fma_rn(0.5f, z, 1.0f));
    float p = 0.17087277f;
    p = fma_rn(p, t, -0.82215223f);
    p = fma_rn(p, t, 1.48851587f);
    p = fma_rn(p, t, -1.13520398f);
    p = fma_rn(p, t, 0.27886807f);
    p = fma_rn(p, t, -0.18628806f);
    p = fma_rn(p, t, 0.09678418f);
    p = fma_rn(p, t, 0.37409196f);
    p = fma_rn(p, t, 1.00002368f);
    p = fma_rn(p, t, -1.26551223f);
    const float half_square = 0.5f * x;
    const float e = ex2_approx(kLog2E * fma_rn(-half_square, x, p));
    const float tail = 0.5f * t * e;  // 0.5 erfc(|x| / sqrt 2)
    const float gate = x < 0.0f ? tail : 1.0f - tail;
    return x == -__int_as_float(0x7f800000) ? -0.0f : x * gate;
  }
};

// x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): 0.5 (1 + tanh u) is sigmoid(2u), exact in the
// tail where 1 + tanh cancels.
struct op_gelu_tanh {
  static CATENARY_DEVICE float apply(float x) {
    const float cubic = fma_rn(0.044715f * x * x, x, x);
    const float gate = sigmoid_f32(1.5957691216057308f * cubic);
    return x == -__int_as_float(0x7f800000) ? -0.0f : x * gate;
  }
};
struct op_quick_gelu {
  static CATENARY_DEVICE float apply(float x) {
    const float gate = sigmoid_f32(1.702f * x);
    return x == -__int_as_float(0x7f800000) ? -0.0f : x * gate;
  }
};
struct op_silu {
  static CATENARY_DEVICE float apply(float x) {
    const float gate = sigmoid_f32(x);
    return x == -__int_as_float(0x7f800000) ? -0.0f : x * gate;
  }
};
struct op_sigmoid {
  static CATENARY_DEVICE float apply(float x) { return sigmoid_f32(x); }
};

// Small |x|: x + x^3 P(x^2), the odd series to x^9 (truncation below 1.3e-7 relative at 0.35); else
// 1 - 2 / (1 + exp(2|x|)) with the sign put back: at 0.35 the subtraction costs a factor 5.
struct op_tanh {
  static CATENARY_DEVICE float apply(float x) {
    const float a = x < 0.0f ? -x : x;
    const float s = x * x;
    float p = 0.021869488536155203f;
    p = fma_rn(p, s, -0.05396825396825397f);
    p = fma_rn(p, s, 0.13333333333333333f);
    p = fma_rn(p, s, -0.3333333333333333f);
    const float small = fma_rn(p * s, x, x);
    const float large = fma_rn(-2.0f, rcp_approx(1.0f + exp_split(a + a)), 1.0f);
    return a < 0.25f ? small : (x < 0.0f ? -large : large);
  }
};

// log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)). log1p(e) by lg2 of 1 + e, corrected for the
// rounding of the sum; below 2^-12 by its series.
struct op_softplus {
  static CATENARY_DEVICE float apply(float x) {
    const float a = x < 0.0f ? -x : x;
    const float e = exp_split(-a);
    const float s = 1.0f + e;
    const float lost = e - (s - 1.0f);
    const float log1p =
        e < 0.00390625f ? e * fma_rn(e, fma_rn(e, 0.3333333333f, -0.5f), 1.0f)
                        : fma_rn(lg2_approx(s), 0.6931471805599453f, lost * rcp_approx(s));
    return max_nan(x, 0.0f) + log1p;
  }
};
struct op_exp {
  static CATENARY_DEVICE float apply(float x) { return exp_split(x); }
};

template <int V>
CATENARY_DEVICE float element(const Vec<V>& a, int i) {
  return a.v[i];
}
CATENARY_DEVICE float element(float a, int) { return a; }

// F applied to each of V elements; arguments are vectors, or floats that stand for all elements.
template <int V, class F, class... Args>
CATENARY_DEVICE Vec<V> map(const Args&... args) {
  Vec<V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.v[i] = F::apply(element(args, i)...);
  return out;
}

// The same float in all elements.
template <int V>
CATENARY_DEVICE Vec<V> splat(float value) {
  Vec<V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.v[i] = value;
  return out;
}

// Rounded to kDType and back to f32: a cast that stands in the IR.
template <DType kDType, int V>
CATENARY_DEVICE Vec<V> round_to(const Vec<V>& in) {
  if constexpr (kDType == DType::kF32) return in;
  Vec<V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    if constexpr (kDType == DType::kBF16) out.v[i] = bf16_to_f32(f32_to_bf16(in.v[i]));
    if constexpr (kDType == DType::kF16) out.v[i] = f16_to_f32(f32_to_f16(in.v[i]));
  }
  return out;
}

}  // namespace catenary
