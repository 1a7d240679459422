// SPDX-License-Identifier: Apache-2.0
// Several weights over one activation in one launch, in the simulator: every family that runs parts
// side by side, unlike N, epilogues and outputs, after another kernel, and with one part a dual
// GEMM.
#include <doctest/doctest.h>

#include "compiler/kernel_family.h"
#include "tests/support/sim_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

constexpr u64 kSeeds = 6;

// x is m x 1088. Three weights of odd N, a bias on one of them, and outputs of two types.
std::string qkv(const std::string& m, const std::string& symbol = "") {
  return fmt::format(
      "chain a{1}(input x: bf16[{0}, 1088], weight wq: bf16[75, 1088],\n"
      "        weight wk: bf16[23, 1088], weight wv: bf16[40, 1088], weight b: f32[75] align 4) "
      "{{\n"
      "  q = add(contract \"mk,nk->mn\"(x, wq), b)\n  k = contract \"mk,nk->mn\"(x, wk)\n"
      "  v = relu(contract \"mk,nk->mn\"(x, wv))\n"
      "  return q: bf16 align 2, k: bf16 align 2, v: f32 }}",
      m, symbol);
}

// Two weights with the epilogue from registers: whole vectors of aligned rows.
const char* const kEven =
    "chain a(input x: bf16[400, 136], weight w: bf16[264, 136], weight v: bf16[72, 136]) {\n"
    "  y = contract \"mk,nk->mn\"(x, w)\n  z = relu(contract \"mk,nk->mn\"(x, v))\n"
    "  return y: bf16, z: f32 }";

// Gate and up with one epilogue, and a router of N = 9 that other experts share.
const char* const kRouter =
    "chain a(input x: bf16[5, 576], weight w: bf16[40, 576], weight u: bf16[40, 576],\n"
    "        weight r: bf16[9, 576]) {\n"
    "  g = contract \"mk,nk->mn\"(x, w)\n  p = contract \"mk,nk->mn\"(x, u)\n"
    "  h = mul(relu(g), p)\n  s = contract \"mk,nk->mn\"(x, r)\n"
    "  return h: bf16, s: f32 align 4 }";

// x is computed by the kernel before, which stores it for the caller too.
const char* const kAfterKernel =
    "chain a(input p: bf16[5, 576], weight w: bf16[40, 576], weight v: bf16[24, 576]) {\n"
    "  x = cast(relu(p), bf16)\n  y = contract \"mk,nk->mn\"(x, w)\n"
    "  z = contract \"mk,nk->mn\"(x, v)\n  return x: bf16, y: f32, z: bf16 }";

// The gradients of two weights that read x, of unlike rows, and one of a batch of weights.
std::string wgrads(int n, int other) {
  return fmt::format(
      "chain a(input x: bf16[136, 72], input dg: bf16[136, {0}], input du: bf16[136, {1}]) {{\n"
      "  g = contract \"tn,tk->nk\"(dg, x)\n  u = contract \"tn,tk->nk\"(du, x)\n"
      "  return g: f32, u: bf16 }}",
      n, other);
}
const char* const kBatchedWgrads =
    "chain a(input x: bf16[3, 72, 64], input dg: bf16[3, 72, 136], input du: bf16[3, 72, 136]) {\n"
    "  g = contract \"btn,btk->bnk\"(dg, x)\n  u = contract \"btn,btk->bnk\"(du, x)\n"
    "  return g: f32, u: f32 }";

// The same of experts: each has the rows of its group.
const char* const kRaggedWgrads =
    "chain a(input x: bf16[136, 72], input dg: bf16[136, 200], input du: bf16[136, 72],\n"
    "        input e: i32[3]) {\n"
    "  g = contract \"tn,tk->enk\"(dg, x) ragged t by e over e\n"
    "  u = contract \"tn,tk->enk\"(du, x) ragged t by e over e\n  return g: f32, u: bf16 }";

struct Run {
  std::string text;
  const char* tile = "";
  const char* family = "";
  size_t kernels = 1;
  size_t parts = 3;
  const char* target = "h200";
  i64 symbol = 0;
  int sm_count = 0;
};

void passes(const Run& run) {
  CAPTURE(run.text);
  CAPTURE(run.tile);
  SimulatedChainOptions options;
  options.target = run.target;
  options.plan.force_tile = run.tile;
  options.family = run.family;
  options.symbol = run.symbol;
  options.sm_count = run.sm_count;
  auto chain = SimulatedChain::make(run.text, options);
  if (!chain) FAIL(take_report(chain.takeError()).message);
  const auto& kernels = chain->plan().buckets.back().kernels;
  REQUIRE(kernels.size() == run.kernels);
  CHECK(kernels.back().beside.size() + 1 == run.parts);
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    const SimulatedOutcome outcome = chain->run(seed);
    const std::string text = fmt::format("seed {}: {}: {}", seed, outcome.name, outcome.message);
    CHECK_MESSAGE(outcome.name == "", text);
  }
}

}  // namespace

TEST_SUITE("several weights in one launch, in the simulator") {
  TEST_CASE("the planner's choice") {
    for (const char* target : {"h200", "a100", "b200"}) {
      for (const char* m : {"1", "9", "24"}) passes({.text = qkv(m), .target = target});
    }
  }

  TEST_CASE("skinny: bulk loads, cp.async, clusters") {
    for (const char* tile :
         {"skinny8x1s2r1g4p3", "skinny4x2s4r1g2p5", "skinny8x1s2r1g2p3a", "skinny4x1s2r1g2p3c2"}) {
      passes({.text = qkv("5"), .tile = tile});
    }
  }

  TEST_CASE("gemm_sm90 with one tile for each CTA") {
    for (const char* tile : {"64x32x64g1s8k1", "64x64x64g1s6k2", "64x32x64g1s8k4"}) {
      passes({.text = qkv("33"), .tile = tile});
      passes({.text = qkv("72"), .tile = tile});
    }
  }

  TEST_CASE("gemm_sm80, several row tiles") {
    passes({.text = qkv("40"), .tile = "16x64x128w1x4s5", .target = "a100"});
    passes({.text = qkv("40"), .tile = "32x64x128w1x4s3"});
  }

  TEST_CASE("a dual GEMM beside a single one") {
    passes({.text = kRouter, .parts = 2});
    passes({.text = kRouter, .tile = "skinny4x1s2r1g2p3", .parts = 2});
    passes({.text = kRouter, .tile = "64x32x64g1s8k2", .parts = 2});
  }

  TEST_CASE("after a kernel that computes x") {
    passes({.text = kAfterKernel, .kernels = 2, .parts = 2});
    passes({.text = kAfterKernel, .tile = "64x32x64g1s8k2", .kernels = 2, .parts = 2});
  }

  TEST_CASE("persistent gemm_sm90: each part has CTAs of its own") {
    // Seven SMs: parts of 75, 23 and 40 columns have unlike numbers of CTAs and of tiles.
    for (const char* tile : {"64x64x64g1s3", "128x64x64p2s3", "64x128x64p2s2", "128x128x64p2s2c2",
                             "128x128x64p2s2n2"}) {
      passes({.text = qkv("300"), .tile = tile, .sm_count = 7});
    }
    passes({.text = qkv("300"), .tile = "64x64x64g1s3c4", .sm_count = 12});
    passes({.text = kEven, .tile = "192x128x64g3s2", .parts = 2, .sm_count = 5});
    passes({.text = qkv("M", "[M in 0..300]"), .tile = "64x64x64g1s3", .symbol = 0, .sm_count = 7});
    passes(
        {.text = qkv("M", "[M in 0..300]"), .tile = "64x64x64g1s3", .symbol = 65, .sm_count = 7});
    passes({.text = kRouter, .tile = "64x64x64g1s3", .parts = 2, .sm_count = 3});
    passes({.text = kAfterKernel, .tile = "64x64x64g1s3", .kernels = 2, .parts = 2, .sm_count = 2});
  }

  TEST_CASE("gradients of weights that read one activation") {
    for (const char* tile : {"64x64x64g1s3", "128x64x64p2s3", "128x128x64p2s3n2"}) {
      passes({.text = wgrads(200, 72), .tile = tile, .parts = 2, .sm_count = 5});
    }
    passes({.text = wgrads(64, 64), .tile = "64x64x64g1s3", .parts = 2, .sm_count = 2});
    for (const char* tile : {"64x64x64g1s3", "128x128x64p2s3c2"}) {
      passes({.text = kRaggedWgrads, .tile = tile, .parts = 2, .sm_count = 6});
    }
    passes({.text = kBatchedWgrads, .tile = "64x64x64g1s3", .parts = 2, .sm_count = 4});
  }

  TEST_CASE("a symbol: no rows, one row, the last bucket") {
    for (const i64 symbol : {0, 1, 17, 40}) {
      passes({.text = qkv("M", "[M in 0..40]"), .tile = "64x32x64g1s8k2", .symbol = symbol});
    }
  }
}
