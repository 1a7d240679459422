// SPDX-License-Identifier: Apache-2.0
// Candidates of `gemm_dequant` through NVRTC, for every dtype of integers and activations: the best
// ones compile without spills, and ptxas does not serialise their MMAs (a C75xx warning). Prints
// the registers of each.
#include <doctest/doctest.h>

#include "compiler/compile/nvrtc.h"
#include "compiler/compile/nvrtc_log.h"
#include "compiler/emit/emit.h"
#include "compiler/kernel_family.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

struct Case {
  const char *q, *x;
  i64 m, n, k, group;
  bool zero = false;
  bool dual = false;
  i64 batch = 1;
  bool symbol = false;          // M in 0..m
  const char* role = "weight";  // of q, scale and zero
};

std::string text_of(const Case& c) {
  const std::string of = c.batch > 1 ? fmt::format("{}, ", c.batch) : "";
  const std::string label = c.batch > 1 ? "g" : "";
  const std::string m = c.symbol ? "M" : fmt::format("{}", c.m);
  const std::string numbers = fmt::format("[{}{}, {}]", of, c.n, ceil_div(c.k, c.group));
  const auto weight = [&](const char* name) {
    return fmt::format(",\n  {8} {0}: {1}[{2}{3}, {4}] packed, {8} s{0}: {5}{6}{7}", name, c.q, of,
                       c.n, c.k, c.x, numbers,
                       c.zero ? fmt::format(", {} z{}: i8{}", c.role, name, numbers) : "", c.role);
  };
  const auto product = [&](const char* name) {
    return fmt::format("contract \"{0}mk,{0}nk->{0}mn\"(x, dequant({1}, s{1}{2}) block (1, {3}))",
                       label, name, c.zero ? fmt::format(", z{}", name) : "", c.group);
  };
  const std::string head = fmt::format("chain a{}(input x: {}[{}{}, {}]{}{}, weight b: {}[{}]",
                                       c.symbol ? fmt::format("[M in 0..{}]", c.m) : "", c.x, of, m,
                                       c.k, weight("q"), c.dual ? weight("v") : "", c.x, c.n);
  if (c.dual)
    return fmt::format("{}) {{\n  y = mul(silu(add({}, b)), {})\n  return y: {} }}", head,
                       product("q"), product("v"), c.x);
  return fmt::format(
      "{}, input r: {}[{}{}, {}]) {{\n  y = add(silu(add({}, b)), r)\n  return y: {} }}", head, c.x,
      of, m, c.n, product("q"), c.x);
}

std::string name_of(const Case& c) {
  return fmt::format("{} {} M {}{} {}x{} g{} zero {} dual {} batch {} {}", c.q, c.x,
                     c.symbol ? "0.." : "", c.m, c.n, c.k, c.group, c.zero, c.dual, c.batch,
                     c.role);
}

// The family's first candidates by prediction for the last bucket.
std::vector<CandidateSummary> first_candidates(const VerifiedChain& chain, const Target& target,
                                               size_t most) {
  const Plan plan = llvm::cantFail(make_plan(chain, target));
  std::vector<CandidateSummary> kept;
  for (const CandidateSummary& each : plan.buckets.back().kernels[0].candidates)
    if (each.id.family == "gemm_dequant" && kept.size() < most) kept.push_back(each);
  return kept;
}

// The kernel of the last bucket under a tile, compiled: what ptxas says against it, empty: nothing.
std::string complaint(const Nvrtc& nvrtc, const VerifiedChain& chain, const Target& target,
                      const std::string& name, const CandidateSummary& candidate) {
  PlanOptions options;
  options.force_tile = candidate.id.tile;
  const Plan plan = llvm::cantFail(make_plan(chain, target, options));
  const KernelPlan& kernel = plan.buckets.back().kernels[0];
  CHECK(family_name(kernel) == "gemm_dequant");
  auto result = nvrtc.compile({emit(chain, plan, kernel), target.arch, {.allow_spills = true}});
  if (!result) FAIL(take_report(result.takeError()).message);
  const KernelResources& used = result->cubin.resources;
  const std::string warning = parse_ptxas_log(result->log, kernel.symbol).warning;
  MESSAGE(fmt::format("{}: {}: {:.2f} us, {} registers, {} bytes spilled {}", name,
                      candidate.id.tile, candidate.us, used.registers, used.spill_bytes, warning));
  CHECK_MESSAGE(warning == "", candidate.id.tile);
  return used.spill_bytes > 0
             ? fmt::format("{} spills {} bytes", candidate.id.tile, used.spill_bytes)
             : warning;
}

// The planner's first candidate is accepted, and of its first three two: a rejected one costs a
// compilation.
void check_candidates(const Nvrtc& nvrtc, const Case& c) {
  const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(text_of(c)))));
  const Target target = llvm::cantFail(find_target("h200"));
  const std::string name = name_of(c);
  CAPTURE(name);
  const std::vector<CandidateSummary> ranked = first_candidates(chain, target, 3);
  REQUIRE(ranked.size() == 3);
  int rejected = 0;
  for (const CandidateSummary& candidate : ranked) {
    const std::string found = complaint(nvrtc, chain, target, name, candidate);
    if (&candidate == &ranked.front()) CHECK(found == "");
    rejected += found.empty() ? 0 : 1;
  }
  CHECK(rejected <= 1);
}

}  // namespace

TEST_CASE("the best candidates compile without spills, and their MMAs overlap") {
  auto nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  for (const Case& c :
       std::vector<Case>{{"i4", "bf16", 17, 4096, 4096, 128},
                         {"i4", "f16", 40, 28672, 8192, 128},
                         {"i4", "bf16", 64, 4096, 4096, 128, true},
                         {"i4", "f16", 300, 14336, 4096, 64},
                         {"i4", "bf16", 2048, 4096, 4096, 128},
                         {"u4", "bf16", 40, 4096, 4096, 32, true},
                         {"u4", "f16", 128, 4096, 14336, 128, true},
                         {"u4", "bf16", 128, 4096, 4096, 64, true, true},
                         {"i8", "bf16", 64, 4096, 4096, 4096},
                         {"i8", "f16", 128, 3584, 18944, 128, true},
                         {"i8", "f16", 300, 4096, 4096, 4096, false, true},
                         {"i4", "bf16", 64, 14336, 4096, 128, false, true},
                         {"i8", "bf16", 17, 768, 2048, 32, true, true, 8},
                         {"i4", "bf16", 40, 768, 2048, 2048, false, false, 8},
                         {"i4", "bf16", 300, 4096, 4096, 128, false, false, 1, true},
                         {"u4", "f16", 128, 4096, 4096, 64, true, false, 1, true, "input"}}) {
    check_candidates(**nvrtc, c);
  }
}
