// SPDX-License-Identifier: Apache-2.0
// Row reductions in the epilogue through NVRTC: tiles compile without serialised wgmma, all but few
// without spills, and each chain's first choice.
#include <doctest/doctest.h>

#include "compiler/compile/nvrtc.h"
#include "compiler/emit/emit.h"
#include "compiler/kernel_family.h"
#include "tests/support/gemm_sm90_plan.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

// A chain and which of its candidates are compiled: every `step`-th.
struct Compiled {
  std::string text;
  int step;
};

// `h`, rounded to e4m3 with a scale for each row and block.
std::string quantised(const std::string& text) {
  return text +
         "  s = mul(max(reduce_max \"mjc->mj\"(abs(h)), 0.0001), 0.002232142857142857)\n"
         "  q = cast(mul(h, recip(s) @ \"mj\"), e4m3)\n  return q: e4m3, s: f32 }";
}

const Compiled kChains[] = {
    {quantised("chain quantised(input x: bf16[4096, 2048], weight w: bf16[32, 128, 2048],\n"
               "                weight b: bf16[32, 128]) {\n"
               "  h = gelu(add(contract \"mk,jck->mjc\"(x, w), b))\n"),
     3},
    {quantised("chain gated(input x: bf16[4096, 2048], weight w: bf16[32, 128, 2048],\n"
               "            weight v: bf16[32, 128, 2048]) {\n"
               "  h = mul(silu(contract \"mk,jck->mjc\"(x, w)), contract \"mk,jck->mjc\"(x, v))\n"),
     1},
    {quantised("chain blocks(input x: e4m3[4096, 2048], input t: f32[4096, 16],\n"
               "             weight w: e4m3[32, 128, 2048], weight u: f32[32, 1, 16]) {\n"
               "  h = contract \"mk,jck->mjc\"(dequant(x, t) block (1, 128),\n"
               "                             dequant(w, u) block (128, 128))\n"),
     1},
    {quantised(
         "chain gated_blocks(input x: e4m3[4096, 2048], input t: f32[4096, 16],\n"
         "                   weight w: e4m3[32, 128, 2048], weight u: f32[32, 1, 16],\n"
         "                   weight v: e4m3[32, 128, 2048], weight o: f32[32, 1, 16]) {\n"
         "  xs = dequant(x, t) block (1, 128)\n"
         "  g = contract \"mk,jck->mjc\"(xs, dequant(w, u) block (128, 128))\n"
         "  h = mul(silu(g), contract \"mk,jck->mjc\"(xs, dequant(v, o) block (128, 128)))\n"),
     1},
    {quantised("chain rows(input x: e4m3[4096, 2048], input t: f32[4096],\n"
               "           weight w: e4m3[32, 128, 2048], weight u: f32[32, 128]) {\n"
               "  h = mul(mul(contract \"mk,jck->mjc\"(x, w), t @ \"m\"), u @ \"jc\")\n"),
     2},
    {quantised("chain experts(input x: bf16[4096, 2048], weight w: bf16[8, 16, 128, 2048], input "
               "e: i32[8]) {"
               "\n  h = silu(contract \"mk,ejck->mjc\"(x, w) ragged m by e over e)\n"),
     3},
    {"chain heads(input x: bf16[4096, 2048], weight w: bf16[16, 128, 2048], weight g: bf16[128]) {"
     "\n  h = contract \"mk,jck->mjc\"(x, w)\n"
     "  v = mul(sum \"mjc->mj\"(square(h)), 0.0078125)\n"
     "  n = mul(mul(h, rsqrt(add(v, 0.00001)) @ \"mj\"), g)\n  return n: bf16 }",
     3},
    {"chain router(input x: bf16[4096, 2048], weight w: bf16[128, 2048]) {\n"
     "  h = contract \"mk,nk->mn\"(x, w)\n  e = exp(sub(h, reduce_max \"mn->m\"(h) @ \"m\"))\n"
     "  y = mul(e, recip(sum \"mn->m\"(e)) @ \"m\")\n  return y: f32 }",
     2},
};

}  // namespace

TEST_CASE("row reductions compile without spills and with asynchronous wgmma") {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  std::vector<CompileJob> jobs;
  std::vector<bool> first;  // choices of their chains
  for (const Compiled& compiled : kChains) {
    const VerifiedChain chain = verified(compiled.text);
    const Plan open = planned(compiled.text);
    CAPTURE(compiled.text);
    CHECK(config(open).epilogue.reduced_columns == 128);
    int row = 0;
    for (const CandidateSummary& tile : first_kernel(open).candidates) {
      if (!tile.rejected.empty() || row++ % compiled.step != 0) continue;
      PlanOptions options;
      options.force_tile = tile.id.tile;
      const Plan plan = planned(compiled.text, options);
      if (config(plan).epilogue.reduced_columns != 128) continue;  // apart is predicted faster
      jobs.push_back({emit(chain, plan, first_kernel(plan)), plan.target.arch, {}});
      jobs.back().source.banner = tile.id.tile + " of " + chain.chain().name;
      first.push_back(row == 1);
    }
  }
  CHECK(jobs.size() > 40);
  auto results = (*nvrtc)->compile_all(jobs);
  int spills = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) continue;
    const std::string what =
        jobs[i].source.banner + ": " + take_report(results[i].takeError()).message;
    MESSAGE(what.substr(0, 400));
    CHECK(what.find(" spills ") != std::string::npos);
    CHECK_MESSAGE(!first[i], what.substr(0, 400));
    ++spills;
  }
  CHECK(spills == 0);
}
