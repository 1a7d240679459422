// SPDX-License-Identifier: Apache-2.0
// The gain inside a small-M kernel, in the simulator: X times a vector along K by every form of
// `skinny`, with and without a norm inside, in clusters, with a dual GEMM, side by side, with
// split-K, and of rows and gains that a kernel before has computed.
#include <doctest/doctest.h>

#include "compiler/families/skinny/candidates.h"
#include "compiler/kernel_family.h"
#include "tests/support/sim_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

constexpr u64 kSeeds = 4;

struct Form {
  std::string m = "13";
  const char* dtype = "bf16";
  bool norm = true;
  const char* role = "weight";  // of the gain
  i64 k = 1088;
};

std::string gained(const Form& form) {
  const std::string norm =
      fmt::format("  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), {}), 0.00001))\n",
                  1.0 / static_cast<double>(form.k));
  return fmt::format(
      "chain a(input x: {1}[{0}, {4}], {2} g: {1}[{4}], weight w: {1}[75, {4}],\n"
      "        weight b: f32[75] align 4) {{\n{3}"
      "  xg = cast(mul(x @ \"mk\", g @ \"k\"), {1})\n  p = contract \"mk,nk->mn\"(xg, w)\n"
      "  y = add({5}, b)\n  return y: f32 align 4 }}",
      form.m, form.dtype, form.role, form.norm ? norm : "", form.k,
      form.norm ? "mul(p, s @ \"m\")" : "p");
}

// Residual add, then QKV and a dual GEMM over the normalised rows times the gain.
const char* const kLayer =
    "chain a(input p: bf16[9, 576], input r: bf16[9, 576], weight g: bf16[576],\n"
    "        weight w: bf16[75, 576], weight v: bf16[23, 576], weight t: bf16[40, 576],\n"
    "        weight u: bf16[40, 576]) {\n"
    "  h = cast(add(p, r), bf16)\n"
    "  s = rsqrt(add(mul(sum \"mk->m\"(square(h)), 0.001736111111111111), 0.00001))\n"
    "  hg = cast(mul(h @ \"mk\", g @ \"k\"), bf16)\n"
    "  y = mul(contract \"mk,nk->mn\"(hg, w), s @ \"m\")\n"
    "  z = mul(contract \"mk,nk->mn\"(hg, v), s @ \"m\")\n"
    "  tt = mul(contract \"mk,nk->mn\"(hg, t), s @ \"m\")\n"
    "  uu = mul(contract \"mk,nk->mn\"(hg, u), s @ \"m\")\n  q = mul(silu(tt), uu)\n"
    "  return h: bf16, y: bf16 align 2, z: f32 align 4, q: bf16 }";

SimulatedChain make(const std::string& text, const char* tile = "", const char* target = "h200",
                    FillKind fill = FillKind::kExactInteger, int split_k = 0) {
  SimulatedChainOptions options;
  options.target = target;
  options.plan.force_tile = tile;
  options.plan.prefer_inside = true;
  options.plan.split_k = split_k;
  options.fill = fill;
  auto chain = SimulatedChain::make(text, options);
  if (!chain) FAIL(text << "\n" << take_report(chain.takeError()).message);
  return std::move(*chain);
}

// Of the first kernel of `skinny`; null: there is none.
const SkinnyConfig* skinny_of(const SimulatedChain& chain) {
  for (const KernelPlan& kernel : chain.plan().buckets.back().kernels) {
    if (const auto* config = kernel.config.get_if<SkinnyConfig>()) return config;
  }
  return nullptr;
}

void runs(const SimulatedChain& chain) {
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    const SimulatedOutcome outcome = chain.run(seed);
    const std::string text = fmt::format("seed {}: {}: {}", seed, outcome.name, outcome.message);
    CHECK_MESSAGE(outcome.name == "", text);
  }
}

void passes(const SimulatedChain& chain) {
  const SkinnyConfig* config = skinny_of(chain);
  REQUIRE(config != nullptr);
  CHECK(config->gain.used);
  runs(chain);
}

// In one kernel, with the squares of X if there is a norm.
void passes(const Form& form, const SimulatedChain& chain) {
  CHECK(chain.plan().buckets.back().kernels.size() == 1);
  passes(chain);
  CHECK(skinny_of(chain)->row_squares == form.norm);
}

}  // namespace

TEST_SUITE("the gain inside, in the simulator") {
  TEST_CASE("the planner's choice for both dtypes, by rows") {
    for (const char* target : {"h200", "a100"}) {
      for (const char* dtype : {"bf16", "f16"}) {
        for (const char* m : {"1", "8", "13", "24"}) {
          CAPTURE(target);
          CAPTURE(dtype);
          CAPTURE(m);
          // Three column tiles need warps with equally many whole blocks.
          const Form form{.m = m, .dtype = dtype, .k = m == std::string("24") ? 1024 : 1088};
          passes(form, make(gained(form), "", target));
        }
      }
    }
  }

  TEST_CASE("fewer vectors of N than CTAs that the SMs hold: no slice is empty") {
    for (const i64 n : {1000, 1024, 1048}) {
      CAPTURE(n);
      const SimulatedChain chain = make(fmt::format(
          "chain a(input x: bf16[48, 384], weight g: bf16[384], weight w: bf16[{}, 384]) {{\n"
          "  xg = cast(mul(x @ \"mk\", g @ \"k\"), bf16)\n"
          "  y = contract \"mk,nk->mn\"(xg, w)\n  return y: bf16 }}",
          n));
      REQUIRE(family_name(chain.plan().buckets[0].kernels[0]) == "skinny");
      CHECK(chain.run(1).name == "");
    }
  }

  TEST_CASE("forms: warps along N, uneven slices, chunks of columns, cp.async, clusters") {
    for (const char* tile :
         {"skinny4x2s4r1g2p5", "skinny8x1s2r1g4p3", "skinny4x2s4r1g2p5x8", "skinny8x1s2r1g2p3a",
          "skinny4x1s2r1g2p3c2", "skinny4x2s1r1g2p2t2c4", "skinny4x1s2r1g2p3c2n5"}) {
      for (const bool norm : {false, true}) {
        CAPTURE(tile);
        CAPTURE(norm);
        const Form form{.norm = norm};
        passes(form, make(gained(form), tile));
      }
    }
  }

  TEST_CASE("parts of blocks at the end of K, normal data") {
    for (const i64 k : {264, 1160, 2056}) {
      for (const char* role : {"weight", "input"}) {
        CAPTURE(k);
        CAPTURE(role);
        const Form form{.m = "11", .role = role, .k = k};
        const SimulatedChain chain = make(gained(form), "", "h200", FillKind::kNormal);
        passes(form, chain);
        CHECK(skinny_of(chain)->gain.weight == (role == std::string("weight")));
      }
    }
  }

  TEST_CASE("a symbol: inside for as many rows as the kernel takes, outside for more") {
    std::string text = gained({.m = "M", .k = 1024});
    text.insert(text.find('('), "[M in 0..80]");
    SimulatedChainOptions options;
    options.target = "h200";
    options.plan.prefer_inside = true;
    for (const i64 symbol : {0, 1, 9, 24, 25, 70}) {
      options.symbol = symbol;
      auto chain = SimulatedChain::make(text, options);
      REQUIRE(chain);
      const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), symbol)].kernels;
      CHECK((kernels.size() == 1) == (symbol <= kSkinnyNormRows));
      CHECK(chain->run(1).name == "");
    }
  }

  TEST_CASE("split-K has no squares; the parts multiply by their own gain") {
    const Form form{.norm = false};
    const SimulatedChain chain =
        make(gained(form), "skinny4x2s2r1g1p3", "h200", FillKind::kExactInteger, 2);
    CHECK(chain.plan().buckets.back().kernels.size() == 2);
    passes(chain);
  }

  TEST_CASE("a NaN and an infinity stay in their rows") {
    for (const FillKind fill : {FillKind::kNanPlant, FillKind::kInfPlant}) {
      const Form form;
      passes(form, make(gained(form), "", "h200", fill));
    }
  }

  TEST_CASE("after a residual add; several weights, one of them gated") {
    const SimulatedChain chain = make(kLayer);
    const auto& kernels = chain.plan().buckets[0].kernels;
    REQUIRE(kernels.size() == 2);
    CHECK(kernels[1].beside.size() == 2);
    passes(chain);
  }

  TEST_CASE("rows that the epilogue of a product computes: it stores them, and no product with g") {
    const SimulatedChain chain = make(
        "chain a(input o: bf16[9, 264], input r: bf16[9, 576], weight v: bf16[576, 264],\n"
        "        weight g: bf16[576], weight t: bf16[40, 576], weight u: bf16[40, 576]) {\n"
        "  h = cast(add(contract \"mk,nk->mn\"(o, v), r), bf16)\n"
        "  s = rsqrt(add(mul(sum \"mk->m\"(square(h @ \"mk\")), 0.001736111111111111), 0.00001))\n"
        "  hg = cast(mul(h @ \"mk\", g @ \"k\"), bf16)\n"
        "  tt = mul(contract \"mk,nk->mn\"(hg, t), s @ \"m\")\n"
        "  uu = mul(contract \"mk,nk->mn\"(hg, u), s @ \"m\")\n"
        "  q = mul(silu(tt), uu)\n  return h: bf16, q: bf16 }");
    CHECK(chain.plan().buckets[0].kernels.size() == 2);
    const auto& last = chain.plan().buckets[0].kernels[1];
    CHECK(last.config.get<SkinnyConfig>().dual);
    CHECK(last.config.get<SkinnyConfig>().row_squares);
    CHECK(last.config.get<SkinnyConfig>().gain.used);
    runs(chain);
  }

  TEST_CASE("a gain that a kernel before has computed") {
    const SimulatedChain chain = make(
        "chain a(input p: bf16[9, 576], input d: bf16[576, 24], input e: bf16[24],\n"
        "        weight w: bf16[40, 576]) {\n"
        "  g = cast(contract \"kj,j->k\"(d, e), bf16)\n  xg = cast(mul(p @ \"mk\", g @ \"k\"), "
        "bf16)\n"
        "  y = contract \"mk,nk->mn\"(xg, w)\n  return y: f32 }");
    passes(chain);
    CHECK_FALSE(skinny_of(chain)->gain.weight);
  }

  TEST_CASE("outside: more rows than the kernel takes, an unaligned gain, one order of sums") {
    const Form many{.m = "65"};
    const SimulatedChain wide = make(gained(many));
    CHECK(skinny_of(wide) == nullptr);
    runs(wide);
    const SimulatedChain unaligned = make(
        "chain a(input x: bf16[5, 576], weight g: bf16[576] align 2,\n"
        "        weight w: bf16[40, 576]) {\n"
        "  xg = cast(mul(x @ \"mk\", g @ \"k\"), bf16)\n"
        "  y = contract \"mk,nk->mn\"(xg, w)\n  return y: f32 }");
    CHECK(unaligned.plan().buckets.back().kernels.size() == 2);
    runs(unaligned);
    SimulatedChainOptions options;
    options.target = "h200";
    options.plan.batch_invariant = true;
    const Form form;
    auto invariant = SimulatedChain::make(gained(form), options);
    REQUIRE(invariant);
    CHECK(skinny_of(*invariant) == nullptr);
    runs(*invariant);
  }
}
