// SPDX-License-Identifier: Apache-2.0
// Handwritten chains whose rows are reduced in the epilogue of `gemm_sm90`; see cases.h.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

// h rounded to e4m3 with a scale for each row and block.
std::string quantised(const std::string& head, const char* returns = "q: e4m3, s: f32") {
  return fmt::format(
      "{}  s = mul(max(reduce_max \"mjc->mj\"(abs(h)), 0.0001), 0.002232142857142857)\n"
      "  q = cast(mul(h, recip(s) @ \"mj\"), e4m3)\n  return {} }}",
      head, returns);
}

// m rows, j blocks of c columns.
std::string blocks(const char* m, int j, int c, int k, const char* returns = "q: e4m3, s: f32") {
  return quantised(
      fmt::format("chain a{4}(input x: bf16[{0}, {3}], weight w: bf16[{1}, {2}, {3}],\n"
                  "        weight b: f32[{1}, {2}]) {{\n"
                  "  h = silu(add(contract \"mk,jck->mjc\"(x, w), b))\n",
                  m, j, c, k, m[0] == 'M' ? "[M in 0..1000]" : ""),
      returns);
}

std::string dual(int m, int j, int k) {
  return quantised(fmt::format(
      "chain a(input x: bf16[{0}, {2}], weight w: bf16[{1}, 128, {2}],\n"
      "        weight u: bf16[{1}, 128, {2}]) {{\n"
      "  h = mul(silu(contract \"mk,jck->mjc\"(x, w)), contract \"mk,jck->mjc\"(x, u))\n",
      m, j, k));
}

std::string fp8(int m, int j, int k) {
  return quantised(
      fmt::format("chain a(input x: e4m3[{0}, {2}], input t: f32[{0}, {3}],\n"
                  "        weight w: e4m3[{1}, 128, {2}], weight u: f32[{1}, 1, {3}]) {{\n"
                  "  h = gelu_tanh(contract \"mk,jck->mjc\"(dequant(x, t) block (1, 128),\n"
                  "                                       dequant(w, u) block (128, 128)))\n",
                  m, j, k, (k + 127) / 128));
}

std::string softmax(int m, int n, int k) {
  return fmt::format(
      "chain a(input x: bf16[{0}, {2}], weight w: bf16[{1}, {2}], weight b: f32[{1}]) {{\n"
      "  h = add(contract \"mk,nk->mn\"(x, w), b)\n  a = reduce_max \"mn->m\"(h)\n"
      "  e = exp(sub(h, a @ \"m\"))\n  z = sum \"mn->m\"(e)\n"
      "  y = mul(e, recip(z) @ \"m\")\n  return y: f32, z: f32 }}",
      m, n, k);
}

std::string heads(int m, int j, int c, int k, const char* dtype) {
  return fmt::format(
      "chain a(input x: {4}[{0}, {3}], weight w: {4}[{1}, {2}, {3}], weight g: {4}[{2}]) {{\n"
      "  h = contract \"mk,jck->mjc\"(x, w)\n  v = mul(sum \"mjc->mj\"(square(h)), {5})\n"
      "  y = mul(mul(h, rsqrt(add(v, 0.00001)) @ \"mj\"), g)\n  return y: {4} }}",
      m, j, c, k, dtype, 1.0 / c);
}

// Q and K with a norm of each head, V without.
std::string qkv(int m, int heads, int k) {
  return fmt::format(
      "chain a(input x: bf16[{0}, {2}], weight wq: bf16[{1}, 128, {2}], weight wk: bf16[2, 128, "
      "{2}],"
      "\n        weight wv: bf16[264, {2}], weight gq: bf16[128], weight gk: f32[128]) {{\n"
      "  q = contract \"mk,jck->mjc\"(x, wq)\n  k = contract \"mk,jck->mjc\"(x, wk)\n"
      "  v = contract \"mk,nk->mn\"(x, wv)\n"
      "  a = rsqrt(add(mul(sum \"mjc->mj\"(square(q)), 0.0078125), 0.00001))\n"
      "  b = rsqrt(add(mul(sum \"mjc->mj\"(square(k)), 0.0078125), 0.00001))\n"
      "  nq = mul(mul(q, a @ \"mj\"), gq)\n  nk = mul(mul(k, b @ \"mj\"), gk)\n"
      "  return nq: bf16, nk: bf16, v: bf16 }}",
      m, heads, k);
}

const char* const kExperts =
    "chain a(input x: bf16[700, 264], weight w: bf16[5, 3, 128, 264], input e: i32[5]) {\n"
    "  h = silu(contract \"mk,ejck->mjc\"(x, w) ragged m by e over e)\n";

WrittenCase made(const std::string& name, std::string text, const char* tile = "",
                 std::vector<i64> symbols = {}) {
  WrittenCase result;
  result.name = fmt::format("rows reduced, {} {}", name, tile);
  result.text = std::move(text);
  result.tile = tile;
  result.prefer_inside = true;
  result.symbols = std::move(symbols);
  return result;
}

}  // namespace

std::vector<WrittenCase> row_reduction_cases() {
  std::vector<WrittenCase> cases;
  for (const char* tile :
       {"", "64x128x64g1s8", "64x128x64p2s7", "128x128x64p2s6", "128x128x64g2s6", "128x256x64g2s4",
        "64x256x64p2s4", "256x128x64g2s4", "128x128x64p2s6c2", "128x128x64p2s6n2"}) {
    cases.push_back(made("blocks", blocks("521", 5, 128, 1032), tile));
  }
  for (const int c : {32, 64, 96, 192, 256})
    cases.push_back(made(fmt::format("blocks of {}", c), blocks("521", 6, c, 520)));
  for (const int n : {8, 40, 72, 128, 248})
    cases.push_back(made(fmt::format("softmax of {}", n), softmax(521, n, 520)));
  for (const char* dtype : {"bf16", "f16"}) {
    cases.push_back(made(fmt::format("heads {}", dtype), heads(521, 7, 64, 520, dtype)));
    cases.push_back(made(fmt::format("heads of 128 {}", dtype), heads(77, 9, 128, 1024, dtype)));
  }
  for (const char* returns :
       {"q: e4m3, s: f32 strides[1, 521]", "q: e5m2, s: bf16", "q: e4m3, s: f32, h: bf16"}) {
    cases.push_back(made(returns, blocks("521", 5, 128, 520, returns)));
  }
  for (const char* tile : {"", "128x128x64g2s6", "128x256x64g2s4", "64x128x64p2s7"})
    cases.push_back(made("qkv", qkv(521, 8, 1032), tile));
  for (const char* tile : {"", "128x128x64g2s4", "64x128x64p2s5"})
    cases.push_back(made("dual", dual(521, 3, 1032), tile));
  for (const char* tile : {"", "128x128x128g2s6", "64x128x128p2s8"})
    cases.push_back(made("fp8 blocks", fp8(521, 5, 1040), tile));
  for (const char* tile : {"", "128x128x64p2s6"}) {
    cases.push_back(made("experts", quantised(kExperts), tile));
    cases.back().ends = {{0, 130, 130, 400, 700}, {64, 65, 66, 67, 68}, {700, 700, 700, 700, 700}};
  }
  cases.push_back(made("symbol", blocks("M", 5, 128, 520), "", {0, 1, 9, 64, 65, 300, 1000}));
  return cases;
}

}  // namespace catenary::gpu_suite
