// SPDX-License-Identifier: Apache-2.0
// Handwritten chains with a norm before a linear layer; see cases.h. `skinny`, `skinny_dequant` and
// one-tile CTAs of `gemm_sm90` form the sums of squares of the rows that they read; the first two
// multiply them by a gain.
#include "tests/gpu/cases.h"

namespace catenary::gpu_suite {
namespace {

std::string normed(const char* m, i64 n, i64 k, const char* dtype = "bf16") {
  return fmt::format(
      "chain a{4}(input x: {0}[{1}, {3}], weight w: {0}[{2}, {3}], weight b: f32[{2}] align 4) {{\n"
      "  q = sum \"mk->m\"(square(x))\n  s = rsqrt(add(mul(q, {5}), 0.00001))\n"
      "  y = add(mul(contract \"mk,nk->mn\"(x, w), s @ \"m\"), b)\n  return y: f32 align 4 }}",
      dtype, m, n, k, m[0] == 'M' ? "[M in 0..40]" : "", 1.0 / static_cast<double>(k));
}

// Residual add, then QKV and a dual GEMM over the normalised rows.
std::string layer(i64 m) {
  return fmt::format(
      "chain a(input p: bf16[{0}, 576], input r: bf16[{0}, 576], weight w: bf16[75, 576],\n"
      "        weight v: bf16[23, 576], weight g: bf16[40, 576], weight u: bf16[40, 576]) {{\n"
      "  h = cast(add(p, r), bf16)\n  q = sum \"mk->m\"(mul(h, h))\n"
      "  s = rsqrt(add(mul(q, 0.001736111111111111), 0.00001))\n"
      "  y = mul(contract \"mk,nk->mn\"(h, w), s @ \"m\")\n"
      "  z = mul(contract \"mk,nk->mn\"(h, v), s @ \"m\")\n"
      "  gg = mul(contract \"mk,nk->mn\"(h, g), s @ \"m\")\n"
      "  uu = mul(contract \"mk,nk->mn\"(h, u), s @ \"m\")\n  t = mul(silu(gg), uu)\n"
      "  return h: bf16, y: bf16 align 2, z: f32 align 4, t: bf16 }}",
      m);
}

// Residual add, then two packed weights side by side and a pair over the normalised rows.
std::string packed_layer(const char* m, const char* q = "i4", const char* dtype = "bf16") {
  return fmt::format(
      "chain a{1}(input p: {3}[{0}, 1184], input r: {3}[{0}, 1184], weight w: {2}[75, 1184] "
      "packed,\n"
      "        weight ws: bf16[75, 10], weight v: {2}[40, 1184] packed, weight vs: bf16[40, 10],\n"
      "        weight g: {2}[72, 1184] packed, weight gs: f32[72, 37],\n"
      "        weight u: {2}[72, 1184] packed, weight us: f32[72, 37]) {{\n"
      "  h = cast(add(p, r), {3})\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(h)), 0.0008445945945945946), 0.00001))\n"
      "  y = mul(contract \"mk,nk->mn\"(h, dequant(w, ws) block (1, 128)), s @ \"m\")\n"
      "  z = mul(contract \"mk,nk->mn\"(h, dequant(v, vs) block (1, 128)), s @ \"m\")\n"
      "  gg = mul(contract \"mk,nk->mn\"(h, dequant(g, gs) block (1, 32)), s @ \"m\")\n"
      "  uu = mul(contract \"mk,nk->mn\"(h, dequant(u, us) block (1, 32)), s @ \"m\")\n"
      "  t = mul(silu(gg), uu)\n"
      "  return y: f32 align 4, z: {3}, t: {3} }}",
      m, m[0] == 'M' ? "[M in 0..40]" : "", q, dtype);
}

// A packed weight with one scale for a row, or with zeros, over the normalised rows; times a gain.
std::string packed_normed(const char* m, bool zeros, bool gain) {
  constexpr i64 kColumns = 1184;
  const i64 group = zeros ? 64 : kColumns;
  const std::string numbers = fmt::format("[75, {}]", (kColumns + group - 1) / group);
  return fmt::format(
      "chain a(input x: bf16[{0}, {1}], weight q: u4[75, {1}] packed, weight t: bf16{2}{3}{4}) {{\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.0008445945945945946), 0.00001))\n{5}"
      "  y = mul(contract \"mk,nk->mn\"({6}, dequant(q, t{7}) block (1, {8})), s @ \"m\")\n"
      "  return y: f32 align 4 }}",
      m, kColumns, numbers, zeros ? ", weight z: i8" + numbers : "",
      gain ? fmt::format(", weight g: bf16[{}]", kColumns) : "",
      gain ? "  xg = cast(mul(x @ \"mk\", g @ \"k\"), bf16)\n" : "", gain ? "xg" : "x",
      zeros ? ", z" : "", group);
}

// The rows times a gain, rounded, before the product; with the norm's scale after it or without.
std::string gained(const char* m, i64 k, const char* dtype = "bf16", bool norm = true,
                   const char* role = "weight") {
  const std::string scale =
      fmt::format("  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), {}), 0.00001))\n",
                  1.0 / static_cast<double>(k));
  return fmt::format(
      "chain a{6}(input x: {0}[{1}, {2}], {3} g: {0}[{2}], weight w: {0}[75, {2}],\n"
      "        weight b: f32[75] align 4) {{\n{4}"
      "  xg = cast(mul(x @ \"mk\", g @ \"k\"), {0})\n  p = contract \"mk,nk->mn\"(xg, w)\n"
      "  y = add({5}, b)\n  return y: f32 align 4 }}",
      dtype, m, k, role, norm ? scale : "", norm ? "mul(p, s @ \"m\")" : "p",
      m[0] == 'M' ? "[M in 0..40]" : "");
}

// Residual add, then QKV and a dual GEMM over the normalised rows times a gain.
std::string gained_layer(i64 m) {
  return fmt::format(
      "chain a(input p: bf16[{0}, 576], input r: bf16[{0}, 576], weight e: bf16[576],\n"
      "        weight w: bf16[75, 576], weight v: bf16[23, 576], weight g: bf16[40, 576],\n"
      "        weight u: bf16[40, 576]) {{\n  h = cast(add(p, r), bf16)\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(h)), 0.001736111111111111), 0.00001))\n"
      "  he = cast(mul(h @ \"mk\", e @ \"k\"), bf16)\n"
      "  y = mul(contract \"mk,nk->mn\"(he, w), s @ \"m\")\n"
      "  z = mul(contract \"mk,nk->mn\"(he, v), s @ \"m\")\n"
      "  gg = mul(contract \"mk,nk->mn\"(he, g), s @ \"m\")\n"
      "  uu = mul(contract \"mk,nk->mn\"(he, u), s @ \"m\")\n  t = mul(silu(gg), uu)\n"
      "  return h: bf16, y: bf16 align 2, z: f32 align 4, t: bf16 }}",
      m);
}

// LayerNorm, rounded before the product: the kernel forms the rows. `data`: of x; vectors in f32.
std::string layer_norm(const char* m, i64 k, const char* data, const char* dtype) {
  return fmt::format(
      "chain a{5}(input x: {0}[{2}, {3}], weight g: f32[{3}], weight b: f32[{3}],\n"
      "        weight w: {1}[75, {3}], weight c: f32[75] align 4) {{\n"
      "  t = mul(sum \"mk->m\"(x), {4})\n  d = sub(x @ \"mk\", t @ \"m\")\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(d)), {4}), 0.00001))\n"
      "  n = cast(add(mul(mul(d, s @ \"m\"), g @ \"k\"), b @ \"k\"), {1})\n"
      "  y = add(contract \"mk,nk->mn\"(n, w), c)\n  return y: f32 align 4 }}",
      data, dtype, m, k, 1.0 / static_cast<double>(k), m[0] == 'M' ? "[M in 0..40]" : "");
}

// RMSNorm with two roundings before the product.
std::string rounded_rms_norm(const char* m, i64 k, const char* data) {
  return fmt::format(
      "chain a(input x: {0}[{1}, {2}], weight g: bf16[{2}], weight w: bf16[75, {2}]) {{\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), {3}), 0.00001))\n"
      "  r = cast(mul(x @ \"mk\", s @ \"m\"), bf16)\n"
      "  n = cast(mul(r @ \"mk\", g @ \"k\"), bf16)\n"
      "  y = contract \"mk,nk->mn\"(n, w)\n  return y: f32 align 4 }}",
      data, m, k, 1.0 / static_cast<double>(k));
}

WrittenCase made(const std::string& name, std::string text, const char* tile = "",
                 std::vector<i64> symbols = {}) {
  WrittenCase result;
  result.name = fmt::format("norm inside, {} {}", name, tile);
  result.text = std::move(text);
  result.tile = tile;
  result.prefer_inside = true;
  result.symbols = std::move(symbols);
  return result;
}

// One-tile CTAs of `gemm_sm90`: one warp with squares and two, one mma warpgroup and two, K tails,
// clusters, pairs.
void add_tiles(std::vector<WrittenCase>& cases) {
  i64 k = 1024;
  for (const char* m : {"1", "8", "24", "64", "65"}) {
    for (const char* tile : {"64x128x64g1s2k1", "64x64x64g1s4k2", "64x64x64g1s3k4"}) {
      const char* dtype = std::string(tile).starts_with("64x128") ? "f16" : "bf16";
      cases.push_back(
          made(fmt::format("tile, {} rows {} {}", m, dtype, k), normed(m, 200, k, dtype), tile));
      k = k == 1024 ? 1096 : 1024;
    }
  }
  for (const char* m : {"72", "100", "128"}) {
    for (const char* tile : {"128x56x64g2s3k1w", "128x64x64g2s4k1", "128x64x64g2s3k2"})
      cases.push_back(made(fmt::format("tile, {} rows", m), normed(m, 6400, 264), tile));
  }
  for (const i64 m : {9, 64})
    cases.push_back(made(fmt::format("tile, layer of {}", m), layer(m), "64x64x64g1s4k1"));
  cases.push_back(made("tile, symbol", normed("M", 200, 576), "64x64x64g1s3k2", {0, 1, 8, 24, 40}));
}

void add_packed(std::vector<WrittenCase>& cases) {
  const auto add_normed = [&](const char* m, const char* tile) {
    for (const bool zeros : {false, true}) {
      for (const bool gain : {false, true}) {
        cases.push_back(made(
            fmt::format("packed, {} rows{}{}", m, zeros ? ", zeros" : "", gain ? ", gain" : ""),
            packed_normed(m, zeros, gain), tile));
      }
    }
  };
  for (const char* m : {"1", "7", "16", "24", "32"}) {
    for (const char* q : {"i4", "i8"})
      cases.push_back(made(fmt::format("packed layer of {} in {}", m, q), packed_layer(m, q)));
    add_normed(m, "");
  }
  cases.push_back(made("packed layer in f16", packed_layer("13", "i4", "f16")));
  cases.push_back(made("packed layer of symbol", packed_layer("M"), "", {0, 1, 8, 9, 24, 25, 40}));
  for (const char* tile : {"dequant1t1s1b1x1b1", "dequant2t2s2b1x2b1", "dequant4t3s3b1x2b2",
                           "dequant2t1s3b2x1b4c2", "dequant2t2s2b1x1b2c4"})
    add_normed("11", tile);
}

void add_gains(std::vector<WrittenCase>& cases) {
  for (const char* m : {"1", "8", "13", "24", "33"}) {
    for (const char* dtype : {"bf16", "f16"}) {
      for (const bool norm : {false, true}) {
        cases.push_back(made(fmt::format("gain, {} rows {}{}", m, dtype, norm ? "" : ", no norm"),
                             gained(m, 1088, dtype, norm)));
      }
    }
  }
  for (const char* role : {"weight", "input"}) {
    cases.push_back(
        made(fmt::format("gain in parts, {}", role), gained("11", 1160, "bf16", true, role)));
  }
  cases.push_back(made("gain, 24 rows in whole blocks", gained("24", 1024)));
  cases.push_back(made("gain, symbol", gained("M", 576), "", {0, 1, 8, 9, 24, 25, 40}));
  for (const char* tile :
       {"skinny4x2s4r1g2p5", "skinny8x1s2r1g4p3", "skinny4x2s4r1g2p5x8", "skinny8x1s2r1g2p3a",
        "skinny4x1s2r1g2p3c2", "skinny4x2s1r1g2p2t2c4", "skinny4x1s2r1g2p3c2n5"}) {
    cases.push_back(made("gain, 13 rows", gained("13", 1088), tile));
  }
  for (const i64 m : {1, 9, 24, 40}) {
    cases.push_back(made(fmt::format("gain, layer of {}", m), gained_layer(m)));
  }
}

void add_formed(std::vector<WrittenCase>& cases) {
  for (const char* m : {"1", "8", "13", "24", "40", "64", "65"}) {
    for (const char* data : {"bf16", "f16", "f32"}) {
      const char* dtype = data[0] == 'f' && data[1] == '1' ? "f16" : "bf16";
      cases.push_back(
          made(fmt::format("LayerNorm, {} rows {}", m, data),
               layer_norm(m, std::string(m).size() > 1 && m[0] != '1' ? 1024 : 1096, data, dtype)));
    }
    cases.push_back(
        made(fmt::format("RMSNorm rounded, {} rows", m), rounded_rms_norm(m, 1024, "bf16")));
  }
  cases.push_back(made("RMSNorm rounded, f32", rounded_rms_norm("7", 1096, "f32")));
  cases.push_back(made("LayerNorm, symbol", layer_norm("M", 584, "bf16", "bf16"), "",
                       {0, 1, 8, 9, 24, 25, 40}));
  for (const char* tile :
       {"skinny2x2s8r1g2p9", "skinny4x1s4r1g4p3", "skinny2x2s8r1g2p9x8", "skinny4x1s4r1g2p5a",
        "skinny4x1s2r1g2p3c2", "skinny4x1s1r1g2p2t2c4", "skinny4x1s2r1g2p1c2n5"}) {
    cases.push_back(made("LayerNorm, 13 rows", layer_norm("13", 1088, "bf16", "bf16"), tile));
  }
}

}  // namespace

std::vector<WrittenCase> norm_cases() {
  std::vector<WrittenCase> cases;
  for (const char* m : {"1", "7", "16", "24", "33"}) {
    for (const char* dtype : {"bf16", "f16", "f32"}) {
      cases.push_back(made(fmt::format("{} rows {}", m, dtype), normed(m, 75, 1088, dtype)));
    }
  }
  cases.push_back(made("symbol", normed("M", 40, 576), "", {0, 1, 8, 9, 24, 25, 40}));
  for (const char* tile : {"skinny4x2s4r1g2p5", "skinny8x1s2r1g4p3", "skinny4x2s4r1g2p5x8",
                           "skinny8x1s2r1g2p3a", "skinny4x1s2r1g2p3c2", "skinny4x2s1r1g2p2t2c4"}) {
    cases.push_back(made("13 rows", normed("13", 75, 1088), tile));
  }
  for (const i64 m : {1, 9, 40}) cases.push_back(made(fmt::format("layer of {}", m), layer(m)));
  add_tiles(cases);
  add_packed(cases);
  add_gains(cases);
  add_formed(cases);
  return cases;
}

}  // namespace catenary::gpu_suite
