// SPDX-License-Identifier: Apache-2.0
// The norm inside a small-M kernel, in the simulator: sums of squares by every form of `skinny` and
// by one-tile CTAs of `gemm_sm90`, in clusters, with a dual GEMM, side by side, and of rows that a
// kernel before has computed.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "tests/support/norm_kernels.h"
#include "tests/support/sim_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

constexpr u64 kSeeds = 6;

std::string normed(const std::string& m, const char* dtype = "bf16") {
  return fmt::format(
      "chain a(input x: {1}[{0}, 1088], weight w: {1}[75, 1088], weight b: f32[75] align 4) {{\n"
      "  q = sum \"mk->m\"(square(x))\n"
      "  s = rsqrt(add(mul(q, 0.0009191176470588235), 0.00001))\n"
      "  y = add(mul(contract \"mk,nk->mn\"(x, w), s @ \"m\"), b)\n  return y: f32 align 4 }}",
      m, dtype);
}

// The same with K and N that TMA loads, K no multiple of 64.
std::string rows_of_tma(const std::string& m) {
  return fmt::format(
      "chain a(input x: bf16[{0}, 1096], weight w: bf16[80, 1096]) {{\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.0009124087591240876), 0.00001))\n"
      "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n"
      "  return y: f32 }}",
      m);
}

// Residual add, then QKV and a dual GEMM over the normalised rows.
const char* const kLayer =
    "chain a(input p: bf16[9, 576], input r: bf16[9, 576], weight w: bf16[75, 576],\n"
    "        weight v: bf16[23, 576], weight g: bf16[40, 576], weight u: bf16[40, 576]) {\n"
    "  h = cast(add(p, r), bf16)\n  q = sum \"mk->m\"(mul(h, h))\n"
    "  s = rsqrt(add(mul(q, 0.001736111111111111), 0.00001))\n"
    "  y = mul(contract \"mk,nk->mn\"(h, w), s @ \"m\")\n"
    "  z = mul(contract \"mk,nk->mn\"(h, v), s @ \"m\")\n"
    "  gg = mul(contract \"mk,nk->mn\"(h, g), s @ \"m\")\n"
    "  uu = mul(contract \"mk,nk->mn\"(h, u), s @ \"m\")\n  t = mul(silu(gg), uu)\n"
    "  return h: bf16, y: bf16 align 2, z: f32 align 4, t: bf16 }";

SimulatedChain make(const std::string& text, const char* tile = "", const char* target = "h200",
                    FillKind fill = FillKind::kExactInteger) {
  SimulatedChainOptions options;
  options.target = target;
  options.plan.force_tile = tile;
  options.plan.prefer_inside = true;
  options.fill = fill;
  auto chain = SimulatedChain::make(text, options);
  if (!chain) FAIL(text << "\n" << take_report(chain.takeError()).message);
  return std::move(*chain);
}

void passes(const SimulatedChain& chain) {
  CHECK(sums_squares(chain.plan().buckets.back().kernels.back()));
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    const SimulatedOutcome outcome = chain.run(seed);
    const std::string text = fmt::format("seed {}: {}: {}", seed, outcome.name, outcome.message);
    CHECK_MESSAGE(outcome.name == "", text);
  }
}

}  // namespace

TEST_SUITE("the norm inside, in the simulator") {
  TEST_CASE("the planner's choice for every math mode") {
    for (const char* target : {"h200", "a100"}) {
      for (const char* dtype : {"bf16", "f16", "f32"}) {
        for (const char* m : {"1", "8", "13"}) {
          CAPTURE(target);
          CAPTURE(dtype);
          CAPTURE(m);
          passes(make(normed(m, dtype), "", target));
        }
      }
    }
  }

  TEST_CASE("forms: warps along N, uneven slices, chunks of columns, cp.async, clusters") {
    for (const char* tile :
         {"skinny4x2s4r1g2p5", "skinny8x1s2r1g4p3", "skinny4x2s4r1g2p5x8", "skinny8x1s2r1g2p3a",
          "skinny4x1s2r1g2p3c2", "skinny4x2s1r1g2p2t2c4"}) {
      CAPTURE(tile);
      passes(make(normed("13"), tile));
    }
  }

  TEST_CASE("one-tile CTAs of gemm_sm90: one and two warps with squares, clusters, a K tail") {
    for (const char* tile : {"64x128x64g1s2k1", "64x64x64g1s4k2", "64x64x64g1s3k4"}) {
      for (const char* m : {"1", "24", "64"}) {
        CAPTURE(tile);
        CAPTURE(m);
        const SimulatedChain chain = make(rows_of_tma(m), tile);
        CHECK(family_name(chain.plan().buckets[0].kernels.back()) == "gemm_sm90");
        passes(chain);
      }
    }
  }

  TEST_CASE("one-tile CTAs of gemm_sm90 with two mma warpgroups, each with rows of its own") {
    for (const char* m : {"72", "100", "128"}) {
      CAPTURE(m);
      const SimulatedChain chain = make(
          fmt::format("chain a(input x: bf16[{}, 264], weight w: bf16[6400, 264]) {{\n"
                      "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.00378787879), 0.00001))\n"
                      "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: bf16 }}",
                      m),
          "128x56x64g2s3k1w");
      CHECK(sums_squares(chain.plan().buckets.back().kernels.back()));
      CHECK(chain.run(1).name == "");
    }
  }

  TEST_CASE("sums in parts, for fewer rows than the symbol may have") {
    SimulatedChainOptions options;
    options.target = "h100";
    for (const i64 symbol : {25, 32}) {
      options.symbol = symbol;
      auto chain = SimulatedChain::make(
          "chain a[M in 0..40](input x: bf16[2048, M] strides[40, 1]) {\n"
          "  q = sum \"km->m\"(square(x))\n"
          "  s = rsqrt(add(mul(q, 0.00048828125), 0.00001))\n  return s: f32 }",
          options);
      REQUIRE(chain);
      CHECK(chain->plan().buckets[find_bucket(chain->plan(), symbol)].kernels.size() == 2);
      CHECK(chain->run(1).name == "");
    }
  }

  TEST_CASE("normal data, and a NaN that stays in its row") {
    for (const FillKind fill : {FillKind::kNormal, FillKind::kNanPlant, FillKind::kInfPlant}) {
      passes(make(normed("13"), "", "h200", fill));
    }
  }

  TEST_CASE("after a residual add; several weights, one of them gated") {
    const SimulatedChain chain = make(kLayer);
    const auto& kernels = chain.plan().buckets[0].kernels;
    REQUIRE(kernels.size() == 2);
    CHECK(kernels[1].beside.size() == 2);
    passes(chain);
  }
}
