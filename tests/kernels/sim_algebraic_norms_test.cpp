// SPDX-License-Identifier: Apache-2.0
// The algebraic form of norms in the simulator, against the reference of a chain with the word: as
// the planner chooses, in every family, with and without a gain, of rows in bf16, f16 and f32, and
// after a kernel that computes the rows.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "shared/skinny_config.h"
#include "tests/support/norm_kernels.h"
#include "tests/support/sim_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

constexpr u64 kSeeds = 3;

struct Norm {
  std::string rows = "13";
  const char* x = "bf16";
  const char* dtype = "bf16";  // of the product's operands
  bool gain = true;
  const char* word = "algebraic_norms";
};

std::string text_of(const Norm& norm) {
  const bool symbolic = norm.rows == "M";
  return fmt::format(
      "chain a{0} {1} (input x: {2}[{3}, 576], weight w: {4}[75, 576],\n"
      "        weight b: f32[75] align 4{5}) {{\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.001736111111111111), 0.00001))\n"
      "  n = {7}mul(x @ \"mk\", s @ \"m\"){8}\n{6}"
      "  y = add(contract \"mk,nk->mn\"({9}, w), b)\n  return y: f32 align 4 }}",
      symbolic ? "[M in 1..96]" : "", norm.word, norm.x, norm.rows, norm.dtype,
      norm.gain ? fmt::format(", weight g: {}[576]", norm.dtype) : "",
      norm.gain ? fmt::format("  ng = cast(mul(n @ \"mk\", g @ \"k\"), {})\n", norm.dtype) : "",
      "cast(", fmt::format(", {})", norm.dtype), norm.gain ? "ng" : "n");
}

SimulatedChain make(const std::string& text, SimulatedChainOptions options = {}) {
  auto chain = SimulatedChain::make(text, std::move(options));
  if (!chain) FAIL(text << "\n" << take_report(chain.takeError()).message);
  return std::move(*chain);
}

SimulatedChain filled(const Norm& norm, FillKind fill = FillKind::kNormal,
                      const char* target = "h200", bool prefer_inside = false) {
  SimulatedChainOptions options;
  options.target = target;
  options.fill = fill;
  options.plan.prefer_inside = prefer_inside;
  return make(text_of(norm), options);
}

void passes(const SimulatedChain& chain) {
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    const SimulatedOutcome outcome = chain.run(seed);
    const std::string text = fmt::format("seed {}: {}: {}", seed, outcome.name, outcome.message);
    CHECK_MESSAGE(outcome.name == "", text);
  }
}

std::string family_of_last(const SimulatedChain& chain) {
  return std::string(chain.plan().buckets.back().kernels.back().family->name());
}

}  // namespace

TEST_SUITE("the algebraic form of norms, in the simulator") {
  TEST_CASE("small M: the sum of squares and the gain inside") {
    for (const std::string target : {"h200", "a100"}) {
      for (const std::string rows : {"1", "8", "13", "31"}) {
        for (const bool gain : {false, true}) {
          CAPTURE(target);
          CAPTURE(rows);
          CAPTURE(gain);
          const SimulatedChain chain =
              filled(Norm{.rows = rows, .gain = gain}, FillKind::kNormal, target.c_str(), true);
          const PlanBucket& bucket = chain.plan().buckets[0];
          passes(chain);
          if (rows == "31") continue;  // more rows than a kernel takes with a gain
          CHECK(bucket.form >= 0);
          REQUIRE(bucket.kernels.size() == 1);
          CHECK(sums_squares(bucket.kernels[0]));
          if (gain) CHECK(bucket.kernels[0].config.get<SkinnyConfig>().gain.used);
        }
      }
    }
  }

  TEST_CASE("many rows: the GEMMs read x") {
    for (const char* target : {"h200", "a100"}) {
      CAPTURE(target);
      const SimulatedChain chain =
          filled(Norm{.rows = "130", .gain = false}, FillKind::kNormal, target);
      CHECK(chain.plan().buckets[0].form >= 0);
      CHECK(family_of_last(chain).substr(0, 4) == "gemm");
      passes(chain);
    }
    SimulatedChainOptions options;
    options.family = "gemm_sm90";
    const SimulatedChain hopper = make(text_of(Norm{.rows = "130", .gain = false}), options);
    CHECK(hopper.plan().buckets[0].form >= 0);
    CHECK(family_of_last(hopper) == "gemm_sm90");
    passes(hopper);
  }

  TEST_CASE("f16 rows; f32 rows, rounded on the way to the product") {
    const SimulatedChain half = filled(Norm{.x = "f16", .dtype = "f16", .gain = false});
    CHECK(half.plan().buckets[0].form >= 0);
    passes(half);
    for (const bool gain : {false, true}) {
      CAPTURE(gain);
      const SimulatedChain chain = filled(Norm{.x = "f32", .gain = gain});
      REQUIRE(chain.plan().forms.size() == 1);
      passes(chain);
    }
  }

  TEST_CASE("a symbol: each size in its bucket") {
    for (const i64 symbol : {1, 13, 65, 96}) {
      CAPTURE(symbol);
      SimulatedChainOptions options;
      options.fill = FillKind::kNormal;
      options.symbol = symbol;
      passes(make(text_of(Norm{.rows = "M"}), options));
    }
  }

  TEST_CASE("a NaN or an infinity stays in its row") {
    for (const FillKind fill : {FillKind::kNanPlant, FillKind::kInfPlant})
      passes(filled(Norm{}, fill));
  }

  TEST_CASE("after a residual add; several weights, one of them gated") {
    SimulatedChainOptions options;
    options.fill = FillKind::kNormal;
    options.plan.prefer_inside = true;
    const SimulatedChain chain = make(
        "chain a algebraic_norms (input p: bf16[9, 576], input r: bf16[9, 576],\n"
        "        weight g: bf16[576], weight w: bf16[75, 576], weight v: bf16[23, 576],\n"
        "        weight t: bf16[40, 576], weight u: bf16[40, 576]) {\n"
        "  h = cast(add(p, r), bf16)\n"
        "  s = rsqrt(add(mul(sum \"mk->m\"(square(h)), 0.001736111111111111), 0.00001))\n"
        "  n = cast(mul(cast(mul(h @ \"mk\", s @ \"m\"), bf16) @ \"mk\", g @ \"k\"), bf16)\n"
        "  y = contract \"mk,nk->mn\"(n, w)\n  z = contract \"mk,nk->mn\"(n, v)\n"
        "  tt = contract \"mk,nk->mn\"(n, t)\n  uu = contract \"mk,nk->mn\"(n, u)\n"
        "  q = mul(silu(tt), uu)\n"
        "  return h: bf16, y: bf16 align 2, z: f32 align 4, q: bf16 }",
        options);
    const PlanBucket& bucket = chain.plan().buckets[0];
    CHECK(bucket.form >= 0);
    REQUIRE(bucket.kernels.size() == 2);
    CHECK(bucket.kernels[1].beside.size() == 2);
    passes(chain);
  }

  TEST_CASE("the reference of a chain without the word refuses the form's kernels") {
    SimulatedChainOptions options;
    options.fill = FillKind::kNormal;
    options.plan.algebraic_norms = true;
    const SimulatedChain chain = make(text_of(Norm{.word = ""}), options);
    REQUIRE(chain.plan().buckets[0].form >= 0);
    CHECK(chain.run(1).name == "mismatch");
  }
}
