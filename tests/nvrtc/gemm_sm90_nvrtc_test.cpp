// SPDX-License-Identifier: Apache-2.0
// Every tile of `gemm_sm90` through NVRTC, with short and long epilogues and both kinds of loads:
// it compiles without spills.
#include <doctest/doctest.h>

#include "compiler/compile/nvrtc.h"
#include "compiler/emit/emit.h"
#include "compiler/kernel_family.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

void check_compiles(const Nvrtc& nvrtc, const std::vector<CompileJob>& jobs) {
  auto results = nvrtc.compile_all(jobs);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) continue;
    FAIL_CHECK(jobs[i].source.banner << ": "
                                     << take_report(results[i].takeError()).message.substr(0, 400));
  }
}

}  // namespace

TEST_CASE("every tile compiles without spills") {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  const std::string chains[] = {
      "chain plain(input x: bf16[4096, 2048], weight w: bf16[8192, 2048], weight b: bf16[8192],\n"
      "            input r: bf16[4096, 8192]) {\n"
      "  y = add(gelu(add(contract \"mk,nk->mn\"(x, w), b)), r)\n  return y: bf16 }",
      "chain both[K in 64..8192](input x: f16[K, 4000], input w: f16[K, 3000]) {\n"
      "  y = contract \"km,kn->mn\"(x, w)\n  return y: f32 }",
      "chain batch(input x: bf16[2560, 12, 1000], weight w: bf16[12, 3001, 1000],\n"
      "            weight b: bf16[12, 3001] align 2) {\n"
      "  y = silu(add(contract \"bgk,gnk->bgn\"(x, w), b @ \"gn\"))\n  return y: bf16 align 2 }",
      "chain gated(input x: bf16[4096, 2048], weight w: bf16[8192, 2048],\n"
      "            weight v: bf16[8192, 2048]) {\n"
      "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
      "  h = mul(silu(g), u)\n  return h: bf16 }",
      "chain few(input x: bf16[40, 2048], weight w: bf16[3001, 2048], weight b: bf16[3001] align "
      "2,\n"
      "          input r: f32[40, 3001] align 4) {\n"
      "  y = add(gelu(add(contract \"mk,nk->mn\"(x, w), b)), r)\n  return y: bf16 align 2 }",
      "chain odd(input x: bf16[4096, 2047], weight w: bf16[8192, 2047], weight b: bf16[8192]) {\n"
      "  y = gelu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: bf16 }",
      "chain oddpair(input x: bf16[2050, 4098], weight w: bf16[2050, 3001],\n"
      "              weight v: bf16[2050, 3001]) {\n"
      "  g = contract \"km,kn->mn\"(x, w)\n  u = contract \"km,kn->mn\"(x, v)\n"
      "  h = mul(silu(g), u)\n  return h: bf16 align 2 }",
      "chain tf32(input x: f32[4096, 2048], weight w: f32[8192, 2048], weight b: f32[8192]) {\n"
      "  y = gelu(add(contract \"mk,nk->mn\"(x, w), b))\n  return y: f32 }"};
  std::vector<CompileJob> jobs;
  for (const std::string& text : chains) {
    const VerifiedChain chain = verified(text);
    const Plan open = planned(text);
    int row = 0;
    for (const CandidateSummary& tile : first_kernel(open).candidates) {
      if (!tile.rejected.empty() || tile.id.family != "gemm_sm90") continue;
      // Every fifth of the last chains.
      if (jobs.size() > 30 && row++ % 5 != 0) continue;
      PlanOptions options;
      options.force_tile = tile.id.tile;
      const Plan plan = planned(text, options);
      REQUIRE(family_name(first_kernel(plan)) == "gemm_sm90");
      jobs.push_back({emit(chain, plan, first_kernel(plan)), plan.target.arch, {}});
      jobs.back().source.banner = tile.id.tile + " of " + chain.chain().name;
    }
  }
  CHECK(jobs.size() > 36);
  check_compiles(**nvrtc, jobs);
}

TEST_CASE("tiles whose epilogue reads matrices and sums rows compile without spills") {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  const std::string chains[] = {
      "chain dglu(input x: bf16[8192, 4096], weight w: bf16[4096, 14336],\n"
      "           input g: bf16[8192, 14336], input u: bf16[8192, 14336]) {\n"
      "  p = cast(contract \"mk,kn->mn\"(x, w), bf16)\n  a = silu(g)\n  h = mul(a, u)\n"
      "  du = mul(p, a)\n  s = sigmoid(g)\n  one = constant(1)\n"
      "  t = mul(s, add(one, mul(g, sub(one, s))))\n  dg = mul(mul(p, u), t)\n"
      "  return h: bf16, du: bf16, dg: bf16 }",
      "chain grouped(input x: bf16[2560, 12, 1024], weight w: bf16[12, 1024, 3000],\n"
      "           input g: bf16[2560, 12, 3000], input u: bf16[2560, 12, 3000]) {\n"
      "  p = cast(contract \"bgk,gkn->bgn\"(x, w), bf16)\n  a = silu(g)\n  h = mul(a, u)\n"
      "  du = mul(p, a)\n  s = sigmoid(g)\n  one = constant(1)\n"
      "  t = mul(s, add(one, mul(g, sub(one, s))))\n  dg = mul(mul(p, u), t)\n"
      "  return h: bf16, du: bf16, dg: bf16 }",
      "chain dgelu(input x: bf16[8192, 768], weight w: bf16[768, 3072], weight b: bf16[3072],\n"
      "            input a: bf16[8192, 3072]) {\n"
      "  p = cast(contract \"mk,kn->mn\"(x, w), bf16)\n  c = add(a, b)\n  h = gelu_tanh(c)\n"
      "  s = sigmoid(mul(c, mul(c, c)))\n  da = mul(p, mul(s, add(c, s)))\n"
      "  db = sum \"mn->n\"(da)\n  return h: bf16, da: bf16, db: f32 }",
      "chain experts(input x: bf16[8192, 1024], weight w: bf16[8, 1024, 3072],\n"
      "              input g: bf16[8192, 3072], input u: bf16[8192, 3072], input ends: i32[8]) {\n"
      "  p = cast(contract \"mk,ekn->mn\"(x, w) ragged m by ends over e, bf16)\n"
      "  a = silu(g)\n  h = mul(a, u)\n  du = mul(p, a)\n  dg = mul(mul(p, u), sigmoid(g))\n"
      "  return h: bf16, du: bf16, dg: bf16 }"};
  std::vector<CompileJob> jobs;
  for (const std::string& text : chains) {
    const VerifiedChain chain = verified(text);
    const Plan open = planned(text);
    const auto kernel = [](const Plan& plan) -> const KernelPlan& {
      for (const KernelPlan& k : plan.buckets[0].kernels)
        if (k.family->name() == "gemm_sm90") return k;
      FAIL("no gemm_sm90");
      return plan.buckets[0].kernels[0];
    };
    int row = 0;
    for (const CandidateSummary& tile : kernel(open).candidates) {
      if (!tile.rejected.empty() || tile.id.family != "gemm_sm90" || tile.id.split_k > 1) continue;
      // Every second of all chains but the first.
      if (&text != &chains[0] && row++ % 2 != 0) continue;
      PlanOptions options;
      options.force_tile = tile.id.tile;
      const Plan plan = planned(text, options);
      jobs.push_back({emit(chain, plan, kernel(plan)), plan.target.arch, {}});
      jobs.back().source.banner = tile.id.tile + " of " + chain.chain().name;
    }
  }
  CHECK(jobs.size() > 30);
  check_compiles(**nvrtc, jobs);
}

TEST_CASE("one-tile CTAs with a norm inside compile without spills") {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  const std::string chains[] = {
      "chain normed(input x: bf16[64, 4096], weight w: bf16[6144, 4096]) {\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.000244140625), 0.00001))\n"
      "  y = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n  return y: bf16 }",
      "chain pair(input x: f16[20, 3584], weight w: f16[18944, 3584],\n"
      "           weight v: f16[18944, 3584]) {\n"
      "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), 0.00027901785714285713), 0.00001))\n"
      "  g = mul(contract \"mk,nk->mn\"(x, w), s @ \"m\")\n"
      "  u = mul(contract \"mk,nk->mn\"(x, v), s @ \"m\")\n  h = mul(silu(g), u)\n"
      "  return h: f16 }"};
  std::vector<CompileJob> jobs;
  for (const std::string& text : chains) {
    const VerifiedChain chain = verified(text);
    PlanOptions options;
    options.prefer_inside = true;
    const Plan open = planned(text, options);
    int row = 0;
    for (const CandidateSummary& tile : first_kernel(open).candidates) {
      if (!tile.rejected.empty() || tile.id.family != "gemm_sm90") continue;
      if (row++ % 3 != 0) continue;
      options.force_tile = tile.id.tile;
      const Plan plan = planned(text, options);
      REQUIRE(config(plan).row_squares);
      jobs.push_back({emit(chain, plan, first_kernel(plan)), plan.target.arch, {}});
      jobs.back().source.banner = tile.id.tile + " of " + chain.chain().name;
    }
  }
  CHECK(jobs.size() > 6);
  check_compiles(**nvrtc, jobs);
}
