// SPDX-License-Identifier: Apache-2.0
// Which contractions may share a launch, and when the planner takes one.
#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <regex>

#include "compiler/explain.h"
#include "compiler/families/beside.h"
#include "compiler/fusion/fuse.h"
#include "compiler/kernel_family.h"
#include "compiler/plan.h"
#include "ir/text/text.h"
#include "tests/support/verified.h"

using namespace catenary;
using testing::verified;

namespace {

// The names of the anchors of each set.
std::vector<std::vector<std::string>> sets(const std::string& text) {
  const VerifiedChain chain = verified(text);
  const FusionPlan plan = fuse_chain(chain, true);
  std::vector<std::vector<std::string>> names;
  for (const auto& set : plan.beside) {
    names.emplace_back();
    for (int group : set) {
      names.back().push_back(chain.value(plan.groups[group].anchors[0].value).name);
    }
  }
  return names;
}

Plan planned(const std::string& text, const char* target = "h200", PlanOptions options = {}) {
  auto plan = make_plan(verified(text), *find_target(target), options);
  if (!plan) FAIL(take_report(plan.takeError()).message);
  return std::move(*plan);
}

std::string qkv(i64 m, i64 n = 1024) {
  return fmt::format(
      "chain a(input x: bf16[{0}, 4096], weight wq: bf16[{1}, 4096], weight wk: bf16[1024, 4096],\n"
      "        weight wv: bf16[1024, 4096]) {{\n"
      "  q = contract \"mk,nk->mn\"(x, wq)\n  k = contract \"mk,nk->mn\"(x, wk)\n"
      "  v = contract \"mk,nk->mn\"(x, wv)\n  return q: bf16, k: bf16, v: bf16 }}",
      m, n);
}

double predicted_us(const Plan& plan) {
  double us = 0;
  for (const KernelPlan& kernel : plan.buckets[0].kernels) us += kernel.predicted.us;
  return us;
}

using Sets = std::vector<std::vector<std::string>>;

}  // namespace

TEST_CASE("contractions over one activation form a set") {
  CHECK(sets(qkv(4)) == Sets{{"q", "k", "v"}});
}

TEST_CASE("ragged contractions form a set with those of the same groups") {
  const char* text = R"(chain a(input x: bf16[64, 64], input dg: bf16[64, 32], input e: i32[3],
      input f: i32[3], weight w: bf16[48, 64]) {
    y = contract "tk,nk->tn"(x, w)
    g = contract "tn,tk->enk"(dg, x) ragged t by e over e
    u = contract "tn,tk->enk"(dg, x) ragged t by f over e
    v = contract "tn,tk->enk"(dg, x) ragged t by e over e
    return y: f32, g: f32, u: f32, v: bf16 })";
  CHECK(sets(text) == Sets{{"g", "v"}});
}

TEST_CASE("an epilogue that reads another member's result stays apart") {
  CHECK(sets(R"(chain a(input x: bf16[8, 64], weight w: bf16[64, 64], weight v: bf16[64, 64]) {
    y = contract "mk,nk->mn"(x, w)
    z = contract "mk,kn->mn"(x, v)
    t = add(z, cast(y, f32))
    return t: f32, y: f32 })")
            .empty());
}

TEST_CASE("an operand that is computed after the first member stays apart") {
  CHECK(sets(R"(chain a(input x: bf16[8, 64], weight w: bf16[64, 64], weight v: bf16[48, 64]) {
    s = contract "mk,nk->mn"(x, w)
    y = cast(s, bf16)
    z = contract "mk,nk->mn"(y, v)
    u = contract "mk,nk->mn"(x, v)
    return z: f32, u: f32 })") == Sets{{"s", "u"}});
}

TEST_CASE("what a kernel in between reads may not be overwritten before it") {
  // r is read by y's epilogue, and z overwrites it.
  const char* text = R"(chain a(input x: bf16[8, 64], weight w: bf16[64, 64],
      weight v: bf16[64, 64], input r: f32[8, 64]) {
    y = add(contract "mk,nk->mn"(x, w), r)
    z = add(contract "mk,nk->mn"(x, v), r)
    return y: f32, z: f32 inplace r })";
  CHECK(sets(text).empty());
}

TEST_CASE("one launch where it is predicted to be faster") {
  for (const char* target : {"h200", "a100"}) {
    for (const i64 m : {1, 16, 64}) {
      CAPTURE(m);
      const Plan plan = planned(qkv(m, 4096), target);
      REQUIRE(plan.buckets[0].kernels.size() == 1);
      const KernelPlan& kernel = plan.buckets[0].kernels[0];
      CHECK(kernel.beside.size() == 2);
      CHECK(kernel.values.size() == 3);
      CHECK(plan.fused_kernels == 1);
      i64 ctas = 0;
      for (const KernelPart& part : kernel.beside) ctas += part.ctas;
      CHECK(ctas < kernel.grid.fixed);
    }
  }
}

TEST_CASE("large M: persistent CTAs, each with tiles of one contraction") {
  for (const i64 m : {512, 1024, 2048}) {
    CAPTURE(m);
    const Plan plan = planned(qkv(m, 4096));
    REQUIRE(plan.buckets[0].kernels.size() == 1);
    const KernelPlan& kernel = plan.buckets[0].kernels[0];
    REQUIRE(kernel.beside.size() == 2);
    CHECK(kernel.grid.ctas(0) <= 132);
    // Two thirds of the columns, two thirds of the CTAs.
    const i64 first = kernel.grid.fixed - kernel.beside[0].ctas - kernel.beside[1].ctas;
    CHECK(first > 2 * kernel.beside[0].ctas);
    CHECK(kernel.beside[0].ctas == kernel.beside[1].ctas);
  }
}

TEST_CASE("large M keeps its kernels where one launch gains next to nothing") {
  CHECK(planned(qkv(8192, 4096)).buckets[0].kernels.size() == 3);
}

TEST_CASE("one launch is never predicted to be slower than several") {
  for (const i64 n : {8, 264, 1024, 4096, 17408}) {
    for (const i64 m : {1, 100, 1000, 8192}) {
      CAPTURE(n);
      CAPTURE(m);
      PlanOptions apart;
      apart.fuse = false;
      CHECK(predicted_us(planned(qkv(m, n))) <= predicted_us(planned(qkv(m, n), "h200", apart)));
    }
  }
}

TEST_CASE("a symbol: the CTAs are those of its upper bound, and none without rows") {
  const char* text =
      "chain a[M in 0..1024](input x: bf16[M, 4096], weight w: bf16[4096, 4096],\n"
      "    weight v: bf16[1024, 4096]) {\n"
      "  y = contract \"mk,nk->mn\"(x, w)\n  z = contract \"mk,nk->mn\"(x, v)\n"
      "  return y: bf16, z: bf16 }";
  const Plan plan = planned(text);
  const KernelPlan& kernel = plan.buckets.back().kernels[0];
  REQUIRE(kernel.beside.size() == 1);
  CHECK(kernel.grid.ctas(0) == 0);
  CHECK(kernel.grid.ctas(1) == kernel.grid.ctas(1024));
  CHECK(kernel.grid.ctas(1024) <= 132);
}

TEST_CASE("gradients of weights that read one activation share a launch") {
  const char* text =
      "chain a(input x: bf16[8192, 4096], input dg: bf16[8192, 1536], input du: bf16[8192, 512]) "
      "{\n"
      "  g = contract \"tn,tk->nk\"(dg, x)\n  u = contract \"tn,tk->nk\"(du, x)\n"
      "  return g: f32, u: f32 }";
  const Plan plan = planned(text);
  REQUIRE(plan.buckets[0].kernels.size() == 1);
  const KernelPlan& kernel = plan.buckets[0].kernels[0];
  REQUIRE(kernel.beside.size() == 1);
  CHECK(kernel.family->name() == "gemm_sm90");
  CHECK(kernel.grid.ctas(0) <= 132);
}

TEST_CASE("rounds of persistent CTAs: the least that any shares allow") {
  CHECK(persistent_rounds({5}, 2) == 3);
  CHECK(persistent_rounds({256, 64, 64}, 132) == 3);
  CHECK(persistent_rounds({1, 1, 1}, 2) == 0);
  CHECK(persistent_rounds({0, 7}, 2) == 7);
  // Against every division of up to seven CTAs between three parts.
  const auto least = [](std::array<i64, 3> tiles, i64 ctas) {
    i64 best = std::numeric_limits<i64>::max();
    for (i64 a = 1; a <= ctas - 2; ++a) {
      for (i64 b = 1; b <= ctas - 1 - a; ++b) {
        const i64 c = ctas - a - b;
        best = std::min(
            best, std::max({ceil_div(tiles[0], a), ceil_div(tiles[1], b), ceil_div(tiles[2], c)}));
      }
    }
    return best;
  };
  for (i64 i = 0; i < 512; ++i) {
    const std::array<i64, 3> tiles = {1 + i % 8 * 3, 1 + i / 8 % 8 * 5, 1 + i / 64};
    for (i64 ctas = 3; ctas <= 7; ++ctas) {
      CAPTURE(i);
      CHECK(persistent_rounds(tiles, ctas) == least(tiles, ctas));
    }
  }
}

TEST_CASE("all tiles of a launch run at once where one matrix of their rows would") {
  for (const i64 n : {1024, 2048, 4096, 4104, 5120}) {
    CAPTURE(n);
    const KernelPlan kernel = planned(qkv(64, n)).buckets[0].kernels[0];
    CHECK(kernel.grid.ctas(0) <= i64{132} * kernel.min_ctas);
  }
}

TEST_CASE("explain names the contractions of a launch, and why") {
  const VerifiedChain chain = verified(qkv(4, 4096));
  // Lines are wrapped anywhere.
  const std::string text =
      std::regex_replace(explain_text(chain, planned(qkv(4, 4096))), std::regex("\\s+"), " ");
  CHECK(text.find("q, k, v") != std::string::npos);
  CHECK(text.find("3 contractions side by side") != std::string::npos);
  const KernelPlan kernel = planned(qkv(4, 4096)).buckets[0].kernels[0];
  CHECK(kernel.why.find("'k' shares an operand and the launch with it") != std::string::npos);
}

TEST_CASE("an unfused plan has no launch of several contractions") {
  PlanOptions options;
  options.fuse = false;
  CHECK(planned(qkv(4), "h200", options).buckets[0].kernels.size() == 3);
}
