// SPDX-License-Identifier: Apache-2.0
// The chains of bases.h with operands of 8 and 4 bits.
#pragma once

#include "tests/mutants/group_ends.h"
#include "tests/mutants/mutant.h"

namespace catenary::testing {

inline constexpr MutantBase kQuantisedMutantBases[] = {
    {.name = "sm90 fp8",
     .chain = "chain a(input x: e4m3[300, 560], weight w: e4m3[200, 560]) {\n"
              "  y = mul(contract \"mk,nk->mn\"(x, w), 0.5)\n  return y: e4m3 }",
     .tile = "256x128x128g2s4",
     .sm_count = 1},
    {.name = "sm90 fp8, staged results",
     .chain = "chain a(input x: e4m3[100, 272], weight w: e4m3[200, 272]) {\n"
              "  y = mul(contract \"mk,nk->mn\"(x, w), 0.5)\n  return y: e4m3 strides[208, 1] }",
     .tile = "64x128x128p2s3",
     .sm_count = 1},
    {.name = "sm90 fp8, tiles of 104 columns",
     .chain = "chain a(input x: e4m3[100, 272], weight w: e4m3[208, 272]) {\n"
              "  y = mul(contract \"mk,nk->mn\"(x, w), 0.5)\n  return y: e4m3 }",
     .tile = "64x104x128p2s3",
     .sm_count = 1},
    {.name = "sm90 fp8, ping-pong, two sets of sums",
     .chain = "chain a(input x: e4m3[300, 496], weight w: e4m3[136, 496]) {\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
     .tile = "64x128x128p2s3",
     .sm_count = 1},
    {.name = "sm90 fp8 dual GEMM, two sets of sums",
     .chain = "chain a(input x: e4m3[100, 304], weight w: e4m3[80, 304], weight v: e4m3[80, 304])"
              " {\n  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
              "  y = mul(relu(g), u)\n  return y: bf16 }",
     .tile = "64x64x128p2s3",
     .sm_count = 1},
    // Tiles of one block of columns, of two, and of a part of the last.
    {.name = "sm90 fp8 blocks",
     .chain =
         "chain a(input x: e4m3[300, 560], input s: f32[300, 5], weight w: e4m3[376, 560],\n"
         "        weight t: f32[3, 5]) {\n"
         "  y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
         "128))\n  return y: f32 }",
     .tile = "128x184x128g2s3",
     .sm_count = 1},
    {.name = "sm90 fp8 blocks, two fragments, N clusters",
     .chain =
         "chain a(input x: e4m3[200, 304], input s: f32[200, 3] strides[1, 200],\n"
         "        weight w: e4m3[328, 304], weight t: f32[3, 3]) {\n"
         "  y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
         "128))\n  return y: bf16 }",
     .tile = "256x128x128g2s4n2",
     .sm_count = 2},
    {.name = "sm90 fp8 blocks, ping-pong, two sets of sums",
     .chain =
         "chain a(input x: e4m3[300, 496], input s: f32[300, 4], weight w: e4m3[136, 496],\n"
         "        weight t: f32[2, 4]) {\n"
         "  y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
         "128))\n  return y: bf16 }",
     .tile = "64x128x128p2s3",
     .sm_count = 1},
    {.name = "sm90 fp8 blocks, dual GEMM",
     .chain = "chain a(input x: e4m3[100, 304], input s: f32[100, 3], weight w: e4m3[144, 304],\n"
              "        weight t: f32[2, 3], weight v: e4m3[144, 304], weight u: f32[2, 3]) {\n"
              "  d = dequant(x, s) block (1, 128)\n"
              "  g = contract \"mk,nk->mn\"(d, dequant(w, t) block (128, 128))\n"
              "  h = contract \"mk,nk->mn\"(d, dequant(v, u) block (128, 128))\n"
              "  y = mul(relu(g), h)\n  return y: f32 }",
     .tile = "64x64x128p2s3",
     .sm_count = 1},
    {.name = "sm90 fp8 blocks, experts",
     .chain =
         "chain a(input x: e4m3[100, 272], input s: f32[100, 3], weight w: e4m3[3, 136, 272],\n"
         "        weight t: f32[3, 2, 3], input e: i32[3]) {\n"
         "  y = contract \"mk,gnk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
         "128))\n      ragged m by e over g\n  return y: bf16 }",
     .tile = "64x128x128g1s3",
     .ends = kWildEnds,
     .sm_count = 2},
    {.name = "skinny_dequant",
     .chain =
         "chain a(input x: bf16[5, 1056], weight q: i4[39, 1056] packed, weight s: bf16[39, 9],\n"
         "        weight z: i8[39, 9], weight b: f32[39], input r: bf16[5, 39] align 2) {\n"
         "  w = dequant(q, s, z) block (1, 128)\n"
         "  y = relu(add(add(contract \"mk,nk->mn\"(x, w), b), r))\n"
         "  return y: bf16 align 2 }",
     .tile = "dequant2t2s2b1x2b1"},
    {.name = "skinny_dequant, not a weight",
     .chain = "chain a(input x: bf16[5, 416], input q: u4[39, 416] packed, input s: f32[39, 4]) {\n"
              "  w = dequant(q, s) block (1, 128)\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }",
     .tile = "dequant2t2s2b1x2b1"},
    {.name = "skinny_dequant after a kernel",
     .chain =
         "chain a(input x: bf16[5, 416], weight q: i4[64, 416] packed, weight s: bf16[64, 1],\n"
         "        weight p: i4[40, 64] packed, weight t: bf16[40, 2], input r: f32[5, 40]) {\n"
         "  h = cast(contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 416)), bf16)\n"
         "  y = add(contract \"mk,nk->mn\"(h, dequant(p, t) block (1, 32)), r)\n  return y: f32 }",
     .tile = "dequant1t1s1b1x1b1"},
    {.name = "skinny_dequant, cluster",
     .chain =
         "chain a(input x: f16[5, 416], weight q: i8[39, 416] packed, weight s: f32[39, 4]) {\n"
         "  w = dequant(q, s) block (1, 128)\n"
         "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }",
     .tile = "dequant2t1s1b2x1b2c2"},
    {.name = "skinny_dequant, pair",
     .chain =
         "chain a(input x: bf16[5, 416], weight q: i4[39, 416] packed, weight s: bf16[39, 4],\n"
         "        weight p: i4[39, 416] packed, weight t: bf16[39, 4], weight y: i8[39, 4],\n"
         "        weight z: i8[39, 4]) {\n"
         "  g = contract \"mk,nk->mn\"(x, dequant(q, s, y) block (1, 128))\n"
         "  u = contract \"mk,nk->mn\"(x, dequant(p, t, z) block (1, 128))\n"
         "  h = mul(relu(g), u)\n  return h: f32 align 4 }",
     .tile = "dequant1t2s1b1x1b1c4"},
    {.name = "skinny_dequant, sums of squares",
     .chain =
         "chain a(input x: bf16[5, 1056], weight q: i4[39, 1056] packed, weight s: bf16[39, 9]) {\n"
         "  p = sum \"mk->m\"(square(x))\n"
         "  y = mul(contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128)), p @ \"m\")\n"
         "  return y: f32 align 4 }",
     .tile = "dequant2t2s2b1x2b1c2"},
    {.name = "skinny_dequant, a gain",
     .chain =
         "chain a(input x: bf16[5, 1056], weight q: i4[39, 1056] packed, weight s: bf16[39, 9],\n"
         "        weight g: bf16[1056]) {\n  p = sum \"mk->m\"(square(x))\n"
         "  xg = cast(mul(x @ \"mk\", g @ \"k\"), bf16)\n"
         "  y = mul(contract \"mk,nk->mn\"(xg, dequant(q, s) block (1, 128)), p @ \"m\")\n"
         "  return y: f32 align 4 }",
     .tile = "dequant2t2s2b1x2b2"},
    {.name = "skinny_dequant, side by side",
     .chain =
         "chain a(input x: bf16[5, 416], weight q: i4[39, 416] packed, weight s: bf16[39, 4],\n"
         "        weight p: i4[70, 416] packed, weight t: bf16[70, 4]) {\n"
         "  y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n"
         "  z = relu(contract \"mk,nk->mn\"(x, dequant(p, t) block (1, 128)))\n"
         "  return y: f32 align 4, z: f32 }",
     .tile = "dequant2t1s1b2x1b2c2"},
    {.name = "skinny_dequant, batch",
     .chain = "chain a(input x: bf16[2, 5, 416], weight q: u4[2, 39, 416] packed,\n"
              "        weight s: bf16[2, 39, 4], weight z: i8[2, 39, 4]) {\n"
              "  w = dequant(q, s, z) block (1, 128)\n"
              "  y = contract \"bmk,bnk->bmn\"(x, w)\n  return y: f32 align 4 }",
     .tile = "dequant2t2s2b1x2b1"},
    {.name = "skinny_dequant, experts",
     .chain = "chain a(input x: bf16[40, 800], weight q: i4[3, 39, 800] packed,\n"
              "        weight s: bf16[3, 39, 7], input e: i32[3], weight b: f32[3, 39],\n"
              "        input r: f32[40, 39] align 4) {\n"
              "  w = dequant(q, s) block (1, 128)\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  y = add(relu(add(c, b @ \"gn\")), r)\n  return y: f32 align 4 }",
     .tile = "dequant2t2s2b1x2b1",
     .ends = kWildEnds},
    {.name = "skinny_dequant, experts, rows of none",
     .chain = "chain a(input x: bf16[40, 800], weight q: i4[3, 39, 800] packed,\n"
              "        weight s: bf16[3, 39, 7], input e: i32[3], weight b: f32[3, 39],\n"
              "        input r: f32[40, 39] align 4) {\n"
              "  w = dequant(q, s) block (1, 128)\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  y = add(relu(add(c, b @ \"gn\")), r)\n  return y: f32 align 4 }",
     .tile = "dequant2t2s2b1x2b1",
     .ends = kFewEnds},
    // Slices of two and three row tiles, a part of a row tile, of a block and of a k-tile.
    {.name = "gemm_dequant",
     .chain =
         "chain a(input x: bf16[40, 672], weight q: i4[70, 672] packed, weight s: bf16[70, 6],\n"
         "        weight z: i8[70, 6], weight b: f32[70], input r: bf16[40, 70] align 2) {\n"
         "  w = dequant(q, s, z) block (1, 128)\n"
         "  y = relu(add(add(contract \"mk,nk->mn\"(x, w), b), r))\n"
         "  return y: bf16 align 2 }",
     .tile = "packed1t3x24s2b2"},
    {.name = "gemm_dequant, two fragments, two open sums",
     .chain = "chain a(input x: f16[20, 416], weight q: u4[118, 416] packed,\n"
              "        weight s: bf16[118, 13], weight z: i8[118, 13]) {\n"
              "  w = dequant(q, s, z) block (1, 32)\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }",
     .tile = "packed1t8x24s4b2"},
    {.name = "gemm_dequant, a scale per channel",
     .chain = "chain a(input x: bf16[20, 800], weight q: i8[70, 800] packed,\n"
              "        weight s: f32[70, 1]) {\n"
              "  w = dequant(q, s) block (1, 800)\n"
              "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }",
     .tile = "packed1t5x24s2b2"},
    {.name = "gemm_dequant, not a weight",
     .chain =
         "chain a(input x: bf16[20, 416], input q: u4[39, 416] packed, input s: f32[39, 4]) {\n"
         "  w = dequant(q, s) block (1, 128)\n"
         "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }",
     .tile = "packed1t3x24s2b2"},
    {.name = "gemm_dequant after a kernel",
     .chain =
         "chain a(input x: bf16[20, 416], weight q: i4[192, 416] packed, weight s: bf16[192, 1],\n"
         "        weight p: i4[64, 192] packed, weight t: bf16[64, 6], input r: f32[20, 64]) {\n"
         "  h = cast(contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 416)), bf16)\n"
         "  y = add(contract \"mk,nk->mn\"(h, dequant(p, t) block (1, 32)), r)\n  return y: f32 }",
     .tile = "packed1t4x24s2b2"},
    {.name = "gemm_dequant, cluster",
     .chain =
         "chain a(input x: f16[22, 1312], weight q: i8[70, 1312] packed, weight s: f32[70, 11]) {\n"
         "  w = dequant(q, s) block (1, 128)\n"
         "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }",
     .tile = "packed2t3x16s2b2c4"},
    {.name = "gemm_dequant, pair",
     .chain =
         "chain a(input x: bf16[20, 672], weight q: i4[70, 672] packed, weight s: bf16[70, 6],\n"
         "        weight p: i4[70, 672] packed, weight t: bf16[70, 6], weight y: i8[70, 6],\n"
         "        weight z: i8[70, 6]) {\n"
         "  g = contract \"mk,nk->mn\"(x, dequant(q, s, y) block (1, 128))\n"
         "  u = contract \"mk,nk->mn\"(x, dequant(p, t, z) block (1, 128))\n"
         "  h = mul(relu(g), u)\n  return h: f32 align 4 }",
     .tile = "packed2t3x24s2b2c2"},
    {.name = "gemm_dequant, side by side",
     .chain =
         "chain a(input x: bf16[20, 416], weight q: i4[39, 416] packed, weight s: bf16[39, 4],\n"
         "        weight p: i4[70, 416] packed, weight t: bf16[70, 4]) {\n"
         "  y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128))\n"
         "  z = relu(contract \"mk,nk->mn\"(x, dequant(p, t) block (1, 128)))\n"
         "  return y: f32 align 4, z: f32 }",
     .tile = "packed1t3x24s2b2"},
    {.name = "gemm_dequant, batch",
     .chain = "chain a(input x: bf16[2, 20, 416], weight q: u4[2, 39, 416] packed,\n"
              "        weight s: bf16[2, 39, 4], weight z: i8[2, 39, 4]) {\n"
              "  w = dequant(q, s, z) block (1, 128)\n"
              "  y = contract \"bmk,bnk->bmn\"(x, w)\n  return y: f32 align 4 }",
     .tile = "packed1t2x16s2b2"},
    {.name = "gemm_dequant, experts",
     .chain = "chain a(input x: bf16[70, 416], weight q: i4[3, 39, 416] packed,\n"
              "        weight s: bf16[3, 39, 4], input e: i32[3], weight b: f32[3, 39],\n"
              "        input r: f32[70, 39] align 4) {\n"
              "  w = dequant(q, s) block (1, 128)\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  y = add(relu(add(c, b @ \"gn\")), r)\n  return y: f32 align 4 }",
     .tile = "packed1t3x16s2b2",
     .ends = kWildEnds},
    {.name = "gemm_dequant, experts, rows of none",
     .chain = "chain a(input x: bf16[70, 416], weight q: i4[3, 39, 416] packed,\n"
              "        weight s: bf16[3, 39, 4], input e: i32[3], weight b: f32[3, 39],\n"
              "        input r: f32[70, 39] align 4) {\n"
              "  w = dequant(q, s) block (1, 128)\n"
              "  c = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
              "  y = add(relu(add(c, b @ \"gn\")), r)\n  return y: f32 align 4 }",
     .tile = "packed1t3x16s2b2",
     .ends = kFewEnds},
};

}  // namespace catenary::testing
