// SPDX-License-Identifier: Apache-2.0
// The chains that run with mutated templates. Sizes are a tile or two with tails; tiles are the
// smallest of compiler/families/gemm_sm80/candidates.cpp. Chains of gemm_sm90 run on one or two
// SMs, so that a CTA has several tiles and its pipeline stages wrap.
#pragma once

#include "tests/mutants/group_ends.h"
#include "tests/mutants/mutant.h"

namespace catenary::testing {

inline constexpr MutantBase kMutantBases[] = {
    {.name = "gemm",
     .chain = "chain a(input x: bf16[40, 264], weight w: bf16[70, 264], weight b: f32[70]) {\n"
              "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 align 4 }",
     .tile = "32x64x128w1x4s3"},
    {.name = "gemm, both MN-major",
     .chain = "chain a(input x: f16[136, 40], weight w: f16[136, 72]) {\n"
              "  y = contract \"km,kn->mn\"(x, w)\n  return y: f16 }",
     .tile = "32x64x128w1x4s3"},
    {.name = "gemm, odd sizes",
     .chain = "chain a(input x: bf16[33, 31] align 2, weight w: bf16[17, 31] align 2) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 align 2 }",
     .tile = "16x64x128w1x4s5"},
    {.name = "gemm f32",
     .chain = "chain a(input x: f32[20, 260], weight w: f32[24, 260]) {\n"
              "  y = contract \"mk,nk->mn\" f32 (x, w)\n  return y: f32 }",
     .tile = "32x64x64w1x4s3"},
    {.name = "dual GEMM",
     .chain =
         "chain a(input x: bf16[24, 132], weight w: bf16[40, 132], weight v: bf16[40, 132]) {\n"
         "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
         "  h = mul(relu(g), u)\n  return h: f32 }",
     .tile = "16x64x128w1x4s5"},
    {.name = "split-K",
     .chain = "chain a(input x: bf16[24, 512], weight w: bf16[40, 512], weight b: f32[40]) {\n"
              "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }",
     .tile = "16x64x128w1x4s5",
     .split_k = 2},
    // Rows count at the launch, columns are those of the bucket's largest size: spare CTAs.
    {.name = "symbol as rows and columns",
     .chain = "chain a[M in 1..500](input x: f16[M, 136], input y: f16[M, 136]) {\n"
              "  z = contract \"mk,nk->mn\"(x, y)\n  return z: f16 strides[500, 1] }",
     .tile = "16x64x128w1x4s5",
     .symbol = 140},
    {.name = "M-grouped",
     .chain = "chain a(input x: bf16[70, 40], weight w: bf16[3, 24, 40], input e: i32[3]) {\n"
              "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: f32 }",
     .tile = "16x64x128w1x4s5",
     .ends = kWildEnds},
    {.name = "K-grouped",
     .chain = "chain a(input x: f16[70, 40], input y: f16[70, 24], input e: i32[3]) {\n"
              "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }",
     .tile = "16x64x128w1x4s5",
     .ends = kWildEnds},
    {.name = "column sums",
     .chain = "chain a(input dy: bf16[200, 72], weight w: bf16[90, 72], input g: bf16[200, 90]) {\n"
              "  d = contract \"mk,nk->mn\"(dy, w)\n  p = mul(d, g)\n"
              "  s = sum \"mn->n\"(p)\n  return p: bf16, s: f32 }",
     .tile = "32x64x128w1x4s3"},
    {.name = "sm90 column sums, staged",
     .chain =
         "chain a(input dy: bf16[264, 72], weight w: bf16[136, 72], input g: f32[264, 136]) {\n"
         "  p = mul(contract \"mk,nk->mn\"(dy, w), g)\n  s = sum \"mn->n\"(p)\n"
         "  return p: bf16, s: f32 }",
     .tile = "64x64x64g1s8",
     .sm_count = 2},
    {.name = "sm90 matrix operands",
     .chain = "chain a(input x: bf16[264, 72], weight w: bf16[136, 72], input g: bf16[264, 136],\n"
              "        input u: bf16[264, 136], weight b: bf16[136]) {\n"
              "  d = contract \"mk,nk->mn\"(x, w)\n  p = add(mul(d, g), b)\n  q = mul(d, u)\n"
              "  s = sum \"mn->n\"(p)\n  return p: bf16, q: bf16, s: f32 }",
     .tile = "64x128x64g1s7",
     .sm_count = 2},
    {.name = "sum in parts",
     .chain = "chain a(input x: bf16[3001, 40]) {\n"
              "  s = sum \"mn->n\"(x)\n  return s: f32 }"},
    {.name = "sm90 gemm",
     .chain = "chain a(input x: bf16[136, 200], weight w: bf16[136, 200], weight b: f32[136],\n"
              "        input r: f32[136, 136]) {\n"
              "  y = add(relu(add(contract \"mk,nk->mn\"(x, w), b)), r)\n  return y: bf16 }",
     .tile = "64x64x64g1s8",
     .sm_count = 1},
    {.name = "sm90 gemm, register epilogue",
     .chain = "chain a(input x: bf16[136, 200], weight w: bf16[136, 200], weight b: f32[136]) {\n"
              "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }",
     .tile = "64x64x64g1s8",
     .sm_count = 1},
    {.name = "sm90 gemm, ping-pong, M clusters",
     .chain = "chain a(input x: f16[300, 200], weight w: f16[264, 200]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f16 }",
     .tile = "128x128x64p2s6c2",
     .sm_count = 2},
    // Both CTAs of the last cluster end past N, rows and columns are redirected into the matrix.
    {.name = "sm90 gemm, N clusters",
     .chain = "chain a(input x: bf16[200, 136], weight w: bf16[424, 136]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
     .tile = "128x128x64p2s6n2",
     .sm_count = 2},
    {.name = "sm90 gemm, clusters of 2 x 2",
     .chain = "chain a(input x: bf16[200, 264], weight w: bf16[424, 264]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
     .tile = "64x128x64p2s8c2n2",
     .sm_count = 4},
    {.name = "sm90 gemm, stores in pairs",
     .chain = "chain a(input x: bf16[264, 136], weight w: bf16[328, 136]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
     .tile = "128x160x64p2s5",
     .sm_count = 2},
    {.name = "sm90 gemm, stores in pairs, partial subtiles",
     .chain = "chain a(input x: bf16[264, 136], weight w: bf16[352, 136], weight b: bf16[352]) {\n"
              "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: bf16 }",
     .tile = "128x176x64p2s5",
     .sm_count = 2},
    {.name = "sm90 gemm, transposed",
     .chain = "chain a(input x: bf16[151, 136], weight w: bf16[328, 136], input s: f32[151]) {\n"
              "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: bf16 }",
     .tile = "64x136x64p2s6t",
     .sm_count = 2},
    // 13 boxes of 8 columns in turns; the last row tiles are past D.
    {.name = "sm90 gemm, transposed, boxes in turns",
     .chain = "chain a(input x: bf16[77, 264], weight w: bf16[392, 264]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
     .tile = "64x104x64g1s6c4t",
     .sm_count = 4},
    {.name = "sm90 gemm, transposed, stores in pairs",
     .chain = "chain a(input x: bf16[151, 136], weight w: bf16[328, 136]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
     .tile = "64x160x64p2s6t",
     .sm_count = 2},
    {.name = "sm90 gemm, transposed, residual",
     .chain =
         "chain a(input x: bf16[151, 136], weight w: bf16[328, 136], input r: bf16[151, 328],\n"
         "        input t: bf16[151, 328]) {\n"
         "  y = add(mul(contract \"mk,nk->mn\"(x, w), r), t)\n  return y: bf16 }",
     .tile = "64x104x64p2s5t",
     .sm_count = 2},
    {.name = "sm90 M-grouped, 16-bit results",
     .chain = "chain a(input x: bf16[70, 72], weight w: bf16[3, 72, 72], input e: i32[3]) {\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  y = relu(c)\n"
              "  return y: bf16 }",
     .tile = "64x64x64g1s8",
     .ends = kWildEnds,
     .sm_count = 2},
    {.name = "sm90 gemm, partial subtiles",
     .chain = "chain a(input x: bf16[264, 72], weight w: bf16[224, 72]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
     .tile = "128x112x64p2s6",
     .sm_count = 6},
    {.name = "sm90 gemm, bias of several subtiles",
     .chain = "chain a(input x: bf16[136, 72], weight w: bf16[264, 72], weight b: bf16[264]) {\n"
              "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }",
     .tile = "128x128x64p2s6",
     .sm_count = 2},
    {.name = "sm90 dual GEMM, MN-major B",
     .chain = "chain a(input x: f16[300, 136], weight w: f16[136, 264], weight v: f16[136, 264],\n"
              "        input r: f32[300, 264]) {\n"
              "  g = contract \"mk,kn->mn\"(x, w)\n  u = contract \"mk,kn->mn\"(x, v)\n"
              "  h = add(mul(relu(g), u), r)\n  return h: f32 }",
     .tile = "128x128x64g2s4",
     .sm_count = 2},
    {.name = "sm90 M-grouped",
     .chain = "chain a(input x: bf16[70, 72], weight w: bf16[3, 72, 72], input e: i32[3],\n"
              "        input r: f32[70, 72]) {\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  y = add(c, r)\n"
              "  return y: f32 }",
     .tile = "64x64x64g1s8",
     .ends = kWildEnds,
     .sm_count = 2},
    {.name = "sm90 M-grouped, many groups",
     .chain = "chain a(input x: bf16[2, 60, 64], weight w: bf16[36, 8, 64], input e: i32[36]) {\n"
              "  y = contract \"bmk,gnk->bmn\"(x, w) ragged m by e over g\n  return y: f32 }",
     .tile = "64x64x64g1s8",
     .ends = kManyEnds,
     .sm_count = 2},
    {.name = "sm90 K-grouped",
     .chain = "chain a(input x: f16[70, 136], input y: f16[70, 72], input e: i32[3]) {\n"
              "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }",
     .tile = "128x128x64g2s6",
     .ends = kWildEnds,
     .sm_count = 2},
    {.name = "sm90 K-grouped, ping-pong, M clusters",
     .chain = "chain a(input x: f16[70, 136], input y: f16[70, 264], input e: i32[4]) {\n"
              "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }",
     .tile = "128x128x64p2s6c2",
     .ends = kEmptyEnds,
     .sm_count = 2},
    {.name = "sm90 K-grouped, symbolic K, ping-pong, M clusters",
     .chain = "chain a[T in 1..90](input x: f16[T, 136], input y: f16[T, 264], input e: i32[4]) {\n"
              "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }",
     .tile = "128x128x64p2s6c2",
     .symbol = 70,
     .ends = kEmptyEnds,
     .sm_count = 2},
    {.name = "sm90 K-grouped beside NaN",
     .chain = "chain a(input x: f16[100, 72], input y: f16[100, 72], input e: i32[3]) {\n"
              "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }",
     .tile = "64x64x64g1s8",
     .ends = kNanEnds,
     .sm_count = 2,
     .nan_rows = kNanRows},
    {.name = "sm90 K-grouped beside NaN, A by cp.async",
     .chain = "chain a(input x: f16[100, 73], input y: f16[100, 72], input e: i32[3]) {\n"
              "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }",
     .tile = "64x64x64g1s4",
     .ends = kNanEnds,
     .sm_count = 2,
     .nan_rows = kNanRows},
    {.name = "sm90 gemm, cluster split-K",
     .chain = "chain a(input x: bf16[33, 712], weight w: bf16[72, 712], weight b: f32[72]) {\n"
              "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }",
     .tile = "64x64x64g1s8k4"},
    {.name = "sm90 gemm, k-slices",
     .chain = "chain a(input x: bf16[136, 456], weight w: bf16[136, 456]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
     .tile = "64x64x64g1s8z3",
     .sm_count = 1},
    {.name = "sm90 gemm, product of weights",
     .chain = "chain a(weight v: bf16[1280, 24], weight w: bf16[64, 24]) {\n"
              "  y = contract \"mk,nk->mn\"(v, w)\n  return y: f32 }",
     .tile = "64x64x64g1s6k1"},
    {.name = "sm90 gemm, cp.async",
     .chain = "chain a(input x: bf16[136, 329], weight w: bf16[136, 329], weight b: f32[136]) {\n"
              "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }",
     .tile = "64x64x64g1s4",
     .sm_count = 1},
    {.name = "sm90 gemm, A by cp.async",
     .chain = "chain a(input x: f16[264, 196], weight w: f16[196, 136]) {\n"
              "  y = contract \"mk,kn->mn\"(x, w)\n  return y: f16 }",
     .tile = "128x128x64p2s4",
     .sm_count = 1},
    {.name = "sm90 gemm, f32 by cp.async",
     .chain = "chain a(input x: f32[136, 99], weight w: f32[136, 99]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }",
     .tile = "64x64x32g1s4",
     .sm_count = 1,
     .fill = FillKind::kPositive},
    {.name = "two gemms",
     .chain = "chain a(input x: bf16[24, 48], weight w: bf16[40, 48], weight v: bf16[16, 40]) {\n"
              "  h = cast(relu(contract \"mk,nk->mn\"(x, w)), bf16)\n"
              "  y = contract \"mk,nk->mn\"(h, v)\n  return y: bf16 }",
     .tile = "16x64x128w1x4s5"},
    // Five k-tiles, two fragments, results in fp8, several tiles a CTA.
    {.name = "skinny",
     .chain = "chain a(input x: bf16[5, 1088], weight w: bf16[39, 1088], weight b: f32[39],\n"
              "        input r: bf16[5, 39] align 2) {\n"
              "  y = relu(add(add(contract \"mk,nk->mn\"(x, w), b), r))\n"
              "  return y: bf16 align 2 }",
     .tile = "skinny4x2s3r2g2p3"},
    // 17 K blocks, the last one half: four and five chunks on two warps with two stages each. 39
    // rows are three row tiles, one and two of them on two CTAs.
    {.name = "skinny by cp.async",
     .chain = "chain a(input x: bf16[5, 1088], weight w: bf16[39, 1088], weight b: f32[39]) {\n"
              "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 align 2 }",
     .tile = "skinny4x2s3r2g2p3a"},
    {.name = "skinny by cp.async, slice not full",
     .chain = "chain a(input x: f16[3, 576], weight w: f16[20, 576]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }",
     .tile = "skinny4x1s4r1g3p5a"},
    {.name = "skinny, slice not full",
     .chain = "chain a(input x: f16[3, 576], weight w: f16[20, 576]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }",
     .tile = "skinny4x1s4r1g4p5"},
    {.name = "skinny, batched dual GEMM",
     .chain = "chain a(input x: bf16[2, 9, 512], weight w: bf16[2, 23, 512],\n"
              "        weight v: bf16[2, 23, 512]) {\n"
              "  g = contract \"bmk,bnk->bmn\"(x, w)\n  u = contract \"bmk,bnk->bmn\"(x, v)\n"
              "  h = mul(relu(g), u)\n  return h: f32 }",
     .tile = "skinny4x2s1r1g2p1"},
    {.name = "skinny, split-K",
     .chain = "chain a(input x: f32[3, 512], weight w: f32[24, 512], weight b: f32[24]) {\n"
              "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: f32 }",
     .tile = "skinny4x1s1r1g1p2",
     .split_k = 2},
    {.name = "skinny, cluster split-K",
     .chain = "chain m(input x: bf16[11, 1216], weight w: bf16[39, 1216], weight b: f32[39]) {\n"
              "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: f32 align 4 }",
     .tile = "skinny2x1s2r1g2p3x8t2c4"},
    {.name = "skinny, slices of N",
     .chain = "chain a(input x: bf16[9, 1096], weight w: bf16[23, 1096]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }",
     .tile = "skinny4x1s2r1g4p3c2n5"},
    {.name = "skinny by cp.async, slices of N",
     .chain = "chain a(input x: bf16[3, 1096], weight w: bf16[23, 1096]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }",
     .tile = "skinny4x1s5r0g3p5n5a"},
    {.name = "skinny, symbol",
     .chain = "chain a[M in 0..16](input x: bf16[M, 512], weight w: bf16[20, 512]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
     .tile = "skinny4x1s2r0g4p2",
     .symbol = 11},
    {.name = "skinny after a kernel",
     .chain = "chain a(input p: bf16[3, 512], weight w: bf16[20, 512]) {\n"
              "  x = cast(relu(p), bf16)\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return x: bf16, y: f32 }",
     .tile = "skinny4x1s1r1g1p1"},
    {.name = "skinny, W from a kernel",
     .chain = "chain a(input x: bf16[3, 512], input p: bf16[20, 512]) {\n"
              "  w = cast(relu(p), bf16)\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }",
     .tile = "skinny4x1s1r1g1p1"},
    {.name = "skinny, M-grouped",
     .chain = "chain a(input x: bf16[40, 576], weight w: bf16[3, 39, 576], input e: i32[3],\n"
              "        weight b: f32[39], input r: f32[40, 39] align 4) {\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  y = add(relu(add(c, b)), r)\n  return y: f32 align 4 }",
     .tile = "skinny4x2s2r1g2p3",
     .ends = kWildEnds},
    {.name = "skinny, M-grouped, many groups",
     .chain = "chain a(input x: bf16[2, 60, 256], weight w: bf16[36, 8, 256], input e: i32[36]) {\n"
              "  y = contract \"bmk,gnk->bmn\"(x, w) ragged m by e over g\n  return y: f32 }",
     .tile = "skinny4x1s1r0g2p1",
     .ends = kManyEnds},
    {.name = "M-grouped, bias by group",
     .chain = "chain a(input x: bf16[40, 40], weight w: bf16[3, 24, 40], input e: i32[3],\n"
              "        weight b: bf16[3, 24]) {\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  y = add(c, b @ \"gn\")\n  return y: f32 }",
     .tile = "16x64x128w1x4s5",
     .ends = kFewEnds},
    {.name = "sm90 M-grouped, bias by group",
     .chain = "chain a(input x: bf16[40, 72], weight w: bf16[3, 72, 72], input e: i32[3],\n"
              "        weight b: bf16[3, 72]) {\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  y = add(c, b @ \"gn\")\n  return y: bf16 }",
     .tile = "64x64x64g1s8",
     .ends = kFewEnds,
     .sm_count = 2},
    {.name = "sm90 M-grouped, bias by group, staged",
     .chain = "chain a(input x: bf16[40, 72], weight w: bf16[3, 72, 72], input e: i32[3],\n"
              "        weight b: bf16[3, 72], input r: f32[40, 72]) {\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  y = add(add(c, b @ \"gn\"), r)\n  return y: f32 }",
     .tile = "64x64x64g1s8",
     .ends = kFewEnds,
     .sm_count = 2},
    {.name = "skinny, M-grouped, bias by group",
     .chain = "chain a(input x: bf16[40, 576], weight w: bf16[3, 40, 576], input e: i32[3],\n"
              "        weight b: bf16[3, 40]) {\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  y = add(c, b @ \"gn\")\n  return y: f32 }",
     .tile = "skinny4x2s2r1g2p3",
     .ends = kFewEnds},
    {.name = "skinny, sums of squares",
     .chain = "chain a(input x: bf16[9, 576], weight w: bf16[40, 576]) {\n"
              "  q = sum \"mk->m\"(square(x))\n"
              "  y = mul(contract \"mk,nk->mn\"(x, w), q @ \"m\")\n  return y: f32 }",
     .tile = "skinny4x2s1r1g2p2c2"},
    {.name = "gemm_sm90, sums of squares",
     .chain = "chain a(input x: bf16[24, 576], weight w: bf16[72, 576]) {\n"
              "  q = sum \"mk->m\"(square(x))\n"
              "  y = mul(contract \"mk,nk->mn\"(x, w), q @ \"m\")\n  return y: f32 }",
     .tile = "64x64x64g1s2k2"},
    {.name = "skinny, sums of squares in tf32",
     .chain = "chain a(input x: f32[9, 288], weight w: f32[40, 288]) {\n"
              "  q = sum \"mk->m\"(square(x))\n"
              "  y = mul(contract \"mk,nk->mn\"(x, w), q @ \"m\")\n  return y: f32 }",
     .tile = "skinny4x2s1r1g2p2c2"},
    {.name = "skinny, a gain",
     .chain = "chain a(input x: bf16[9, 576], input d: bf16[3, 576],\n"
              "        weight w: bf16[40, 576]) {\n  q = sum \"mk->m\"(square(x))\n"
              "  g = cast(sum \"jk->k\"(d), bf16)\n  xg = cast(mul(x @ \"mk\", g @ \"k\"), bf16)\n"
              "  y = mul(contract \"mk,nk->mn\"(xg, w), q @ \"m\")\n  return y: f32 }",
     .tile = "skinny4x2s1r1g2p2c2"},
    {.name = "skinny, LayerNorm",
     .chain =
         "chain a(input x: bf16[9, 584], weight g: f32[584], weight b: f32[584],\n"
         "        weight w: bf16[40, 584]) {\n  m = mul(sum \"mk->m\"(x), 0.0017123287671232876)\n"
         "  d = sub(x @ \"mk\", m @ \"m\")\n"
         "  s = rsqrt(add(mul(sum \"mk->m\"(square(d)), 0.0017123287671232876), 0.00001))\n"
         "  n = cast(add(mul(mul(d, s @ \"m\"), g @ \"k\"), b @ \"k\"), bf16)\n"
         "  y = contract \"mk,nk->mn\"(n, w)\n  return y: f32 }",
     .tile = "skinny2x2s4r1g2p3",
     .fill = FillKind::kNormal},
    {.name = "skinny, LayerNorm in a cluster",
     .chain =
         "chain a(input x: bf16[9, 576], weight g: f32[576], weight b: f32[576],\n"
         "        weight w: bf16[40, 576]) {\n  m = mul(sum \"mk->m\"(x), 0.001736111111111111)\n"
         "  d = sub(x @ \"mk\", m @ \"m\")\n"
         "  s = rsqrt(add(mul(sum \"mk->m\"(square(d)), 0.001736111111111111), 0.00001))\n"
         "  n = cast(add(mul(mul(d, s @ \"m\"), g @ \"k\"), b @ \"k\"), bf16)\n"
         "  y = contract \"mk,nk->mn\"(n, w)\n  return y: f32 }",
     .tile = "skinny2x2s2r1g2p2c2",
     .fill = FillKind::kNormal},
    {.name = "side by side, several row tiles",
     .chain =
         "chain a(input x: bf16[40, 264], weight w: bf16[70, 264], weight v: bf16[24, 264]) {\n"
         "  y = contract \"mk,nk->mn\"(x, w)\n  z = relu(contract \"mk,nk->mn\"(x, v))\n"
         "  return y: bf16 align 4, z: f32 }",
     .tile = "16x64x128w1x4s5"},
    {.name = "side by side, clusters",
     .chain = "chain a(input x: bf16[5, 576], weight w: bf16[40, 576], weight v: bf16[24, 576]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  z = contract \"mk,nk->mn\"(x, v)\n"
              "  return y: f32, z: bf16 }",
     .tile = "skinny4x1s1r1g1p2c2"},
    {.name = "side by side, persistent",
     .chain =
         "chain a(input x: bf16[300, 136], weight w: bf16[200, 136], weight v: bf16[72, 136]) {\n"
         "  y = contract \"mk,nk->mn\"(x, w)\n  z = relu(contract \"mk,nk->mn\"(x, v))\n"
         "  return y: bf16, z: f32 }",
     .tile = "64x64x64g1s8",
     .sm_count = 5},
    {.name = "sum of two",
     .chain = "chain a(input x: bf16[24, 264], weight w: bf16[40, 264], input y: bf16[24, 72],\n"
              "        weight v: bf16[40, 72]) {\n"
              "  p = contract \"mk,nk->mn\"(x, w)\n  q = contract \"mk,nk->mn\"(y, v)\n"
              "  z = add(p, q)\n  return z: f32 }",
     .tile = "16x64x128w1x4s5"},
    {.name = "sum of two, split-K",
     .chain = "chain a(input x: bf16[24, 264], weight w: bf16[40, 264], input y: bf16[24, 300],\n"
              "        weight v: bf16[40, 300]) {\n"
              "  p = contract \"mk,nk->mn\"(x, w)\n  q = contract \"mk,nk->mn\"(y, v)\n"
              "  z = add(p, q)\n  return z: f32 }",
     .tile = "16x64x128w1x4s5",
     .split_k = 3},
    {.name = "M-grouped sum",
     .chain = "chain a(input x: bf16[70, 40], weight w: bf16[3, 24, 40], input y: bf16[70, 48],\n"
              "        weight v: bf16[3, 24, 48], input e: i32[3]) {\n"
              "  p = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  q = contract \"mk,gnk->mn\"(y, v) ragged m by e over g\n"
              "  z = add(p, q)\n  return z: f32 }",
     .tile = "16x64x128w1x4s5",
     .ends = kFewEnds},
    {.name = "sm90 sum of two",
     .chain = "chain a(input x: bf16[72, 136], weight w: bf16[72, 136], input y: bf16[72, 200],\n"
              "        weight v: bf16[72, 200]) {\n"
              "  p = contract \"mk,nk->mn\"(x, w)\n  q = contract \"mk,nk->mn\"(y, v)\n"
              "  z = add(p, q)\n  return z: bf16 }",
     .tile = "64x64x64g1s8",
     .sm_count = 2},
    {.name = "sm90 M-grouped sum",
     .chain = "chain a(input x: bf16[70, 72], weight w: bf16[3, 72, 72], input y: bf16[70, 136],\n"
              "        weight v: bf16[3, 72, 136], input e: i32[3]) {\n"
              "  p = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  q = contract \"mk,gnk->mn\"(y, v) ragged m by e over g\n"
              "  z = add(p, q)\n  return z: bf16 }",
     .tile = "64x64x64g1s8",
     .ends = kFewEnds,
     .sm_count = 2},
    {.name = "sum",
     .chain = "chain a(input x: bf16[70, 44]) {\n"
              "  y = sum \"mn->n\"(x)\n  return y: f32 }"},
    {.name = "sum along terms",
     .chain = "chain a(input x: bf16[17, 2056]) {\n"
              "  y = sum \"mn->m\"(x)\n  return y: f32 }",
     .sm_count = 2},
    {.name = "sum of odd rows",
     .chain = "chain a(input x: bf16[9, 263]) {\n"
              "  y = sum \"mn->m\"(add(x, 1))\n  return y: f32 }"},
    {.name = "maximum",
     .chain = "chain a(input x: bf16[70, 44]) {\n"
              "  y = reduce_max \"mn->n\"(neg(abs(x)))\n  return y: f32 }"},
    {.name = "column sums by group",
     .chain =
         "chain a(input x: bf16[130, 72], weight w: bf16[3, 72, 136], input g: bf16[130, 136],\n"
         "        input u: bf16[130, 136], input e: i32[3]) {\n"
         "  c = contract \"mk,ekn->mn\"(x, w) ragged m by e over e\n  p = mul(c, u)\n"
         "  q = mul(c, g)\n  s = sum \"mn->en\"(p) ragged m by e over e\n"
         "  t = sum \"mn->en\"(q) ragged m by e over e\n"
         "  return p: bf16, q: bf16, s: bf16, t: f32 }",
     .tile = "16x64x128w1x4s5",
     .ends = kFewEnds,
     .sm_count = 2},
    {.name = "sm90 column sums by group",
     .chain = "chain a(input x: bf16[130, 72], weight w: bf16[3, 72, 136], input e: i32[3]) {\n"
              "  c = contract \"mk,ekn->mn\"(x, w) ragged m by e over e\n"
              "  s = sum \"mn->en\"(relu(c)) ragged m by e over e\n  return c: bf16, s: bf16 }",
     .tile = "64x64x64g1s8",
     .ends = kFewEnds,
     .sm_count = 2},
    {.name = "sum by group",
     .chain = "chain a(input x: bf16[70, 44], input e: i32[3]) {\n"
              "  y = sum \"mn->en\"(x) ragged m by e over e\n  return y: f32 }",
     .ends = kWildEnds},
    {.name = "pointwise, operand by group",
     .chain = "chain a(input x: bf16[70, 44], input b: bf16[3, 44], input e: i32[3]) {\n"
              "  y = add(x @ \"mn\", b @ \"en\") ragged m by e over e\n  return y: f32 }",
     .ends = kFewEnds},
    {.name = "pointwise",
     .chain = "chain a(input x: bf16[17, 37] strides[40, 1], weight b: bf16[37]) {\n"
              "  y = relu(add(x, b))\n  return y: bf16 strides[40, 1] }"},
};

}  // namespace catenary::testing
