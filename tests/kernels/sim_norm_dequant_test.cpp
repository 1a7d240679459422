// SPDX-License-Identifier: Apache-2.0
// The norm and the gain inside `skinny_dequant`, in the simulator: sums of squares beside packed
// integers and rows times a vector along K, for every number of rows, in clusters, pairs and side
// by side, and of rows that a kernel before has computed.
#include <doctest/doctest.h>

#include "compiler/families/skinny_dequant/candidates.h"
#include "compiler/kernel_family.h"
#include "tests/support/sim_cases.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

struct NormCase {
  std::string q = "i4", x = "bf16";
  i64 m = 5, k = 352, group = 128;  // group: columns that share a scale
  bool zero = false, norm = true;
  std::string gain = "";  // the vector's role; empty: none
  std::string tile = "";  // empty: the planner's choice
  FillKind fill = FillKind::kExactInteger;
};

std::string name_of(const NormCase& c) {
  return fmt::format("{} {} {}x{} g{} zero {} norm {} gain {} {}", c.q, c.x, c.m, c.k, c.group,
                     c.zero, c.norm, c.gain, c.tile);
}

std::string text_of(const NormCase& c) {
  const std::string numbers = fmt::format("[70, {}]", ceil_div(c.k, c.group));
  std::string text = fmt::format(
      "chain a(input x: {0}[{1}, {2}], weight q: {3}[70, {2}] packed, weight t: bf16{4}{5}{6}) "
      "{{\n",
      c.x, c.m, c.k, c.q, numbers, c.zero ? ", weight z: i8" + numbers : "",
      c.gain.empty() ? "" : fmt::format(", {} g: {}[{}]", c.gain, c.x, c.k));
  if (c.norm) {
    text += fmt::format("  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), {}), 0.00001))\n",
                        1.0 / static_cast<double>(c.k));
  }
  if (!c.gain.empty()) text += fmt::format("  xg = cast(mul(x @ \"mk\", g @ \"k\"), {})\n", c.x);
  const std::string product =
      fmt::format("contract \"mk,nk->mn\"({}, dequant(q, t{}) block (1, {}))",
                  c.gain.empty() ? "x" : "xg", c.zero ? ", z" : "", c.group);
  return text + fmt::format("  y = {}\n  return y: f32 align 4 }}",
                            c.norm ? fmt::format("mul({}, s @ \"m\")", product) : product);
}

// Residual add, then two weights and a pair over the normalised rows.
const char* const kLayer =
    "chain a(input p: bf16[9, 576], input r: bf16[9, 576], weight w: i4[75, 576] packed,\n"
    "        weight ws: bf16[75, 5], weight v: i4[40, 576] packed, weight vs: bf16[40, 5],\n"
    "        weight g: i8[72, 576] packed, weight gs: f32[72, 5],\n"
    "        weight u: i8[72, 576] packed, weight us: f32[72, 5]) {\n"
    "  h = cast(add(p, r), bf16)\n"
    "  s = rsqrt(add(mul(sum \"mk->m\"(mul(h, h)), 0.001736111111111111), 0.00001))\n"
    "  y = mul(contract \"mk,nk->mn\"(h, dequant(w, ws) block (1, 128)), s @ \"m\")\n"
    "  z = mul(contract \"mk,nk->mn\"(h, dequant(v, vs) block (1, 128)), s @ \"m\")\n"
    "  gg = mul(contract \"mk,nk->mn\"(h, dequant(g, gs) block (1, 128)), s @ \"m\")\n"
    "  uu = mul(contract \"mk,nk->mn\"(h, dequant(u, us) block (1, 128)), s @ \"m\")\n"
    "  t = mul(silu(gg), uu)\n  return h: bf16, y: f32 align 4, z: bf16, t: bf16 }";

Expected<SimulatedChain> make(const std::string& text, const NormCase& c,
                              const HostCompiler* compiler = nullptr) {
  SimulatedChainOptions options;
  options.plan.force_tile = c.tile;
  options.plan.prefer_inside = true;
  options.fill = c.fill;
  options.compiler = compiler;
  return SimulatedChain::make(text, options);
}

// Empty: one kernel has the norm and the gain inside and is right for every seed.
std::string failure(const NormCase& c, const HostCompiler& compiler) {
  constexpr u64 kSeeds = 3;
  auto chain = make(text_of(c), c, &compiler);
  if (!chain) return name_of(c) + ": " + take_report(chain.takeError()).message;
  const auto& kernels = chain->plan().buckets.back().kernels;
  const auto* config = kernels[0].config.get_if<SkinnyDequantConfig>();
  if (kernels.size() != 1 || config == nullptr || config->row_squares != c.norm ||
      config->gain.used == c.gain.empty())
    return name_of(c) + ": the norm or the gain is not inside";
  if (!c.tile.empty() && kernels[0].candidate.tile != c.tile) return name_of(c) + ": another tile";
  return first_failure(*chain, name_of(c), kSeeds);
}

void pass(const std::vector<NormCase>& cases) {
  run_cases(cases, [](const NormCase& c, i64, const HostCompiler& compiler) {
    return failure(c, compiler);
  });
}

}  // namespace

TEST_SUITE("the norm inside a product with packed weights, in the simulator") {
  TEST_CASE("every dtype and number of rows, one scale for a row, K with tails") {
    std::vector<NormCase> cases;
    for (const char* q : {"i8", "i4", "u4"}) {
      for (const char* x : {"bf16", "f16"}) {
        for (const i64 m : {1, 5, 8, 9, 16, 17, 24, 32})
          cases.push_back({.q = q, .x = x, .m = m, .zero = m % 2 == 1});
      }
    }
    for (const i64 k : {32, 96, 1056}) {
      for (const i64 group : {i64{32}, k}) {
        cases.push_back({.m = 3, .k = k, .group = group});
        cases.push_back({.q = "u4", .m = 13, .k = k, .group = group, .zero = true});
      }
    }
    pass(cases);
  }

  TEST_CASE("a gain, with a norm and without one, K with tails") {
    std::vector<NormCase> cases;
    for (const char* role : {"weight", "input"}) {
      for (const bool norm : {false, true}) {
        for (const i64 m : {1, 8, 13, 24, 32}) {
          cases.push_back({.m = m, .k = 1056, .norm = norm, .gain = role});
          cases.push_back(
              {.q = "u4", .x = "f16", .m = m, .zero = true, .norm = norm, .gain = role});
          cases.push_back({.q = "i8", .m = m, .k = 96, .group = 96, .norm = norm, .gain = role});
        }
      }
    }
    pass(cases);
  }

  TEST_CASE("tiles: several row tiles, uneven slices, clusters") {
    std::vector<NormCase> cases;
    for (const char* tile :
         {"dequant1t1s1b1x1b1", "dequant2t2s2b1x2b1", "dequant4t3s3b1x2b2", "dequant2t1s3b2x1b4c2",
          "dequant2t2s2b1x1b2c4", "dequant1t3s2b1x2b1c8"}) {
      for (const i64 m : {8, 11}) cases.push_back({.m = m, .k = 1440, .tile = tile});
    }
    pass(cases);
  }

  TEST_CASE("normal data, and a NaN and an Inf that stay in their rows") {
    std::vector<NormCase> cases;
    for (const FillKind fill : {FillKind::kNormal, FillKind::kNanPlant, FillKind::kInfPlant}) {
      for (const i64 m : {3, 13}) {
        cases.push_back({.m = m, .k = 1056, .fill = fill});
        cases.push_back({.m = m, .k = 1056, .gain = "weight", .fill = fill});
      }
    }
    pass(cases);
  }

  TEST_CASE("after a residual add: weights of their own, and a pair") {
    auto chain = make(kLayer, {});
    REQUIRE(chain);
    const auto& kernels = chain->plan().buckets[0].kernels;
    REQUIRE(kernels.size() > 1);
    for (size_t i = 1; i < kernels.size(); ++i)
      CHECK(kernels[i].config.get<SkinnyDequantConfig>().row_squares);
    CHECK(first_failure(*chain, "layer", 6) == "");
  }

  TEST_CASE("two weights side by side") {
    const char* const text =
        "chain a(input x: bf16[5, 416], weight q: i4[39, 416] packed, weight s: bf16[39, 4],\n"
        "        weight p: i4[70, 416] packed, weight t: bf16[70, 4]) {\n"
        "  r = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.0024), 0.00001))\n"
        "  y = mul(contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128)), r @ \"m\")\n"
        "  z = mul(contract \"mk,nk->mn\"(x, dequant(p, t) block (1, 128)), r @ \"m\")\n"
        "  return y: f32 align 4, z: f32 }";
    auto chain = make(text, {.tile = "dequant2t1s1b2x1b2c2"});
    REQUIRE(chain);
    const auto& kernels = chain->plan().buckets[0].kernels;
    REQUIRE(kernels.size() == 1);
    CHECK(kernels[0].beside.size() == 1);
    CHECK(kernels[0].config.get<SkinnyDequantConfig>().row_squares);
    CHECK(first_failure(*chain, "side by side", 6) == "");
  }
}
