// SPDX-License-Identifier: Apache-2.0
// Handwritten chains with fp8 operands; see cases.h. Every contraction must be of `gemm_sm90`:
// tiles with one and with two sets of partial sums, fast sums, scales, scales per block in both
// orders, fp8 results, tails of K and of tiles.
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

// Scales per block; `rows_inside`: those of A and B have their rows innermost, padded.
std::string blocks(const char* dtype, i64 m, i64 n, i64 k, bool rows_inside, const char* result) {
  const i64 blocks_n = ceil_div(n, 128), blocks_k = ceil_div(k, 128);
  return fmt::format(
      "chain a(input x: {0}[{1}, {3}], input s: f32[{1}, {5}]{6}, weight w: {0}[{2}, {3}],\n"
      "        weight t: f32[{4}, {5}]{7}, weight b: bf16[{2}]) {{\n"
      "  h = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128))\n"
      "  y = relu(add(h, b))\n  return y: {8} }}",
      dtype, m, n, k, blocks_n, blocks_k, rows_inside ? fmt::format(" strides[1, {}]", m + 4) : "",
      rows_inside ? fmt::format(" strides[1, {}]", blocks_n + 1) : "", result);
}

std::string blocks_experts(const char* strides_s, const char* strides_t) {
  return fmt::format(
      "chain a(input x: e4m3[700, 272], input s: f32[700, 3]{}, weight w: e4m3[5, 136, 272],\n"
      "        weight t: f32[5, 2, 3]{}, input ends: i32[5]) {{\n"
      "  y = contract \"mk,enk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, "
      "128))\n"
      "      ragged m by ends over e\n  return y: bf16 }}",
      strides_s, strides_t);
}

const char* const kBlocksGated =
    "chain a(input x: e4m3[264, 272], input s: f32[264, 3], weight w: e4m3[328, 272],\n"
    "        weight t: f32[3, 3], weight v: e4m3[328, 272], weight u: f32[3, 3] strides[1, 4]) {\n"
    "  d = dequant(x, s) block (1, 128)\n"
    "  g = contract \"mk,nk->mn\"(d, dequant(w, t) block (128, 128))\n"
    "  h = contract \"mk,nk->mn\"(d, dequant(v, u) block (128, 128))\n"
    "  y = mul(relu(g), h)\n  return y: bf16 }";

const char* const kBlocksGatedExperts =
    "chain a(input x: e4m3[700, 272], input s: f32[700, 3] strides[1, 700], input ends: i32[4],\n"
    "        weight w: e4m3[4, 136, 272], weight t: f32[4, 2, 3], weight v: e4m3[4, 136, 272],\n"
    "        weight u: f32[4, 2, 3]) {\n"
    "  d = dequant(x, s) block (1, 128)\n"
    "  g = contract \"mk,enk->mn\"(d, dequant(w, t) block (128, 128)) ragged m by ends over e\n"
    "  h = contract \"mk,enk->mn\"(d, dequant(v, u) block (128, 128)) ragged m by ends over e\n"
    "  y = mul(relu(g), h)\n  return y: bf16 }";

const char* const kBlocksRows =
    "chain a[M in 0..300](input x: e4m3[M, 1200], input s: f32[M, 10] strides[1, 300],\n"
    "                     weight w: e4m3[200, 1200], weight t: f32[2, 10]) {\n"
    "  y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128))\n"
    "  return y: f32 }";

void add_blocks(std::vector<WrittenCase>& cases) {
  for (const char* tile : {"256x128x128g2s4", "256x128x128g2s4c2", "256x128x128g2s4n2",
                           "128x184x128g2s4", "128x128x128g2s6", "64x192x128p2s5", "64x128x128p2s8",
                           "128x64x128p2s8", "64x128x128g1s8", "64x64x128g1s6k4"}) {
    for (const i64 k : {112, 592, 2064}) {
      cases.push_back(made(fmt::format("blocks {} K {}", tile, k),
                           blocks("e4m3", 520, 328, k, k != 592, "bf16"), tile));
    }
  }
  for (const char* dtype : {"e4m3", "e5m2"}) {
    for (const bool rows_inside : {false, true}) {
      cases.push_back(made(fmt::format("blocks {} {}", dtype, rows_inside ? "rows" : "columns"),
                           blocks(dtype, 520, 392, 1040, rows_inside, dtype)));
    }
  }
  for (const char* tile : {"", "256x64x128g2s4", "128x96x128g2s4", "64x64x128p2s4"}) {
    cases.push_back(made(fmt::format("blocks gated {}", tile), kBlocksGated, tile));
    cases.push_back(made(fmt::format("blocks gated experts {}", tile), kBlocksGatedExperts, tile));
  }
  // Weight streams of a width that has columns of one block and of two.
  cases.push_back(made("blocks small M", blocks("e4m3", 9, 5400, 1200, false, "bf16")));
  for (const char* tile : {"", "128x128x128g2s4", "128x184x128g2s4", "64x128x128p2s4"}) {
    cases.push_back(made(fmt::format("blocks experts {}", tile), blocks_experts("", ""), tile));
    cases.push_back(made(fmt::format("blocks experts, rows inside {}", tile),
                         blocks_experts(" strides[1, 704]", " strides[20, 1, 4]"), tile));
  }
  cases.push_back(made("blocks rows by symbol", kBlocksRows, "", {0, 1, 9, 64, 65, 300}));
}

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
       {"256x128x128g2s4", "256x128x128g2s4c2", "256x128x128g2s4n2", "128x184x128g2s4",
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
  // Results that are staged: whole subtiles, 8 columns of the last 16, beside 16-bit results.
  for (const char* tile :
       {"256x128x128g2s4", "128x128x128p2s6", "64x128x128p2s8", "128x184x128g2s4"}) {
    for (const char* result : {"e4m3 strides[336, 1]", "e5m2 strides[344, 1]"}) {
      cases.push_back(made(fmt::format("{} to {}", tile, result),
                           scaled("e4m3", "", 520, 328, 592, result), tile));
    }
    cases.push_back(
        made(fmt::format("{} to e4m3", tile), scaled("e4m3", "", 520, 384, 592, "e4m3"), tile));
  }
  // Tiles that begin between 16 bytes.
  for (const char* tile : {"128x136x128g2s4", "64x104x128p2s4"}) {
    cases.push_back(
        made(fmt::format("{} to e4m3", tile), scaled("e4m3", "", 520, 1088, 592, "e4m3"), tile));
  }
  for (const char* tile : {"128x128x128g2s6", "64x128x128p2s8"}) {
    cases.push_back(made(fmt::format("{} to two", tile),
                         scaled("e4m3", "", 520, 336, 592, "e4m3, h: bf16"), tile));
  }
  cases.push_back(made("rows by symbol", kRows, "", {0, 1, 9, 64, 65, 300}));
  cases.push_back(made("odd sizes of results",
                       "chain a(input x: e4m3[77, 144], weight w: e4m3[33, 144]) {\n"
                       "  y = contract \"mk,nk->mn\"(x, w)\n  return y: e4m3 align 1 }"));
  add_blocks(cases);
  return cases;
}

}  // namespace catenary::gpu_suite
