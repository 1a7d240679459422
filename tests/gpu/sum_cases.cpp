// SPDX-License-Identifier: Apache-2.0
// Handwritten chains whose contractions add into one accumulator, the kernels of a gated layer's
// backward, and sums over rows, by group too, that begin in a contraction's epilogue; see cases.h.
#include "tests/gpu/cases.h"
#include "tests/gpu/sm90_cases.h"

namespace catenary::gpu_suite {
namespace {

// dx of a gated layer: dg wg + du wu, with `k` and `l` terms.
std::string dx(int m, int n, int k, int l, const char* dtype = "bf16") {
  return fmt::format(
      "chain a(input dg: {4}[{0}, {2}], weight wg: {4}[{2}, {1}], input du: {4}[{0}, {3}],\n"
      "        weight wu: {4}[{3}, {1}]) {{\n"
      "  g = contract \"mk,kn->mn\"(dg, wg)\n  u = contract \"mk,kn->mn\"(du, wu)\n"
      "  y = add(g, u)\n  return y: {4} }}",
      m, n, k, l, dtype);
}

constexpr const char* kThree =
    "chain a(input x: bf16[136, 3, 72], weight w: bf16[3, 200, 72], input y: bf16[136, 3, 264],\n"
    "        weight v: bf16[3, 200, 264], input z: bf16[136, 3, 64], weight u: bf16[3, 200, 64],\n"
    "        weight b: bf16[3, 200]) {\n"
    "  p = contract \"bgk,gnk->bgn\"(x, w)\n  q = contract \"bgk,gnk->bgn\"(y, v)\n"
    "  r = contract \"bgk,gnk->bgn\"(z, u)\n  s = add(p, q)\n  t = add(s, r)\n"
    "  c = relu(add(t, b))\n  return c: bf16 }";

// No operand of the first product is an activation.
constexpr const char* kWeightsFirst =
    "chain a(weight v: bf16[136, 1480], weight w: bf16[200, 1480], input x: bf16[136, 200],\n"
    "        weight u: bf16[200, 200]) {\n"
    "  p = contract \"mk,nk->mn\"(v, w)\n  q = contract \"mk,nk->mn\"(x, u)\n"
    "  y = add(p, q)\n  return y: bf16 }";

constexpr const char* kRagged =
    "chain a(input dg: bf16[300, 136], weight wg: bf16[3, 136, 200], input du: bf16[300, 72],\n"
    "        weight wu: bf16[3, 72, 200], input e: i32[3]) {\n"
    "  g = contract \"mk,ekn->mn\"(dg, wg) ragged m by e over e\n"
    "  u = contract \"mk,ekn->mn\"(du, wu) ragged m by e over e\n"
    "  y = add(g, u)\n  return y: bf16 }";

// dg, du and h beside the dgrad of the down projection.
constexpr const char* kGated =
    "chain a(weight wd: bf16[200, 264], input g: bf16[136, 264], input u: bf16[136, 264],\n"
    "        input dy: bf16[136, 200]) {\n"
    "  s = silu(g)\n  h = mul(s, u)\n  dh = contract \"mn,nk->mk\"(dy, wd)\n"
    "  du = mul(dh, s)\n  dg = mul(dh, u)\n  return h: bf16, du: bf16, dg: bf16 }";

// A bias gradient beside the dgrad of its layer.
std::string bias(int m, int n, int k) {
  return fmt::format(
      "chain a(input dy: bf16[{0}, {2}], weight w: bf16[{2}, {1}], input g: bf16[{0}, {1}]) {{\n"
      "  dh = contract \"mk,kn->mn\"(dy, w)\n  da = mul(dh, g)\n  db = sum \"mn->n\"(da)\n"
      "  return da: bf16, db: f32 }}",
      m, n, k);
}

constexpr const char* kTwoBiases =
    "chain a[M in 1..400](input dy: bf16[M, 3, 72], weight wg: bf16[3, 200, 72],\n"
    "        weight wu: bf16[3, 200, 72]) {\n"
    "  g = contract \"bgk,gnk->bgn\"(dy, wg)\n  u = contract \"bgk,gnk->bgn\"(dy, wu)\n"
    "  h = mul(relu(g), u)\n  a = sum \"bgn->gn\"(h)\n  b = sum \"bgn->gn\"(u)\n"
    "  return h: bf16, a: bf16, b: f32 }";

constexpr const char* kManyTerms =
    "chain a[M in 1..5000](input x: bf16[M, 77]) {\n  s = sum \"mn->n\"(x)\n"
    "  y = relu(s)\n  return y: f32 }";

constexpr const char* kStoredTerms =
    "chain a(input dy: bf16[3000, 3, 72], input g: bf16[3000, 3, 72]) {\n"
    "  p = mul(dy, relu(g))\n  s = sum \"bgn->gn\"(p)\n  q = mul(p, g)\n"
    "  return s: f32, q: bf16 }";

const std::vector<std::vector<i32>> kEnds3of300 = {
    {75, 150, 300}, {0, 0, 0}, {64, 129, 200}, {0, 300, 300}};

WrittenCase ragged(const char* name, const char* tile, const char* family) {
  return {name, kRagged, {0}, kEnds3of300, 0, tile, family};
}

// The bias gradients of gate and up beside the dgrad of the experts' down projection.
constexpr const char* kExpertBiases =
    "chain a(input dy: bf16[300, 136], weight wd: bf16[3, 136, 264], input g: bf16[300, 264],\n"
    "        input u: bf16[300, 264], input sum: f32[3, 264], input e: i32[3]) {\n"
    "  dh = contract \"mk,ekn->mn\"(dy, wd) ragged m by e over e\n  dg = mul(dh, u)\n"
    "  du = mul(dh, g)\n  bg = sum \"mn->en\"(dg) ragged m by e over e\n"
    "  bu = add(sum, sum \"mn->en\"(du) ragged m by e over e)\n"
    "  return dg: bf16, du: bf16, bg: bf16, bu: f32 inplace sum }";

constexpr const char* kGroupSum =
    "chain a[M in 0..5000](input x: bf16[M, 77], input e: i32[3]) {\n"
    "  y = sum \"mn->en\"(relu(x)) ragged m by e over e\n  return y: f32 }";

// A gain by group after a product that is not of the groups, and its gradient.
constexpr const char* kGain =
    "chain a(input x: bf16[300, 72], weight w: bf16[200, 72], weight s: f32[3, 200],\n"
    "        input e: i32[3]) {\n"
    "  c = contract \"mk,nk->mn\"(x, w)\n"
    "  y = mul(c @ \"mn\", s @ \"en\") ragged m by e over e\n"
    "  d = sum \"mn->en\"(y) ragged m by e over e\n  return y: bf16, d: f32 }";

const std::vector<std::vector<i32>> kEnds3ofAny = {
    {75, 150, 290}, {0, 0, 0}, {16, 17, 17}, {0, 300, 300}};

// A product with few results for each batch entry: a sum of products.
std::string dots(const char* x, const char* v, const char* equation) {
  return fmt::format(
      "chain a(input x: {}, input v: {}) {{\n  y = silu(contract \"{}\"(x, v))\n"
      "  return y: f32 align 4 }}",
      x, v, equation);
}

// A sum over columns of `count` operands.
std::string many_terms(int count) {
  std::string parameters, body = "  s0 = neg(x0)\n";
  for (int i = 0; i < count; ++i) {
    parameters += fmt::format("{}input x{}: bf16[300, 264]", i > 0 ? ", " : "", i);
    if (i > 0) body += fmt::format("  s{} = add(s{}, x{})\n", i, i - 1, i);
  }
  return fmt::format("chain a({}) {{\n{}  y = sum \"mn->n\"(s{})\n  return y: f32 }}", parameters,
                     body, count - 1);
}

WrittenCase by_group(const char* name, const char* tile = "", const char* family = "") {
  return {name, kExpertBiases, {0}, kEnds3of300, 0, tile, family};
}

}  // namespace

std::vector<WrittenCase> sum_cases() {
  return {
      {"sum of two", dx(100, 90, 70, 150), {0}, {}},
      {"sum of two, f32", dx(100, 90, 70, 150, "f32"), {0}, {}},
      {"sum of three, grouped", kThree, {0}, {}},
      {"sum with a product of weights", kWeightsFirst, {0}, {}},
      {"gated backward, three outputs", kGated, {0}, {}},
      forced_sm90("sm90 sum, ping-pong in clusters", dx(200, 200, 136, 328), "128x128x64p2s6c2"),
      forced_sm90("sm90 sum, cooperative", dx(200, 264, 328, 72), "128x256x64g2s4"),
      forced_sm90("sm90 sum, N clusters", dx(200, 264, 328, 72), "128x128x64p2s6n2"),
      forced_sm90("sm90 sum, cluster split-K", dx(72, 136, 328, 200), "64x64x64g1s4k4"),
      forced_sm90("sm90 sum, split-K", dx(72, 136, 328, 200), "64x64x64g1s8", 3),
      forced_sm90("sm90 sum of three, grouped", kThree, "128x128x64p2s6"),
      forced_sm90("sm90 sum with a product of weights", kWeightsFirst, "128x128x64p2s6"),
      ragged("sm90 sum, ragged", "128x128x64p2s6", "gemm_sm90"),
      ragged("sm80 sum, ragged", "64x64x64w2x2s4", "gemm_sm80"),
      forced_sm90("sm90 column sums, ping-pong in clusters", bias(333, 200, 136),
                  "128x128x64p2s6c2"),
      forced_sm90("sm90 column sums, cooperative", bias(333, 264, 328), "128x256x64g2s4"),
      {"sm80 column sums", bias(333, 93, 70), {0}, {}, 0, "64x64x64w2x2s4", "gemm_sm80"},
      {"column sums, two of a dual GEMM", kTwoBiases, {1, 17, 400}, {}},
      by_group("sm90 sums by group, ping-pong in clusters", "128x128x64p2s4c2", "gemm_sm90"),
      by_group("sm90 sums by group, cooperative", "128x256x64g2s3", "gemm_sm90"),
      by_group("sm80 sums by group", "64x64x64w2x2s4", "gemm_sm80"),
      {"sums by group", kGroupSum, {300, 5000}, kEnds3ofAny},
      {"gain by group after a dense product", kGain, {0}, kEnds3of300},
      {"sum in parts", kManyTerms, {1, 900, 5000}, {}},
      {"sum of products", dots("bf16[1000, 64]", "bf16[1000, 64]", "bk,bk->b"), {0}, {}},
      {"sum of products, odd", dots("f16[77, 3, 95]", "f16[77, 95]", "bmk,bk->bm"), {0}, {}},
      {"sum of products, one", dots("bf16[100003]", "bf16[100003]", "k,k->"), {0}, {}},
      {"sum of products, columns", dots("bf16[33, 50]", "bf16[33, 50, 4]", "bk,bkn->bn"), {0}, {}},
      {"narrow innermost label", dots("bf16[200, 96]", "bf16[136, 96, 3]", "mk,nkc->mnc"), {0}, {}},
      {"sum over 16 operands", many_terms(16), {0}, {}},
      {"sum that stores what else its terms are for", kStoredTerms, {0}, {}},
  };
}

}  // namespace catenary::gpu_suite
