// SPDX-License-Identifier: Apache-2.0
// Handwritten chains with fp8 operands; see cases.h. Every contraction must be of `gemm_sm90`:
// tiles with one and with two sets of partial sums, fast sums, scales, fp8 results, tails of K and
// of tiles.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

std::string scaled(const char* dtype, const char* word, i64 m, i64 n, i64 k, const char* result) {
  return fmt::format(
      "chain a(input x: {0}[{2}, {4}], weight w: {0}[{3}, {4}], input s: f32[{2}],\n"
      "        weight t: f32[{3}], weight b: bf16[{3}]) {{\n"
      "  h = contract \"mk,nk->mn\" {1} (x, w)\n"
      "  y = relu(add(mul(mul(h, s @ \"m\"), t @ \"n\"), b))\n  return y: {5} }}",
      dtype, word, m, n, k, result);
}

WrittenCase made(std::string name, std::string text, const char* tile = "",
                 std::vector<i64> symbols = {}) {
  WrittenCase result;
  result.name = "fp8, " + std::move(name);
  result.text = std::move(text);
  result.tile = tile;
  result.family = "gemm_sm90";
  result.symbols = std::move(symbols);
  return result;
}

const char* const kGated =
    "chain a(input x: e4m3[264, 272], weight w: e4m3[328, 272], weight v: e4m3[328, 272],\n"
    "        input s: f32[264], weight t: f32[328], weight u: f32[328]) {\n"
    "  g = contract \"mk,nk->mn\"(x, w)\n  h = contract \"mk,nk->mn\"(x, v)\n"
    "  a = mul(mul(g, s @ \"m\"), t @ \"n\")\n  b = mul(mul(h, s @ \"m\"), u @ \"n\")\n"
    "  y = mul(relu(a), b)\n  return y: e4m3 }";

const char* const kExperts =
    "chain a(input x: e4m3[700, 272], weight w: e4m3[5, 136, 272], input ends: i32[5],\n"
    "        input s: f32[700], weight t: f32[5, 136]) {\n"
    "  h = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n"
    "  y = mul(mul(h, s @ \"m\"), t @ \"en\")\n  return y: bf16 }";

const char* const kGrouped =
    "chain a(input x: e4m3[300, 3, 400], weight w: e4m3[3, 136, 400], input s: f32[300],\n"
    "        weight t: f32[3, 136]) {\n"
    "  y = mul(mul(contract \"bgk,gnk->bgn\"(x, w), s @ \"b\"), t @ \"gn\")\n  return y: e4m3 }";

const char* const kRows =
    "chain a[M in 0..300](input x: e4m3[M, 1200], weight w: e4m3[200, 1200], input s: f32[M]) {\n"
    "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: f32 }";

}  // namespace

std::vector<WrittenCase> fp8_cases() {
  std::vector<WrittenCase> cases;
  for (const char* dtype : {"e4m3", "e5m2"}) {
    for (const char* word : {"", "fast_accum"}) {
      for (const char* result : {"bf16", "e4m3", "e5m2"}) {
        cases.push_back(made(fmt::format("{} {} to {}", dtype, word, result),
                             scaled(dtype, word, 520, 392, 1040, result)));
      }
    }
  }
  for (const char* tile :
       {"256x128x128g2s4", "256x128x128g2s4c2", "256x128x128g2s4n2", "128x192x128g2s4",
        "128x128x128g2s6", "128x128x128p2s6", "64x128x128p2s8", "128x64x128p2s8", "64x128x128g1s8",
        "64x64x128g1s6k4"}) {
    for (const i64 k : {112, 256, 592, 2064}) {
      cases.push_back(
          made(fmt::format("{} K {}", tile, k), scaled("e4m3", "", 520, 328, k, "bf16"), tile));
    }
  }
  for (const char* tile : {"", "128x128x128g2s4", "64x128x128p2s4"}) {
    cases.push_back(made(fmt::format("gated {}", tile), kGated, tile));
    cases.push_back(made(fmt::format("experts {}", tile), kExperts, tile));
    cases.push_back(made(fmt::format("grouped {}", tile), kGrouped, tile));
  }
  cases.push_back(made("rows by symbol", kRows, "", {0, 1, 9, 64, 65, 300}));
  cases.push_back(made("odd sizes of results",
                       "chain a(input x: e4m3[77, 144], weight w: e4m3[33, 144]) {\n"
                       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: e4m3 align 1 }"));
  return cases;
}

}  // namespace catenary::gpu_suite
