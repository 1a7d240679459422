// SPDX-License-Identifier: Apache-2.0
// Candidates of `skinny_dequant` through NVRTC, for every dtype of integers and activations: they
// compile without spills. Prints the registers of each.
#include <doctest/doctest.h>

#include "compiler/compile/nvrtc.h"
#include "compiler/emit/emit.h"
#include "compiler/kernel_family.h"
#include "ir/random/random_chain.h"
#include "ir/text/text.h"
#include "shared/skinny_dequant_config.h"

using namespace catenary;

namespace {

struct Case {
  const char *q, *x;
  i64 m, n, k, group;
  bool zero = false;
  bool dual = false;
  i64 experts = 0;    // M in groups
  bool norm = false;  // with a gain, inside
};

// The rows that are multiplied, h, and their scale after the product, r.
std::string norm_text(const Case& c) {
  if (!c.norm) return "";
  return fmt::format(
      "  r = rsqrt(add(mul(sum \"mk->m\"(square(x)), {}), 0.00001))\n"
      "  h = cast(mul(x @ \"mk\", v @ \"k\"), {})\n",
      1.0 / static_cast<double>(c.k), c.x);
}

std::string gain_text(const Case& c) {
  return c.norm ? fmt::format(", weight v: {}[{}]", c.x, c.k) : "";
}

std::string scaled(const Case& c, const std::string& product) {
  return c.norm ? fmt::format("mul({}, r @ \"m\")", product) : product;
}

// Weights of a pair or of experts.
std::string groups_text(const Case& c) {
  const std::string of = c.experts > 0 ? fmt::format("{}, ", c.experts) : "";
  const std::string numbers = fmt::format("[{}{}, {}]", of, c.n, ceil_div(c.k, c.group));
  const auto weight = [&](const char* name) {
    return fmt::format(", weight {0}: {1}[{2}{3}, {4}] packed, weight s{0}: {5}{6}{7}", name, c.q,
                       of, c.n, c.k, c.x, numbers,
                       c.zero ? fmt::format(", weight z{}: i8{}", name, numbers) : "");
  };
  const auto product = [&](const char* name) {
    return scaled(c, fmt::format("contract \"{0}\"({5}, dequant({1}, s{1}{2}) block (1, {3})){4}",
                                 c.experts > 0 ? "mk,enk->mn" : "mk,nk->mn", name,
                                 c.zero ? fmt::format(", z{}", name) : "", c.group,
                                 c.experts > 0 ? " ragged m by e over e" : "", c.norm ? "h" : "x"));
  };
  return fmt::format(
      "chain a(input x: {0}[{1}, {2}]{3}{4}{5}{9}) {{\n{10}  a = {6}\n{7}  y = {8}\n"
      "  return y: {0} }}",
      c.x, c.m, c.k, weight("g"), c.dual ? weight("u") : "",
      c.experts > 0 ? fmt::format(", input e: i32[{}]", c.experts) : "", product("g"),
      c.dual ? "  b = " + product("u") + "\n" : "", c.dual ? "mul(silu(a), b)" : "silu(a)",
      gain_text(c), norm_text(c));
}

std::string text_of(const Case& c) {
  if (c.dual || c.experts > 0) return groups_text(c);
  const std::string numbers = fmt::format("[{}, {}]", c.n, ceil_div(c.k, c.group));
  return fmt::format(
      "chain a(input x: {0}[{1}, {2}], weight q: {3}[{4}, {2}] packed, weight s: {0}{5}{6},\n"
      "        weight b: {0}[{4}], input d: {0}[{1}, {4}]{9}) {{\n{10}"
      "  w = dequant(q, s{7}) block (1, {8})\n"
      "  y = add(silu(add({11}, b)), d)\n  return y: {0} }}",
      c.x, c.m, c.k, c.q, c.n, numbers, c.zero ? ", weight z: i8" + numbers : "",
      c.zero ? ", z" : "", c.group, gain_text(c), norm_text(c),
      scaled(c, fmt::format("contract \"mk,nk->mn\"({}, w)", c.norm ? "h" : "x")));
}

// The first `most` candidates by prediction, compiled. Returns how many spill.
int count_spills(const Nvrtc& nvrtc, const Case& c, size_t most) {
  const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(text_of(c)))));
  const Target target = llvm::cantFail(find_target("h200"));
  PlanOptions options;
  options.prefer_inside = c.norm;
  const Plan first = llvm::cantFail(make_plan(chain, target, options));
  std::vector<CandidateSummary> ranked;
  for (const CandidateSummary& candidate : first.buckets[0].kernels[0].candidates) {
    if (candidate.id.family == "skinny_dequant") ranked.push_back(candidate);
  }
  int spills = 0;
  for (size_t i = 0; i < std::min(most, ranked.size()); ++i) {
    options.force_tile = ranked[i].id.tile;
    const Plan plan = llvm::cantFail(make_plan(chain, target, options));
    const KernelPlan& kernel = plan.buckets[0].kernels[0];
    CHECK(family_name(kernel) == "skinny_dequant");
    CHECK(kernel.config.get<SkinnyDequantConfig>().gain.used == c.norm);
    auto result = nvrtc.compile({emit(chain, plan, kernel), target.arch, {.allow_spills = true}});
    if (!result) FAIL(take_report(result.takeError()).message);
    const KernelResources& used = result->cubin.resources;
    spills += used.spill_bytes > 0 ? 1 : 0;
    MESSAGE(fmt::format(
        "{} {} M {} {}x{} g{} zero {} dual {} experts {} norm {}: {}: {:.2f} us, {} registers, {} "
        "bytes spilled",
        c.q, c.x, c.m, c.n, c.k, c.group, c.zero, c.dual, c.experts, c.norm, ranked[i].id.tile,
        ranked[i].us, used.registers, used.spill_bytes));
  }
  return spills;
}

}  // namespace

TEST_CASE("candidates compile without spills") {
  auto nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  for (const Case& c : std::vector<Case>{{"i4", "bf16", 1, 8192, 8192, 128},
                                         {"i4", "bf16", 8, 4096, 4096, 128},
                                         {"i4", "f16", 16, 4096, 14336, 128},
                                         {"u4", "bf16", 4, 4096, 4096, 32, true},
                                         {"i8", "bf16", 16, 28672, 4096, 4096},
                                         {"i8", "f16", 32, 3584, 37888, 128, true},
                                         {"i4", "bf16", 1, 14336, 4096, 128, false, true},
                                         {"u4", "bf16", 8, 4096, 4096, 32, true, true},
                                         {"i8", "f16", 16, 14336, 4096, 128, false, true},
                                         {"i4", "bf16", 32, 4096, 4096, 64, true, true},
                                         {"i4", "bf16", 64, 768, 2048, 128, false, false, 32},
                                         {"u4", "bf16", 128, 768, 2048, 128, true, true, 16},
                                         {"i8", "f16", 512, 4096, 4096, 4096, false, true, 16}}) {
    CHECK(count_spills(**nvrtc, c, 3) == 0);
  }
}

TEST_CASE("candidates with a norm and a gain inside compile without spills") {
  auto nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  for (const Case& c :
       std::vector<Case>{{"i4", "bf16", 1, 6144, 4096, 128, false, false, 0, true},
                         {"i4", "bf16", 8, 28672, 4096, 128, false, false, 0, true},
                         {"u4", "f16", 16, 4096, 4096, 32, true, false, 0, true},
                         {"i8", "bf16", 24, 3584, 3584, 128, true, false, 0, true},
                         {"i4", "bf16", 1, 14336, 4096, 128, false, true, 0, true},
                         {"i4", "bf16", 16, 14336, 4096, 128, false, true, 0, true},
                         {"i8", "f16", 32, 4096, 4096, 4096, false, true, 0, true}}) {
    CHECK(count_spills(**nvrtc, c, 3) == 0);
  }
}

TEST_CASE("random chains with small M compile without spills and without a warning") {
  auto nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  const Target target = llvm::cantFail(find_target("h200"));
  int compiled = 0;
  for (u64 seed = 0; compiled < 24; ++seed) {
    RandomChainOptions options;
    options.small_m = true;
    options.no_dequant = false;
    options.max_contractions = 1;
    const VerifiedChain chain = llvm::cantFail(verify(random_chain(seed, options)));
    auto plan = make_plan(chain, target);
    if (!plan) {
      llvm::consumeError(plan.takeError());
      continue;
    }
    for (const PlanBucket& bucket : plan->buckets) {
      for (const KernelPlan& kernel : bucket.kernels) {
        if (family_name(kernel) != "skinny_dequant") continue;
        ++compiled;
        auto result = (*nvrtc)->compile({emit(chain, *plan, kernel), target.arch, {}});
        if (!result) {
          FAIL_CHECK(fmt::format("seed {}: {}\n{}", seed, take_report(result.takeError()).message,
                                 print(chain.chain())));
        }
      }
    }
  }
}
