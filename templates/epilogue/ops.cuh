// SPDX-License-Identifier: Apache-2.0
// One functor per elementwise row of ir/ops.def (f32 in, f32 out), and map(), which applies one to
// vectors. Error bounds are in ops.def, their derivation is here; u = 2^-24. Every operation names
// its rounding, so that a functor gives the same bits in every kernel. Functors of mathematical
// functions, comparisons and select are in ops_math.cuh.
#pragma once

#include "epilogue/ops_math.cuh"
#include "epilogue/vec.cuh"
#include "ptx/convert.cuh"
#include "ptx/math.cuh"

namespace catenary {

inline constexpr float kLog2E = 1.4426950408889634f;

// exp(x) = 2^(x log2 e). The product is split into high and low part, so that its rounding error
// (|x| u, up to 88 u) does not reach the exponent. Error: ex2.approx 4u + 2u.
CATENARY_DEVICE float exp_split(float x) {
  constexpr float kLow = 1.925963033500e-8f;  // log2 e - f32(log2 e)
  const float high = mul_rn(x, kLog2E);
  const float low = fma_rn(x, kLow, fma_rn(x, kLog2E, -high));
  // An infinite x makes `low` NaN; then only `high` decides the result.
  const float scaled = ex2_approx(high);
  const float step = mul_rn(low, 0.6931471805599453f);
  return scaled == 0.0f || high > 128.0f ? scaled : fma_rn(scaled, step, scaled);
}

// 1 / (1 + exp(-x)) in four instructions. Errors: rounding of the exponent |x| u where exp(-x)
// matters, up to 88 u before the result underflows; ex2 4u, add u, rcp 2u.
CATENARY_DEVICE float sigmoid_f32(float x) {
  return rcp_approx(add_rn(1.0f, ex2_approx(mul_rn(x, -kLog2E))));
}

// x / (1 + 2^exponent). x is clamped to finite numbers from below, so that -inf gives -0.
CATENARY_DEVICE float gate(float x, float exponent) {
  return mul_rn(max_nan(x, -3.4028235e38f), rcp_approx(add_rn(1.0f, ex2_approx(exponent))));
}

struct op_add {
  static CATENARY_DEVICE float apply(float a, float b) { return add_rn(a, b); }
};
struct op_sub {
  static CATENARY_DEVICE float apply(float a, float b) { return sub_rn(a, b); }
};
struct op_mul {
  static CATENARY_DEVICE float apply(float a, float b) { return mul_rn(a, b); }
};
// a (1 / b). The scale is a power of 2 that keeps 1 / b normal; a product with it that is not exact
// gives 0 or an infinity, as a / b does. One divisor of several elements is inverted once. Errors:
// rcp 2u, mul u.
struct op_div {
  static CATENARY_DEVICE float apply(float a, float b) {
    const float size = abs_f32(b);
    const float scale = size > 0x1p125f ? 0x1p-24f : size < 0x1p-102f ? 0x1p24f : 1.0f;
    return mul_rn(mul_rn(a, scale), rcp_approx(mul_rn(b, scale)));
  }
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
  static CATENARY_DEVICE float apply(float x) { return neg_f32(x); }
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
  static CATENARY_DEVICE float apply(float x, float slope) {
    return x < 0.0f ? mul_rn(x, slope) : x;
  }
};

// 0.5 x erfc(-x / sqrt 2) = max(x, 0) - |x| T(|x|), T(a) = 0.5 erfc(a / sqrt 2), accurate relative
// to the result in the left tail. T(a) = t 2^(P(t) - a^2 log2(e) / 2), t = 1 / (1 + 0.44 a). P is a
// minimax polynomial of degree 6 over a in [0, 13.5], error 35 u; rounding of the exponent adds
// a^2/2 u, up to 150 u where results underflow. |x| is clamped to 40, where T is 0. A sum of -0 and
// -0 keeps the sign of a negative result that underflows.
struct op_gelu {
  static CATENARY_DEVICE float apply(float x) {
    const float a = min_number(abs_f32(x), 40.0f);
    const float t = rcp_approx(fma_rn(0.44f, a, 1.0f));
    float p = -0.301351934671402f;
    p = fma_rn(p, t, 1.21211576461792f);
    p = fma_rn(p, t, -1.648262619972229f);
    p = fma_rn(p, t, 0.4740428328514099f);
    p = fma_rn(p, t, 0.3172321915626526f);
    p = fma_rn(p, t, 1.4570448398590088f);
    p = fma_rn(p, t, -2.510824203491211f);
    const float tail = mul_rn(t, ex2_approx(fma_rn(mul_rn(-0.7213475204444817f, a), a, p)));
    return fma_rn(-a, tail, max_nan(x, -0.0f));
  }
};

// x sigmoid(2v), v = sqrt(2/pi) (x + 0.044715 x^3): 0.5 (1 + tanh v) is sigmoid(2v), which does not
// cancel in the tail as 1 + tanh does. The exponent is -2v log2(e).
struct op_gelu_tanh {
  static CATENARY_DEVICE float apply(float x) {
    return gate(x, mul_rn(x, fma_rn(mul_rn(-0.10294324f, x), x, -2.3022082f)));
  }
};
struct op_quick_gelu {
  static CATENARY_DEVICE float apply(float x) { return gate(x, mul_rn(-1.702f * kLog2E, x)); }
};
// The exponent is that of op_sigmoid: where a gradient needs both, they share their instructions.
struct op_silu {
  static CATENARY_DEVICE float apply(float x) { return gate(x, mul_rn(x, -kLog2E)); }
};
struct op_sigmoid {
  static CATENARY_DEVICE float apply(float x) { return sigmoid_f32(x); }
};

// With the sign of x and a = |x|: a + a^3 P(a^2), the odd series to a^9, where a is small (relative
// truncation below 1.3e-7 at 0.35), else 1 - 2 / (1 + exp(2a)); at 0.35 the subtraction costs a
// factor of 5.
struct op_tanh {
  static CATENARY_DEVICE float apply(float x) {
    const float a = abs_f32(x);
    const float s = mul_rn(a, a);
    float p = 0.021869488536155203f;
    p = fma_rn(p, s, -0.05396825396825397f);
    p = fma_rn(p, s, 0.13333333333333333f);
    p = fma_rn(p, s, -0.3333333333333333f);
    const float small = fma_rn(mul_rn(p, s), a, a);
    const float e = exp_split(add_rn(a, a));
    const float large = fma_rn(-2.0f, rcp_approx(add_rn(1.0f, e)), 1.0f);
    return with_sign_of(x, a < 0.25f ? small : large);
  }
};

// log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)). log1p(e) is lg2(1 + e), corrected for the
// rounding of the sum; below 2^-4, where the absolute error of lg2 is too large, the series to e^6
// (relative truncation below 1e-8).
struct op_softplus {
  static CATENARY_DEVICE float apply(float x) {
    const float e = exp_split(-abs_f32(x));
    const float s = add_rn(1.0f, e);
    const float lost = sub_rn(e, sub_rn(s, 1.0f));
    float p = fma_rn(e, -0.16666666666666666f, 0.2f);
    p = fma_rn(e, p, -0.25f);
    p = fma_rn(e, p, 0.3333333333333333f);
    p = fma_rn(e, p, -0.5f);
    const float series = mul_rn(e, fma_rn(e, p, 1.0f));
    const float log1p =
        e < 0.0625f ? series
                    : fma_rn(lg2_approx(s), 0.6931471805599453f, mul_rn(lost, rcp_approx(s)));
    return add_rn(max_nan(x, 0.0f), log1p);
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

// Applies F to each of V elements; arguments are vectors, or floats for all elements.
template <int V, class F, class... Args>
CATENARY_DEVICE Vec<V> map(const Args&... args) {
  Vec<V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.v[i] = F::apply(element(args, i)...);
  return out;
}

// The same value in all elements.
template <int V>
CATENARY_DEVICE Vec<V> splat(float value) {
  Vec<V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.v[i] = value;
  return out;
}

// Rounds to kDType and back to f32: a cast of the IR.
template <DType kDType>
CATENARY_DEVICE float round_element(float v) {
  if constexpr (kDType == DType::kBF16) {
    return bf16_to_f32(f32_to_bf16(v));
  } else if constexpr (kDType == DType::kF16) {
    return f16_to_f32(f32_to_f16(v));
  } else if constexpr (is_fp8(kDType)) {
    float low, high;
    widen_8bit<kDType>(narrow_8bit<kDType>(v, 0.0f), low, high);
    return low;
  } else {
    static_assert(kDType == DType::kF32, "no cast to this dtype");
    return v;
  }
}

template <DType kDType, int V>
CATENARY_DEVICE Vec<V> round_to(const Vec<V>& in) {
  Vec<V> out;
#pragma unroll
  for (int i = 0; i < V; ++i) out.v[i] = round_element<kDType>(in.v[i]);
  return out;
}

}  // namespace catenary
