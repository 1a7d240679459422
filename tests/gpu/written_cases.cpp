// SPDX-License-Identifier: Apache-2.0
// Handwritten chains; see cases.h. Sizes are around the tiles: one less, one more.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {

namespace {

// Group ends: equal groups, an empty group, one with all rows, all empty, rows after the last end.
const std::vector<std::vector<i32>> kEnds4of200 = {
    {50, 100, 150, 200}, {0, 0, 200, 200}, {200, 200, 200, 200}, {0, 0, 0, 0},
    {1, 130, 131, 180},  {7, 7, 7, 200},   {127, 128, 129, 193}};
const std::vector<std::vector<i32>> kEnds3of70 = {{0, 70, 70}, {1, 2, 69}, {64, 65, 70}, {0, 0, 0}};

std::vector<WrittenCase> ragged_cases() {
  return {
      {"M-grouped bf16",
       "chain a(input x: bf16[200, 64], weight w: bf16[4, 72, 64], input e: i32[4]) {\n"
       "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: bf16 }",
       {0},
       kEnds4of200},
      {"M-grouped, epilogue, odd sizes",
       "chain a(input x: f16[200, 37], weight w: f16[4, 53, 37], weight b: f16[53] align 2,\n"
       "        input e: i32[4]) {\n"
       "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
       "  z = relu(add(y, b))\n  return z: f32 strides[61, 1] align 4 }",
       {0},
       kEnds4of200},
      {"M-grouped, x transposed",
       "chain a(input x: bf16[40, 200], weight w: bf16[4, 40, 48], input e: i32[4]) {\n"
       "  y = contract \"km,gkn->mn\"(x, w) ragged m by e over g\n  return y: bf16 }",
       {0},
       kEnds4of200},
      {"M-grouped tf32, result transposed",
       "chain a(input x: f32[200, 33], weight w: f32[4, 20, 33], input e: i32[4]) {\n"
       "  y = contract \"mk,gnk->nm\"(x, w) ragged m by e over g\n  return y: f32 }",
       {0},
       kEnds4of200},
      {"M-grouped in a batch",
       "chain a(input x: bf16[3, 70, 32], weight w: bf16[3, 3, 40, 32], input e: i32[3]) {\n"
       "  y = contract \"bmk,bgnk->bmn\"(x, w) ragged m by e over g\n  return y: bf16 }",
       {0},
       kEnds3of70},
      {"M-grouped, two row labels",
       "chain a(input x: f16[5, 70, 32], weight w: f16[3, 40, 32], input e: i32[3]) {\n"
       "  y = contract \"hmk,gnk->hmn\"(x, w) ragged m by e over g\n  return y: f16 }",
       {0},
       kEnds3of70},
      {"ragged dual GEMM",
       "chain a(input x: bf16[200, 48], weight w: bf16[4, 64, 48], weight v: bf16[4, 64, 48],\n"
       "        input e: i32[4]) {\n"
       "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
       "  z = contract \"mk,gnk->mn\"(x, v) ragged m by e over g\n"
       "  h = mul(relu(y), z)\n  return h: f32 }",
       {0},
       kEnds4of200},
      {"M-grouped, split-K",
       "chain a(input x: bf16[70, 256], weight w: bf16[3, 24, 256], input e: i32[3]) {\n"
       "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n  return y: f32 }",
       {0},
       kEnds3of70,
       4},
      {"K-grouped bf16",
       "chain a(input x: bf16[200, 40], input y: bf16[200, 56], input e: i32[4]) {\n"
       "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: f32 }",
       {0},
       kEnds4of200},
      {"K-grouped, K contiguous",
       "chain a(input x: f16[40, 200], input y: f16[56, 200], input e: i32[4]) {\n"
       "  d = contract \"mt,nt->gnm\"(x, y) ragged t by e over g\n  return d: f16 }",
       {0},
       kEnds4of200},
      {"K-grouped, one group, batch",
       "chain a(input x: f32[2, 70, 20], input y: f32[2, 70, 12], input e: i32[1]) {\n"
       "  d = contract \"btm,btn->bgmn\" f32 (x, y) ragged t by e over g\n  return d: f32 }",
       {0},
       {{70}, {0}, {33}}},
      {"K-grouped, split-K",
       "chain a(input x: bf16[200, 24], input y: bf16[200, 40], input e: i32[4]) {\n"
       "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n  return d: bf16 }",
       {0},
       kEnds4of200,
       3},
  };
}

std::vector<WrittenCase> size_cases() {
  return {
      {"no rows",
       "chain a(input x: bf16[0, 64], weight w: bf16[32, 64]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
       {},
       {}},
      {"no columns",
       "chain a(input x: f16[32, 64], weight w: f16[0, 64]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f16 }",
       {},
       {}},
      {"empty K",
       "chain a(input x: bf16[33, 0], weight w: bf16[40, 0], weight b: f32[40]) {\n"
       "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: bf16 }",
       {},
       {}},
      {"empty K, split-K",
       "chain a(input x: f32[33, 0], weight w: f32[40, 0]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }",
       {},
       {},
       2},
      {"sum of nothing",
       "chain a(input x: f32[0, 40]) {\n"
       "  y = sum \"mn->n\"(x)\n  return y: f32 }",
       {},
       {}},
      {"every bucket",
       "chain a[M in 0..700](input x: bf16[M, 136], weight w: bf16[264, 136], weight b: bf16[264]) "
       "{\n  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }",
       {0, 1, 15, 16, 17, 33, 64, 65, 127, 129, 256, 511, 513, 700},
       {}},
      {"symbol as N",
       "chain a[M in 1..300](input x: f16[72, 40], input y: f16[M, 40]) {\n"
       "  z = contract \"mk,nk->nm\"(x, y)\n  s = sum \"nm->m\"(z)\n"
       "  return z: f16 align 2, s: f32 }",
       {1, 8, 129, 300},
       {}},
      {"symbol as K",
       "chain a[M in 0..300](input x: f32[M, 40], input y: f32[M, 24]) {\n"
       "  z = contract \"km,kn->mn\"(x, y)\n  return z: f32 }",
       {0, 1, 7, 128, 300},
       {}},
      {"many tiles, bias and residual",
       "chain a(input x: bf16[515, 264], weight w: bf16[392, 264], weight b: bf16[392],\n"
       "        input r: bf16[515, 392]) {\n"
       "  y = add(add(contract \"mk,nk->mn\"(x, w), b), r)\n  return y: bf16 }",
       {},
       {}},
      {"many tiles, both transposed, padded rows",
       "chain a(input x: f16[200, 390] strides[392, 1], weight w: f16[200, 260] strides[264, 1]) "
       "{\n"
       "  y = contract \"km,kn->mn\"(x, w)\n  return y: f32 strides[264, 1] }",
       {},
       {}},
      {"long K, planned split-K",
       "chain a(input x: bf16[24, 4096], weight w: bf16[48, 4096], weight b: f32[48]) {\n"
       "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: f32 }",
       {},
       {}},
      {"dual GEMM in a batch, split-K",
       "chain a(input x: bf16[3, 40, 512], weight w: bf16[3, 72, 512], weight v: bf16[3, 72, 512]) "
       "{\n  g = contract \"bmk,bnk->bmn\"(x, w)\n  u = contract \"bmk,bnk->bmn\"(x, v)\n"
       "  h = mul(min(g, 1000), max(u, -1000))\n  return h: f32 }",
       {},
       {},
       4},
  };
}

}  // namespace

const std::vector<WrittenCase>& written_cases() {
  static const std::vector<WrittenCase> cases = [] {
    std::vector<WrittenCase> all = ragged_cases();
    for (WrittenCase& more : size_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : skinny_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : ragged_cases_sm90()) all.push_back(std::move(more));
    for (WrittenCase& more : ragged_cases_skinny()) all.push_back(std::move(more));
    for (WrittenCase& more : small_m_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : beside_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : norm_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : row_reduction_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : tf32_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : cp_async_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : math_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : group_operand_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : in_place_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : sum_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : cluster_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : transposed_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : dequant_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : dequantise_cases()) all.push_back(std::move(more));
    for (WrittenCase& more : fp8_cases()) all.push_back(std::move(more));
    return all;
  }();
  return cases;
}

const std::vector<WrittenCase>& sanitizer_cases() {
  static const std::vector<WrittenCase> others = {
      {"k-slices",
       "chain a(input x: bf16[136, 456], weight w: bf16[136, 456]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
       {},
       {},
       0,
       "64x64x64p2s8z3",
       "gemm_sm90"},
      {"rows reduced",
       "chain a(input x: bf16[136, 72], weight w: bf16[3, 64, 72]) {\n"
       "  h = contract \"mk,jck->mjc\"(x, w)\n  s = reduce_max \"mjc->mj\"(abs(h))\n"
       "  q = cast(div(h, s @ \"mj\"), e4m3)\n  return q: e4m3, s: f32 }",
       {},
       {},
       0,
       "64x128x64p2s3",
       "gemm_sm90",
       true},
      {"fp8",
       "chain a(input x: e4m3[72, 272], weight w: e4m3[136, 272], input s: f32[72]) {\n"
       "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: e4m3 }",
       {},
       {},
       0,
       "",
       "gemm_sm90"},
      {"pointwise, vectors",
       "chain a(input x: bf16[33, 64], weight b: bf16[64]) {\n"
       "  y = gelu(add(x, b))\n  return y: bf16 }",
       {},
       {}},
      {"pointwise, odd rows",
       "chain a(input x: f16[17, 37] align 2, input y: f16[17, 37] align 2) "
       "{\n  z = mul(silu(x), y)\n  return z: f16 align 2 }",
       {},
       {}},
      {"pointwise, transposed",
       "chain a(input x: f32[40, 24] strides[1, 40], input y: f32[40, 24]) "
       "{\n  z = div(tanh(x), exp(y))\n  return z: f32 strides[25, 1] align 4 }",
       {},
       {}},
      {"pointwise, symbol",
       "chain a[M in 0..40](input x: bf16[M, 96], scalar s: f32) {\n"
       "  y = scale(softplus(x), s)\n  return y: f32 }",
       {37},
       {}},
      {"pointwise, one element",
       "chain a(input x: f32[1]) {\n  y = sigmoid(x)\n  return y: f16 align 2 }",
       {},
       {}},
      {"pointwise, mathematical ops",
       "chain a(input x: f32[20, 37] align 4, input y: f32[20, 37] align 4) {\n"
       "  z = select(lt(x, y), add(sin(x), rsqrt(y)), mul(log(x), pow(y, exponent = -3)))\n"
       "  return z: f32 align 4 }",
       {},
       {}},
      {"sum over rows",
       "chain a(input x: bf16[70, 48]) {\n  y = sum \"mn->n\"(x)\n  return y: f32 }",
       {},
       {}},
      {"maximum over columns",
       "chain a(input x: f16[19, 131] align 2) {\n"
       "  y = reduce_max \"mn->m\"(x)\n  return y: f32 align 4 }",
       {},
       {}},
      {"sum over columns",
       "chain a(input x: f16[19, 131] align 2) {\n"
       "  y = sum \"mn->m\"(relu2(x))\n  return y: f32 align 4 }",
       {},
       {}},
      {"sum of everything",
       "chain a(input x: f32[33, 65]) {\n"
       "  y = sum \"mn->\"(x)\n  return y: f32 align 4 }",
       {},
       {}},
      {"gemm bf16",
       "chain a(input x: bf16[72, 64], weight w: bf16[136, 64]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
       {},
       {}},
      {"gemm f16 with bias",
       "chain a(input x: f16[130, 96], weight w: f16[72, 96], weight b: f16[72]) "
       "{\n  y = gelu_tanh(add(contract \"mk,nk->mn\"(x, w), b))\n"
       "  return y: f16 }",
       {},
       {}},
      {"gemm tf32",
       "chain a(input x: f32[40, 36], weight w: f32[72, 36]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }",
       {},
       {}},
      {"gemm f32",
       "chain a(input x: f32[40, 36], weight w: f32[72, 36]) {\n"
       "  y = contract \"mk,nk->mn\" f32 (x, w)\n  return y: f32 }",
       {},
       {}},
      {"gemm bf16, odd",
       "chain a(input x: bf16[33, 31] align 2, weight w: bf16[17, 31] align 2) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 align 2 }",
       {},
       {}},
      {"gemm tf32, odd",
       "chain a(input x: f32[33, 31] align 4, weight w: f32[17, 31] align 4) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 align 4 }",
       {},
       {}},
      {"gemm f32, odd, transposed",
       "chain a(input x: f32[31, 33] align 4, weight w: f32[31, 17] align 4) "
       "{\n  y = contract \"km,kn->nm\" f32 (x, w)\n"
       "  return y: f32 align 4 }",
       {},
       {}},
      {"gemm bf16, x transposed",
       "chain a(input x: bf16[64, 72], weight w: bf16[136, 64]) {\n"
       "  y = contract \"km,nk->mn\"(x, w)\n  return y: bf16 }",
       {},
       {}},
      {"gemm f16, both transposed",
       "chain a(input x: f16[64, 72], weight w: f16[64, 136]) {\n"
       "  y = contract \"km,kn->nm\"(x, w)\n  return y: f16 }",
       {},
       {}},
      {"gemm tf32, both transposed",
       "chain a(input x: f32[64, 72], weight w: f32[64, 40]) {\n"
       "  y = contract \"km,kn->mn\"(x, w)\n  return y: f32 }",
       {},
       {}},
      {"gemm with a K tail",
       "chain a(input x: bf16[40, 200], weight w: bf16[40, 200]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32 }",
       {},
       {}},
      {"batched gemm",
       "chain a(input x: bf16[3, 20, 40], weight w: bf16[3, 24, 40]) {\n"
       "  y = contract \"bmk,bnk->bmn\"(x, w)\n  return y: bf16 }",
       {},
       {}},
      {"grouped linear",
       "chain a(input x: f16[20, 3, 40], weight w: f16[3, 24, 40]) {\n"
       "  y = contract \"bgk,gnk->bgn\"(x, w)\n  return y: f16 }",
       {},
       {}},
      {"two K labels",
       "chain a(input x: bf16[20, 3, 40], weight w: bf16[24, 40, 3]) {\n"
       "  y = contract \"mgk,nkg->mn\"(x, w)\n  return y: f32 }",
       {},
       {}},
      {"dual GEMM",
       "chain a(input x: bf16[40, 64], weight w: bf16[72, 64], weight v: bf16[72, 64]) "
       "{\n  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
       "  h = mul(gelu(g), u)\n  return h: bf16 }",
       {},
       {}},
      {"dual GEMM, odd",
       "chain a(input x: f16[21, 35] align 2, weight w: f16[35, 23] align 2,\n"
       "        weight v: f16[35, 23] align 2) {\n"
       "  g = contract \"mk,kn->mn\"(x, w)\n  u = contract \"mk,kn->mn\"(x, v)\n"
       "  h = mul(silu(g), u)\n  return h: f16 strides[29, 1] align 2 }",
       {},
       {}},
      {"split-K",
       "chain a(input x: bf16[24, 512], weight w: bf16[40, 512], weight b: f32[40]) {\n"
       "  y = relu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }",
       {},
       {},
       4},
      {"skinny",
       "chain a(input x: bf16[5, 1088], weight w: bf16[39, 1088], weight b: f32[39] align 4) {\n"
       "  y = silu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 align 2 }",
       {},
       {},
       0,
       "",
       "skinny"},
      {"skinny, dual GEMM, split-K, w an input",
       "chain a(input x: f32[11, 1056], input w: f32[24, 1056], input v: f32[24, 1056]) {\n"
       "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
       "  h = mul(relu(g), u)\n  return h: f32 }",
       {},
       {},
       2,
       "",
       "skinny"},
      {"dual GEMM, split-K",
       "chain a(input x: f16[24, 256], weight w: f16[40, 256],\n"
       "        weight v: f16[40, 256]) {\n"
       "  g = contract \"mk,nk->mn\"(x, w)\n"
       "  u = contract \"mk,nk->mn\"(x, v)\n"
       "  h = mul(silu(g), u)\n  return h: f16 }",
       {},
       {},
       2},
      {"M-grouped",
       "chain a(input x: bf16[70, 40], weight w: bf16[3, 24, 40], input e: i32[3]) {\n"
       "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
       "  return y: bf16 }",
       {0},
       {{0, 33, 65}}},
      {"K-grouped",
       "chain a(input x: f16[70, 40], input y: f16[70, 24], input e: i32[3]) {\n"
       "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n"
       "  return d: f32 }",
       {0},
       {{5, 5, 69}}},
      {"gemm_sm90, M-grouped",
       "chain a(input x: bf16[200, 136], weight w: bf16[3, 72, 136], input e: i32[3]) {\n"
       "  y = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
       "  return y: bf16 }",
       {0},
       {{5, 140, 190}},
       0,
       "128x128x64p2s6c2",
       "gemm_sm90"},
      {"gemm_sm90, K-grouped",
       "chain a(input x: f16[200, 136], input y: f16[200, 136], input e: i32[3]) {\n"
       "  d = contract \"tm,tn->gmn\"(x, y) ragged t by e over g\n"
       "  return d: f32 }",
       {0},
       {{5, 140, 190}},
       0,
       "128x128x64p2s6c2",
       "gemm_sm90"},
      {"gemm_sm90, transposed",
       "chain a(input x: bf16[150, 136], weight w: bf16[264, 136], weight b: bf16[264]) {\n"
       "  y = add(contract \"mk,nk->mn\"(x, w), b)\n  return y: bf16 }",
       {},
       {},
       0,
       "128x80x64p2s6c2t",
       "gemm_sm90"},
      {"gemm_sm90, transposed, residual",
       "chain a(input x: bf16[150, 136], weight w: bf16[264, 136], input r: bf16[150, 264]) {\n"
       "  y = mul(contract \"mk,nk->mn\"(x, w), r)\n  return y: bf16 }",
       {},
       {},
       0,
       "128x104x64p2s4t",
       "gemm_sm90"},
      {"gemm_sm90, stores in pairs",
       "chain a(input x: bf16[300, 136], weight w: bf16[392, 136]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
       {},
       {},
       0,
       "128x160x64p2s5c2",
       "gemm_sm90"},
      {"skinny, M-grouped",
       "chain a(input x: bf16[40, 576], weight w: bf16[4, 39, 576], weight b: f32[39] align 4,\n"
       "        input e: i32[4]) {\n"
       "  y = silu(add(contract \"mk,gnk->mn\"(x, w) ragged m by e over g, b))\n"
       "  return y: bf16 align 2 }",
       {0},
       {{5, 5, 25, 38}},
       0,
       "",
       "skinny"},
      {"skinny, ragged dual GEMM",
       "chain a(input x: f32[12, 544], weight w: f32[40, 24, 544], weight v: f32[40, 24, 544],\n"
       "        input e: i32[40]) {\n"
       "  g = contract \"mk,gnk->mn\"(x, w) ragged m by e over g\n"
       "  u = contract \"mk,gnk->mn\"(x, v) ragged m by e over g\n"
       "  h = mul(relu(g), u)\n  return h: f32 }",
       {0},
       {{0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3,  3,  3,  3,  3,  3,  3,
         3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 12, 12, 12, 12, 12, 12, 12}},
       0,
       "",
       "skinny"},
      {"gemm, symbol",
       "chain a[M in 1..90](input x: bf16[M, 48], weight w: bf16[40, 48]) {\n"
       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16 }",
       {77},
       {}},
      {"two contractions",
       "chain a(input x: bf16[24, 48], weight w: bf16[40, 48],\n"
       "        weight v: bf16[16, 40]) {\n"
       "  h = cast(relu(contract \"mk,nk->mn\"(x, w)), bf16)\n"
       "  y = contract \"mk,nk->mn\"(h, v)\n  return y: bf16 }",
       {},
       {}},
  };
  static const std::vector<WrittenCase> cases = [] {
    std::vector<WrittenCase> all = others;
    for (WrittenCase& more : dequant_sanitizer_cases()) all.push_back(std::move(more));
    return all;
  }();
  return cases;
}

}  // namespace catenary::gpu_suite
