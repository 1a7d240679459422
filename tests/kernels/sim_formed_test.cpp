// SPDX-License-Identifier: Apache-2.0
// Operands that a small-M kernel forms as it loads the rows, in the simulator: LayerNorm with its
// gain and shift, RMSNorm with the chain's roundings, gains in f32, rows in f32, by every form of
// `skinny`, in clusters, with a dual GEMM, side by side, and of rows that a kernel before computes.
#include <doctest/doctest.h>

#include "compiler/families/skinny/candidates.h"
#include "compiler/kernel_family.h"
#include "tests/support/sim_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

constexpr u64 kSeeds = 3;

struct Norm {
  std::string m = "13";
  i64 k = 1096;
  std::string data = "bf16";     // in memory
  std::string product = "bf16";  // of the normalised rows and of the weights
  std::string vector = "f32";    // gain and shift
  std::string symbol = "";
};

std::string head(const Norm& n) {
  return fmt::format(
      "chain a{5}(input x: {1}[{0}, {2}], weight g: {4}[{2}], weight b: {4}[{2}],\n"
      "    weight w: {3}[75, {2}], weight c: f32[75] align 4) {{\n",
      n.m, n.data, n.k, n.product, n.vector, n.symbol);
}

std::string tail() {
  return "  y = add(contract \"mk,nk->mn\"(n, w), c)\n  return y: f32 align 4 }";
}

std::string layer_norm(const Norm& n) {
  const double share = 1.0 / static_cast<double>(n.k);
  return head(n) +
         fmt::format(
             "  mean = mul(sum \"mk->m\"(x), {0})\n  d = sub(x @ \"mk\", mean @ \"m\")\n"
             "  s = rsqrt(add(mul(sum \"mk->m\"(square(d)), {0}), 0.00001))\n"
             "  n = cast(add(mul(mul(d, s @ \"m\"), g @ \"k\"), b @ \"k\"), {1})\n",
             share, n.product) +
         tail();
}

// Two roundings, as Hugging Face's models have them.
std::string rms_norm(const Norm& n) {
  return head(n) +
         fmt::format(
             "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), {0}), 0.00001))\n"
             "  r = cast(mul(x @ \"mk\", s @ \"m\"), {1})\n"
             "  n = cast(add(mul(r @ \"mk\", g @ \"k\"), mul(b, 0.0) @ \"k\"), {1})\n",
             1.0 / static_cast<double>(n.k), n.product) +
         tail();
}

// No sum: a gain of another dtype, or rows of another one.
std::string scaled(const Norm& n) {
  return head(n) +
         fmt::format("  n = cast(add(mul(x @ \"mk\", g @ \"k\"), b @ \"k\"), {})\n", n.product) +
         tail();
}

SimulatedChain make(const std::string& text, const char* tile = "", const char* target = "h200",
                    FillKind fill = FillKind::kNormal, int split_k = 0) {
  SimulatedChainOptions options;
  options.target = target;
  options.plan.prefer_inside = true;
  options.plan.force_tile = tile;
  options.plan.split_k = split_k;
  options.fill = fill;
  auto chain = SimulatedChain::make(text, options);
  if (!chain) FAIL(text << "\n" << take_report(chain.takeError()).message);
  return std::move(*chain);
}

void passes(const SimulatedChain& chain, size_t kernels = 1) {
  const auto& planned = chain.plan().buckets.back().kernels;
  CHECK(planned.size() == kernels);
  const auto* config = planned.back().config.get_if<SkinnyConfig>();
  REQUIRE(config != nullptr);
  CHECK(config->formed.used);
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    const SimulatedOutcome outcome = chain.run(seed);
    const std::string text = fmt::format("seed {}: {}: {}", seed, outcome.name, outcome.message);
    CHECK_MESSAGE(outcome.name == "", text);
  }
}

}  // namespace

TEST_SUITE("formed operands, in the simulator") {
  TEST_CASE("LayerNorm: the planner's choice on every target and in every dtype") {
    for (const char* target : {"h200", "a100"}) {
      for (const char* data : {"bf16", "f16", "f32"}) {
        CAPTURE(target);
        CAPTURE(data);
        Norm norm;
        norm.data = data;
        norm.product = data == std::string("f16") ? "f16" : "bf16";
        passes(make(layer_norm(norm), "", target));
      }
    }
  }

  TEST_CASE("every number of rows") {
    for (int m = 1; m <= 24; ++m) {
      CAPTURE(m);
      Norm norm;
      norm.m = fmt::to_string(m);
      norm.k = m > 16 ? 1024 : 584;
      passes(make(layer_norm(norm)));
    }
  }

  TEST_CASE("up to 64 rows: 16 columns of X at a time") {
    for (const char* m : {"25", "32", "41", "48", "57", "64"}) {
      for (const char* tile : {"skinny4x1s2r2g2p4x16", "skinny4x1s1r1g2p1x16t2c2"}) {
        CAPTURE(std::string(m));
        CAPTURE(std::string(tile));
        Norm norm;
        norm.m = m;
        norm.k = 1024;
        passes(make(layer_norm(norm), tile));
      }
    }
  }

  TEST_CASE("K in steps of 8") {
    for (const i64 k : {512, 520, 528, 536, 544, 552, 560, 568, 1288}) {
      CAPTURE(k);
      Norm norm;
      norm.m = "5";
      norm.k = k;
      passes(make(layer_norm(norm)));
      passes(make(rms_norm(norm)));
    }
  }

  TEST_CASE("forms: warps along N, uneven slices, chunks of columns, cp.async, clusters") {
    for (const std::string tile :
         {"skinny2x2s8r1g2p9", "skinny4x1s4r1g4p3", "skinny2x2s8r1g2p9x8", "skinny4x1s4r1g2p5a",
          "skinny4x1s2r1g2p3c2", "skinny4x1s1r1g2p2t2c4", "skinny4x1s2r1g2p1c2n5"}) {
      CAPTURE(tile);
      Norm norm;
      norm.k = 1088;
      passes(make(layer_norm(norm), tile.c_str()));
      passes(make(rms_norm(norm), tile.c_str()));
    }
  }

  TEST_CASE("RMSNorm with two roundings; vectors of 16 bits") {
    for (const char* vector : {"f32", "bf16"}) {
      Norm norm;
      norm.vector = vector;
      passes(make(rms_norm(norm)));
      norm.data = "f32";
      passes(make(rms_norm(norm)));
    }
  }

  TEST_CASE("a gain and a shift in f32, rows in f32, without a sum; split-K") {
    for (const char* data : {"bf16", "f32"}) {
      Norm norm;
      norm.data = data;
      norm.k = 584;  // with more K, split-K is predicted to be faster
      passes(make(scaled(norm)));
    }
    Norm norm;
    norm.k = 1024;
    const SimulatedChain split =
        make(scaled(norm), "skinny4x2s2r1g1p3", "h200", FillKind::kNormal, 2);
    REQUIRE(split.plan().buckets[0].kernels.size() == 2);
    for (u64 seed = 1; seed <= kSeeds; ++seed) CHECK(split.run(seed).name == "");
  }

  TEST_CASE("rows in f32 and a gain before the product, their scale after it") {
    for (const char* data : {"bf16", "f32"}) {
      passes(make(fmt::format(
          "chain a(input x: {}[9, 584], weight g: f32[584], weight w: bf16[75, 584]) {{\n"
          "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.0017), 0.00001))\n"
          "  n = cast(mul(x @ \"mk\", g @ \"k\"), bf16)\n"
          "  y = mul(contract \"mk,nk->mn\"(n, w), s @ \"m\")\n  return y: f32 align 4 }}",
          data)));
    }
  }

  TEST_CASE("a NaN or an infinity stays in its row") {
    for (const FillKind fill : {FillKind::kNanPlant, FillKind::kInfPlant}) {
      passes(make(layer_norm({}), "", "h200", fill));
      passes(make(rms_norm({}), "", "h200", fill));
    }
  }

  TEST_CASE("a symbol, with rows past it") {
    Norm norm;
    norm.m = "M";
    norm.symbol = "[M in 0..16]";
    for (const i64 symbol : {0, 1, 7, 9, 16}) {
      CAPTURE(symbol);
      SimulatedChainOptions options;
      options.plan.prefer_inside = true;
      options.symbol = symbol;
      options.fill = FillKind::kNormal;
      auto chain = SimulatedChain::make(layer_norm(norm), options);
      REQUIRE(chain);
      passes(*chain);
    }
  }

  TEST_CASE("after a residual add; several weights, one of them gated") {
    const SimulatedChain chain = make(
        "chain a(input p: bf16[9, 576], input r: bf16[9, 576], weight e: f32[576],\n"
        "        weight i: f32[576], weight w: bf16[75, 576], weight v: bf16[23, 576],\n"
        "        weight g: bf16[40, 576], weight u: bf16[40, 576]) {\n"
        "  h = cast(add(p, r), bf16)\n  mean = mul(sum \"mk->m\"(h), 0.001736111111111111)\n"
        "  d = sub(h @ \"mk\", mean @ \"m\")\n"
        "  s = rsqrt(add(mul(sum \"mk->m\"(square(d)), 0.001736111111111111), 0.00001))\n"
        "  n = cast(add(mul(mul(d, s @ \"m\"), e @ \"k\"), i @ \"k\"), bf16)\n"
        "  y = contract \"mk,nk->mn\"(n, w)\n  z = contract \"mk,nk->mn\"(n, v)\n"
        "  t = mul(silu(contract \"mk,nk->mn\"(n, g)), contract \"mk,nk->mn\"(n, u))\n"
        "  return h: bf16, y: bf16 align 2, z: f32 align 4, t: bf16 }");
    CHECK(chain.plan().buckets[0].kernels.back().beside.size() == 2);
    passes(chain, 2);
  }

  TEST_CASE("a mean that is large beside the deviation") {
    // Exact sums: x is 4096 plus or minus 16, in f32.
    const SimulatedChain chain = make(
        "chain a(input x: f32[5, 584], weight w: bf16[75, 584]) {\n"
        "  t = add(mul(x, 0.001), 4096.0)\n"
        "  mean = mul(sum \"mk->m\"(t), 0.0017123287671232876)\n"
        "  d = sub(t @ \"mk\", mean @ \"m\")\n"
        "  s = rsqrt(add(mul(sum \"mk->m\"(square(d)), 0.0017123287671232876), 0.00001))\n"
        "  n = cast(mul(d, s @ \"m\"), bf16)\n  y = contract \"mk,nk->mn\"(n, w)\n"
        "  return y: f32 align 4 }");
    for (u64 seed = 1; seed <= kSeeds; ++seed) CHECK(chain.run(seed).name == "");
  }
}
