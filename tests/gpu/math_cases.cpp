// SPDX-License-Identifier: Apache-2.0
// Handwritten chains of mathematical ops, comparisons and select: those that are exact on integers
// (bit for bit), the others within their bounds, and the norms that they are for.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {

std::vector<WrittenCase> math_cases() {
  return {
      {"exact ops: comparisons, select, abs, square, pow",
       "chain a(input x: f32[70, 48], input y: f32[70, 48], weight b: bf16[48]) {\n"
       "  c = add(lt(x, y), scale(le(x, b), 2))\n  d = add(gt(x, y), scale(ge(x, b), 4))\n"
       "  e = add(eq(x, y), scale(ne(x, b), 8))\n"
       "  p = add(pow(x, exponent = 5), square(sub(x, y)))\n"
       "  s = select(sub(x, b), p, abs(y))\n"
       "  return c: f32, d: f32, e: bf16, s: f32 }",
       {},
       {}},
      {"negated comparisons: -0 where they are false",
       "chain a(input x: f32[70, 48], input y: f16[70, 48]) {\n"
       "  a = neg(ge(x, y))\n  b = neg(lt(x, 0))\n  c = scale(eq(x, y), -1)\n"
       "  d = neg(select(gt(x, y), 1, 0))\n  return a: f32, b: f16, c: bf16, d: f32 }",
       {},
       {}},
      {"quotients: by rows, by large and small numbers, by 0",
       "chain a(input x: f32[70, 48], input y: f32[70, 48], input r: f32[70]) {\n"
       "  a = div(x, y)\n  b = div(x @ \"mn\", r @ \"m\")\n  c = div(scale(x, 1e-30), scale(y, "
       "1e-38))\n"
       "  d = div(scale(x, 1e30), scale(y, 1e38))\n  e = div(x, 0)\n"
       "  return a: f32, b: f32, c: f32, d: f32, e: f32 }",
       {},
       {}},
      {"roots, powers, logarithm, erf, sine, cosine",
       "chain a(input x: f32[65, 37] align 4, input y: bf16[65, 37] align 2) {\n"
       "  p = add(abs(x), 0.125)\n  a = add(sqrt(p), rsqrt(p))\n  b = add(recip(p), exp2(y))\n"
       "  c = sub(log(p), erf(y))\n  d = mul(sin(x), cos(scale(y, 4000000)))\n"
       "  e = pow(p, exponent = -7)\n"
       "  return a: f32 align 4, b: f32 align 4, c: f32 align 4, d: f32 align 4, e: f32 align 4 }",
       {},
       {}},
      {"roots and logarithms of negative numbers",
       "chain a(input x: f16[40, 24]) {\n  y = add(sqrt(x), log(x))\n"
       "  z = select(gt(x, 0), y, -1)\n  return y: f32, z: f16 }",
       {},
       {}},
      {"epilogue: rsqrt by row, erf, select",
       "chain a(input x: bf16[136, 64], weight w: bf16[72, 64], input r: f32[136]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  z = mul(y, rsqrt(square(r)) @ \"m\")\n"
       "  g = select(lt(z, 0), erf(z), sin(z))\n  return g: bf16 }",
       {},
       {}},
      {"maximum over rows, over columns, of everything, of nothing",
       "chain a(input x: f32[70, 45] align 4, input e: f32[0, 40]) {\n"
       "  r = reduce_max \"mn->n\"(x)\n  c = reduce_max \"mn->m\"(neg(x))\n"
       "  o = reduce_max \"mn->\"(x)\n  n = reduce_max \"mn->n\"(e)\n"
       "  return r: f32 align 4, c: bf16 align 2, o: f32 align 4, n: f32 }",
       {},
       {}},
      {"softmax",
       "chain a[M in 1..40](input x: bf16[M, 136], weight w: bf16[200, 136]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  m = reduce_max \"mn->m\"(y)\n"
       "  e = exp(sub(y @ \"mn\", m @ \"m\"))\n  s = sum \"mn->m\"(e)\n"
       "  p = div(e @ \"mn\", s @ \"m\")\n  return p: bf16 }",
       {1, 9, 40},
       {}},
      {"RMS norm",
       "chain a[M in 1..40](input x: bf16[M, 264], weight g: f32[264]) {\n"
       "  q = scale(sum \"mn->m\"(square(x)), 0.003787878787878788)\n"
       "  y = mul(mul(x @ \"mn\", rsqrt(add(q, 1e-5)) @ \"m\"), g)\n  return y: bf16 }",
       {1, 7, 40},
       {}},
  };
}

}  // namespace catenary::gpu_suite
