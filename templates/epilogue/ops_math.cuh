// SPDX-License-Identifier: Apache-2.0
// Functors of ops.cuh: roots, powers, logarithm, error function, sine and cosine, comparisons and
// select. u = 2^-24. Polynomials are minimax fits (Lawson's algorithm) with coefficients rounded to
// f32. functors_test checks every functor against its bound.
#pragma once

#include "ptx/convert.cuh"
#include "ptx/math.cuh"

namespace catenary {

inline constexpr u32 kInfinityBits = 0x7f800000u;
inline constexpr u32 kNanBits = 0x7fffffffu;
inline constexpr u32 kSignBit = 0x80000000u;

CATENARY_DEVICE bool is_finite(float x) { return abs_f32(x) < bits_to_f32(kInfinityBits); }

// `magnitude` (0 or more, or NaN) with the sign of x.
CATENARY_DEVICE float with_sign_of(float x, float magnitude) {
  return bits_to_f32(f32_to_bits(magnitude) | (f32_to_bits(x) & kSignBit));
}

struct op_abs {
  static CATENARY_DEVICE float apply(float x) { return abs_f32(x); }
};
struct op_square {
  static CATENARY_DEVICE float apply(float x) { return mul_rn(x, x); }
};
struct op_sqrt {
  static CATENARY_DEVICE float apply(float x) { return sqrt_rn(x); }
};

// The instruction's 2^-22.9 is 2.2u.
struct op_rsqrt {
  static CATENARY_DEVICE float apply(float x) { return rsqrt_approx(x); }
};
struct op_recip {
  static CATENARY_DEVICE float apply(float x) { return rcp_rn(x); }
};

// x^n by squaring, from the highest bit of |n| on; no power beyond x^|n| is formed, so that none
// overflows or loses bits unless the result does. n is a literal: the loop leaves only
// multiplications. Error: |n| - 1 roundings; for n < 0 the rounding of 1/x counts |n| times more.
struct op_pow {
  static CATENARY_DEVICE float apply(float x, float exponent) {
    const i32 n = static_cast<i32>(exponent);
    const u32 count = static_cast<u32>(n < 0 ? -n : n);
    const float base = n < 0 ? rcp_rn(x) : x;
    float power = 1.0f;
    bool begun = false;
#pragma unroll
    for (i32 bit = 6; bit >= 0; --bit) {
      if (begun) power = mul_rn(power, power);
      if (count >> bit & 1) {
        power = begun ? mul_rn(power, base) : base;
        begun = true;
      }
    }
    return power;
  }
};

// The instruction's 2^-22 is 4u.
struct op_exp2 {
  static CATENARY_DEVICE float apply(float x) { return ex2_approx(x); }
};

// x = 2^e m with m in [2/3, 4/3): e ln 2 + log1p(f), f = m - 1 exactly, log1p(f) = f + f^2 P(f). P
// has degree 8, error 0.08u of the result. Rounding of log1p: 1.5u of it; of the constant ln 2:
// 0.05u; of the sum: u. Where e is not 0, log1p is at most 0.72 of the result. Subnormal x is
// scaled by 2^23.
struct op_log {
  static CATENARY_DEVICE float apply(float x) {
    const bool subnormal = x < 0x1p-126f;
    const u32 bits = f32_to_bits(subnormal ? mul_rn(x, 0x1p23f) : x);
    const u32 shift = (bits - 0x3f2aaaabu) & 0xff800000u;  // e, at the exponent's place
    const float e =
        add_rn(static_cast<float>(static_cast<i32>(shift) >> 23), subnormal ? -23.0f : 0.0f);
    const float f = sub_rn(bits_to_f32(bits - shift), 1.0f);
    float p = -0.12948974967002869f;
    p = fma_rn(p, f, 0.14004766941070557f);
    p = fma_rn(p, f, -0.12167152017354965f);
    p = fma_rn(p, f, 0.14001159369945526f);
    p = fma_rn(p, f, -0.16682305932044983f);
    p = fma_rn(p, f, 0.20010747015476227f);
    p = fma_rn(p, f, -0.24999716877937317f);
    p = fma_rn(p, f, 0.3333320915699005f);
    p = fma_rn(p, f, -0.5f);
    const float log1p = fma_rn(p, mul_rn(f, f), f);
    const float result = fma_rn(e, 0.6931471805599453f, log1p);
    if (x > 0.0f && is_finite(x)) return result;
    if (x > 0.0f) return x;  // +inf
    return bits_to_f32(x == 0.0f ? kInfinityBits | kSignBit : kNanBits);
  }
};

// |x| < 1: x + x P(x^2), degree 6, error 0.02u; rounding 1.3u. Else 1 - 2^Q(|x|), Q(a) = log2
// erfc(a) on [1, 4], degree 6; from 4 on f32 has only 1. The term 2^Q is at most 0.19 of the
// result: its errors are 4u of ex2, 6u of the exponent's rounding and 0.02u of Q, together below
// 2u.
struct op_erf {
  static CATENARY_DEVICE float apply(float x) {
    const float a = min_nan(abs_f32(x), 4.0f);
    const float s = mul_rn(a, a);
    float p = 7.853859278839082e-05f;
    p = fma_rn(p, s, -0.0008010193123482168f);
    p = fma_rn(p, s, 0.005188327748328447f);
    p = fma_rn(p, s, -0.026853810995817184f);
    p = fma_rn(p, s, 0.1128358542919159f);
    p = fma_rn(p, s, -0.3761262595653534f);
    p = fma_rn(p, s, 0.12837916612625122f);
    float q = 0.0002688886015675962f;
    q = fma_rn(q, a, -0.004252574872225523f);
    q = fma_rn(q, a, 0.03150567784905434f);
    q = fma_rn(q, a, -0.1487516313791275f);
    q = fma_rn(q, a, -0.9206483364105225f);
    q = fma_rn(q, a, -1.626046061515808f);
    q = fma_rn(q, a, -0.0004927088157273829f);
    return with_sign_of(x, a < 1.0f ? fma_rn(p, a, a) : sub_rn(1.0f, ex2_approx(q)));
  }
};

// a = (4 i + quadrant) pi/2 + rest, for some integer i and |rest| slightly above pi/4 at most.
struct Angle {
  float rest;
  u32 quadrant;
};

// Bits position .. position + 31 of the concatenated words `high` and `low`.
CATENARY_DEVICE u32 funnel(u32 high, u32 low, u32 position) {
  return static_cast<u32>((static_cast<u64>(high) << 32 | low) << position >> 32);
}

// Payne and Hanek: a = m 2^E with a 24-bit integer m, times 2/pi modulo 4. Bits of 2/pi that make
// multiples of 4 are left out; 96 bits after them give the product with an error of 2^-61, while no
// f32 is closer than 2^-31 to a multiple of pi/2. Two roundings and that of the constant: 2.5u.
CATENARY_DEVICE Angle reduce_large(float a) {
  const u32 bits = f32_to_bits(a);
  const u32 first = (bits >> 23) - 120;  // of the 96 bits, counted after 31 zeros before the point
  const u32 word = first >> 5;           // 0 to 4
  const auto pick = [word](u32 w0, u32 w1, u32 w2, u32 w3, u32 w4) {
    return word == 0 ? w0 : word == 1 ? w1 : word == 2 ? w2 : word == 3 ? w3 : w4;
  };
  const u32 w0 = pick(0, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u);
  const u32 w1 = pick(0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u);
  const u32 w2 = pick(0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u);
  const u32 w3 = pick(0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu);
  const u64 m = (bits & 0x7fffffu) | 0x800000u;
  const u64 low = m * funnel(w2, w3, first & 31);
  const u64 middle = m * funnel(w1, w2, first & 31) + (low >> 32);
  const u64 high = m * funnel(w0, w1, first & 31) + (middle >> 32);
  const u64 turns = high << 32 | (middle & 0xffffffffu);  // in units of 2^-62 quadrants
  const u64 quadrant = (turns + (u64{1} << 61)) >> 62;
  const float rest = static_cast<float>(static_cast<i64>(turns - (quadrant << 62)));
  return {mul_rn(rest, 0x1.921fb6p-62f), static_cast<u32>(quadrant)};
}

// For a >= 0. Below 2^16: Cody and Waite, pi/2 in three parts; the first product and difference
// are exact, the other two round, 2u of the rest in all. The nearest integer is in the low bits of
// a sum with 1.5 * 2^23.
CATENARY_DEVICE Angle reduce_angle(float a) {
  if (!(a < 65536.0f)) return reduce_large(a);
  const float sum = fma_rn(a, 0.6366197723675814f, 12582912.0f);
  const float j = sub_rn(sum, 12582912.0f);
  float rest = fma_rn(j, -0x1.921fb6p0f, a);
  rest = fma_rn(j, 0x1.777a5cp-25f, rest);
  rest = fma_rn(j, 0x1.ee59dap-50f, rest);
  return {rest, f32_to_bits(sum)};
}

// The sine of an angle. On |rest| <= pi/4, r the rest, s = r^2: sin is r + r s S(s), error 0.07u,
// rounding 1.2u; cos is 1 - s/2 + s^2 C(s), error below 0.01u, rounding 1.6u. The rest's own error,
// up to 2.5u, enters with a factor of at most 1.
CATENARY_DEVICE float sine(Angle angle) {
  const float r = angle.rest;
  const float s = mul_rn(r, r);
  float p = -0.00019511958817020059f;
  p = fma_rn(p, s, 0.008332137018442154f);
  p = fma_rn(p, s, -0.16666653752326965f);
  const float odd = fma_rn(mul_rn(p, s), r, r);
  float q = 2.4429358745692298e-05f;
  q = fma_rn(q, s, -0.0013887283857911825f);
  q = fma_rn(q, s, 0.04166664555668831f);
  q = fma_rn(q, s, -0.5f);
  const float even = fma_rn(q, s, 1.0f);
  const float result = (angle.quadrant & 1) != 0 ? even : odd;
  return (angle.quadrant & 2) != 0 ? -result : result;
}

struct op_sin {
  static CATENARY_DEVICE float apply(float x) {
    if (!is_finite(x)) return bits_to_f32(kNanBits);
    const float result = sine(reduce_angle(abs_f32(x)));
    return bits_to_f32(f32_to_bits(result) ^ (f32_to_bits(x) & kSignBit));
  }
};
struct op_cos {
  static CATENARY_DEVICE float apply(float x) {
    if (!is_finite(x)) return bits_to_f32(kNanBits);
    Angle angle = reduce_angle(abs_f32(x));
    ++angle.quadrant;
    return sine(angle);
  }
};

// Comparisons give 1 or 0. With a NaN every one but ne is false.
CATENARY_DEVICE float truth(bool holds) { return holds ? 1.0f : 0.0f; }

struct op_lt {
  static CATENARY_DEVICE float apply(float a, float b) { return truth(a < b); }
};
struct op_le {
  static CATENARY_DEVICE float apply(float a, float b) { return truth(a <= b); }
};
struct op_gt {
  static CATENARY_DEVICE float apply(float a, float b) { return truth(a > b); }
};
struct op_ge {
  static CATENARY_DEVICE float apply(float a, float b) { return truth(a >= b); }
};
struct op_eq {
  static CATENARY_DEVICE float apply(float a, float b) { return truth(a == b); }
};
struct op_ne {
  static CATENARY_DEVICE float apply(float a, float b) { return truth(a != b); }
};

// a where c is not 0 (a NaN is not), else b: nothing of the other operand reaches the result.
struct op_select {
  static CATENARY_DEVICE float apply(float c, float a, float b) { return c != 0.0f ? a : b; }
};

}  // namespace catenary
