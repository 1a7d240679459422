// SPDX-License-Identifier: Apache-2.0
// fp8 contractions through NVRTC: tiles of one and of two sets of partial sums, and fast ones,
// compile without spills and without serialised wgmma, and the scales of a k-tile arrive during
// the one before.
#include <doctest/doctest.h>

#include "compiler/compile/nvrtc.h"
#include "compiler/emit/emit.h"
#include "compiler/kernel_family.h"
#include "tests/support/gemm_sm90_plan.h"
#include "tests/support/sm90_code.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

const char* const kDense =
    "chain dense(input x: e4m3[4096, 2048], weight w: e4m3[8192, 2048], input s: f32[4096],\n"
    "            weight t: f32[8192], weight b: bf16[8192]) {\n"
    "  h = contract \"mk,nk->mn\"(x, w)\n"
    "  y = gelu(add(mul(mul(h, s @ \"m\"), t @ \"n\"), b))\n  return y: bf16 }";

constexpr int kFirstOnly = 1000;

// A chain and which of its candidates are compiled: every `step`-th.
struct Compiled {
  const char* text;
  int step;
};

const Compiled kChains[] = {
    {kDense, 2},
    {"chain fast(input x: e5m2[4096, 2048], weight w: e5m2[8192, 2048], weight t: f32[8192]) {\n"
     "  y = mul(contract \"mk,nk->mn\" fast_accum (x, w), t)\n  return y: bf16 }",
     9},
    {"chain gated(input x: e4m3[4096, 2048], weight w: e4m3[8192, 2048],\n"
     "            weight v: e4m3[8192, 2048], input s: f32[4096], weight t: f32[8192],\n"
     "            weight u: f32[8192], scalar q: f32) {\n"
     "  g = contract \"mk,nk->mn\"(x, w)\n  h = contract \"mk,nk->mn\"(x, v)\n"
     "  a = mul(mul(g, s @ \"m\"), t @ \"n\")\n  b = mul(mul(h, s @ \"m\"), u @ \"n\")\n"
     "  y = scale(mul(silu(a), b), q)\n  return y: e4m3 }",
     3},
    {"chain experts(input x: e4m3[4096, 2048], weight w: e4m3[8, 4096, 2048], input ends: i32[8],\n"
     "              input s: f32[4096], weight t: f32[8, 4096]) {\n"
     "  h = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n"
     "  y = mul(mul(h, s @ \"m\"), t @ \"en\")\n  return y: bf16 }",
     3},
    {"chain grouped(input x: e4m3[2560, 12, 1024], weight w: e4m3[12, 3072, 1024],\n"
     "              input s: f32[2560], weight t: f32[12, 3072]) {\n"
     "  y = mul(mul(contract \"bgk,gnk->bgn\"(x, w), s @ \"b\"), t @ \"gn\")\n  return y: e4m3 }",
     5},
    {"chain blocks(input x: e4m3[4096, 2048], input s: f32[4096, 16] strides[1, 4096],\n"
     "             weight w: e4m3[8192, 2048], weight t: f32[64, 16]) {\n"
     "  y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128))\n"
     "  return y: bf16 }",
     1},
    {"chain blocks_gated(input x: e4m3[4096, 2048], input s: f32[4096, 16],\n"
     "                   weight w: e4m3[8192, 2048], weight t: f32[64, 16],\n"
     "                   weight v: e4m3[8192, 2048], weight u: f32[64, 16]) {\n"
     "  d = dequant(x, s) block (1, 128)\n"
     "  g = contract \"mk,nk->mn\"(d, dequant(w, t) block (128, 128))\n"
     "  h = contract \"mk,nk->mn\"(d, dequant(v, u) block (128, 128))\n"
     "  y = mul(silu(g), h)\n  return y: bf16 }",
     2},
    {"chain blocks_experts(input x: e4m3[4096, 2048], input s: f32[4096, 16],\n"
     "                     weight w: e4m3[8, 4096, 2048], weight t: f32[8, 32, 16],\n"
     "                     input ends: i32[8]) {\n"
     "  h = contract \"mk,enk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128))\n"
     "      ragged m by ends over e\n  y = silu(h)\n  return y: e4m3 }",
     3},
    {"chain blocks_300(input x: e4m3[300, 2048], input s: f32[300, 16],\n"
     "                 weight w: e4m3[4096, 2048], weight t: f32[32, 16]) {\n"
     "  y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128))\n"
     "  return y: bf16 }",
     kFirstOnly},
    {"chain blocks_quantised(input x: e4m3[4096, 2048], input s: f32[4096, 16] strides[1, 4096],\n"
     "                       weight w: e4m3[112, 128, 2048], weight t: f32[112, 1, 16],\n"
     "                       weight v: e4m3[112, 128, 2048], weight u: f32[112, 1, 16]) {\n"
     "  d = dequant(x, s) block (1, 128)\n"
     "  g = contract \"mk,jck->mjc\"(d, dequant(w, t) block (128, 128))\n"
     "  h = contract \"mk,jck->mjc\"(d, dequant(v, u) block (128, 128))\n"
     "  a = mul(silu(g), h)\n"
     "  z = mul(max(reduce_max \"mjc->mj\"(abs(a)), 0.0001), 0.002232142857142857)\n"
     "  y = div(a, z @ \"mj\")\n  return y: e4m3, z: f32 strides[1, 4096] }",
     2},
    {"chain few(input x: e4m3[40, 4096], weight w: e4m3[3072, 4096], weight t: f32[3072]) {\n"
     "  y = mul(contract \"mk,nk->mn\"(x, w), t)\n  return y: bf16 }",
     3},
};

}  // namespace

TEST_CASE(
    "fp8 tiles compile without spills, with asynchronous wgmma and scales that arrive early") {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  std::vector<CompileJob> jobs;
  std::vector<bool> scaled;  // with scales per block, and a loop over k-tiles
  for (const Compiled& compiled : kChains) {
    const VerifiedChain chain = verified(compiled.text);
    const Plan open = planned(compiled.text);
    int row = 0;
    for (const CandidateSummary& tile : first_kernel(open).candidates) {
      if (!tile.rejected.empty() || row++ % compiled.step != 0) continue;
      PlanOptions options;
      options.force_tile = tile.id.tile;
      const Plan plan = planned(compiled.text, options);
      REQUIRE(family_name(first_kernel(plan)) == "gemm_sm90");
      jobs.push_back({emit(chain, plan, first_kernel(plan)), plan.target.arch, {}});
      // ptxas unrolls the loop of a k-slice that has two k-tiles.
      scaled.push_back(config(plan).block_scaled && config(plan).k_slices() == 1);
      jobs.back().source.banner = tile.id.tile + " of " + chain.chain().name;
    }
  }
  CHECK(jobs.size() > 60);
  auto results = (*nvrtc)->compile_all(jobs);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& what = jobs[i].source.banner;
    if (!results[i]) {
      FAIL_CHECK(what << ": " << take_report(results[i].takeError()).message.substr(0, 400));
    } else if (scaled[i]) {
      CAPTURE(what);
      const LoadWaits scales = waits_for_own_loads(mma_loop(sm90_code(results[i]->cubin)));
      CHECK(scales.loads >= 3);
      CHECK(scales.waits == 0);
    }
  }
}
