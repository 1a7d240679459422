// SPDX-License-Identifier: Apache-2.0
// Candidates of `skinny` through NVRTC for every target, plain, with a full epilogue and with a
// norm and a gain inside: they compile without spills. Prints the registers of each.
#include <doctest/doctest.h>

#include "compiler/compile/nvrtc.h"
#include "compiler/emit/emit.h"
#include "compiler/families/skinny/candidates.h"
#include "compiler/kernel_family.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

struct Case {
  const char* dtype;
  i64 m, n, k;
  bool epilogue;
  bool gated = false;
  const char* target = "h200";
  bool gain = false;  // and a norm
  bool layer_norm = false;
};

// The same products, over the rows that the gain has multiplied, times the norm's scale.
std::string scaled_rows(std::string body) {
  for (const char* weight : {"w", "v"}) {
    const std::string from = fmt::format("contract \"mk,nk->mn\"(x, {})", weight);
    const size_t at = body.find(from);
    if (at == std::string::npos) continue;
    body.replace(at, from.size(),
                 fmt::format("mul(contract \"mk,nk->mn\"(xe, {}), s @ \"m\")", weight));
  }
  return body;
}

std::string text_of(const Case& c) {
  std::string extra =
      c.epilogue ? fmt::format(", weight b: {0}[{1}], input r: {0}[{2}, {1}]", c.dtype, c.n, c.m)
                 : "";
  std::string body = "  y = contract \"mk,nk->mn\"(x, w)\n";
  if (c.gated) {
    extra += fmt::format(", weight v: {}[{}, {}]", c.dtype, c.n, c.k);
    body =
        "  g = contract \"mk,nk->mn\"(x, w)\n  u = contract \"mk,nk->mn\"(x, v)\n"
        "  y = mul(silu(g), u)\n";
  }
  if (c.gain) {
    extra += fmt::format(", weight e: {}[{}]", c.dtype, c.k);
    body = fmt::format(
        "  s = rsqrt(add(mul(sum \"mk->m\"(square(x)), {1}), 0.00001))\n"
        "  xe = cast(mul(x @ \"mk\", e @ \"k\"), {0})\n{2}",
        c.dtype, 1.0 / static_cast<double>(c.k), scaled_rows(body));
  }
  if (c.layer_norm) {
    extra += fmt::format(", weight e: f32[{0}], weight i: f32[{0}]", c.k);
    while (body.find("(x, ") != std::string::npos) body.replace(body.find("(x, "), 4, "(n, ");
    body = fmt::format(
        "  t = mul(sum \"mk->m\"(x), {1})\n  d = sub(x @ \"mk\", t @ \"m\")\n"
        "  s = rsqrt(add(mul(sum \"mk->m\"(square(d)), {1}), 0.00001))\n"
        "  n = cast(add(mul(mul(d, s @ \"m\"), e @ \"k\"), i @ \"k\"), {0})\n{2}",
        c.dtype, 1.0 / static_cast<double>(c.k), body);
  }
  body += c.epilogue ? "  z = add(silu(add(y, b)), r)\n" : "";
  return fmt::format(
      "chain a(input x: {0}[{1}, {3}], weight w: {0}[{2}, {3}]{4}) {{\n{5}"
      "  return {6}: {0} }}",
      c.dtype, c.m, c.n, c.k, extra, body, c.epilogue ? "z" : "y");
}

struct Source {
  std::string config;
  CompileJob job;
};

// Does the planner itself put the norm into the product? Elsewhere a norm of its own is faster.
bool takes_norm_inside(const Case& c) {
  const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(text_of(c)))));
  const auto plan = llvm::cantFail(make_plan(chain, llvm::cantFail(find_target(c.target)), {}));
  return plan.buckets[0].kernels.size() == 1;
}

// With `options` and the norm inside, if the kernel is of the family.
void add_source(const Case& c, PlanOptions options, std::vector<Source>& sources) {
  options.prefer_inside = true;
  const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(text_of(c)))));
  const Target target = llvm::cantFail(find_target(c.target));
  auto plan = make_plan(chain, target, options);
  if (!plan) FAIL(options.force_tile << ": " << take_report(plan.takeError()).message);
  const KernelPlan& kernel = plan->buckets[0].kernels[0];
  if (family_name(kernel) != "skinny") return;
  CHECK(kernel.config.get<SkinnyConfig>().gain.used == c.gain);
  CHECK(kernel.config.get<SkinnyConfig>().row_squares == c.gain);
  CHECK(kernel.config.get<SkinnyConfig>().formed.used == c.layer_norm);
  const std::string name = tile_name(kernel.config.get<SkinnyConfig>());
  sources.push_back(
      {fmt::format("{} split {}", name, kernel.config.get<SkinnyConfig>().schedule.split_k),
       {emit(chain, *plan, kernel), target.arch, {}}});
}

// Every candidate, the planner's own choice first.
std::vector<Source> candidates(const Case& c) {
  std::vector<Source> sources;
  PlanOptions own;
  own.prefer_inside = true;
  add_source(c, own, sources);
  SkinnyProblem problem;
  problem.base.space.m = problem.m = c.m;
  problem.base.space.n = c.n;
  problem.base.space.k = c.k;
  if (c.dtype == std::string("f32")) problem.base.space.math = MathMode::kTF32;
  problem.base.dual = c.gated;
  problem.base.gain.used = problem.base.row_squares = c.gain;
  if (c.layer_norm) {
    problem.base.formed = {true, DType::kBF16, 2, 2};
    problem.passes = 2;
  }
  problem.weight_bytes = c.n * problem.base.k_blocks() * 128 * problem.base.num_accumulators();
  const auto ranked = skinny_candidates(problem, llvm::cantFail(find_target(c.target)), {});
  for (const Candidate& candidate : ranked) {
    PlanOptions options;
    options.force_tile = candidate.id.tile;
    options.split_k = candidate.id.split_k;
    add_source(c, options, sources);
  }
  return sources;
}

const Nvrtc* nvrtc_or_skip() {
  auto nvrtc = Nvrtc::get();
  if (nvrtc) return *nvrtc;
  MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
  return nullptr;
}

// Compiles the first `most` candidates and says what they take. Returns how many spill.
int count_spills(const Nvrtc& nvrtc, const Case& c, size_t most) {
  CAPTURE(c.target);
  CAPTURE(c.m);
  CAPTURE(c.n);
  std::vector<Source> sources = candidates(c);
  REQUIRE(!sources.empty());
  sources.resize(std::min(most, sources.size()));
  std::vector<CompileJob> jobs;
  for (const Source& source : sources) jobs.push_back(source.job);
  auto results = nvrtc.compile_all(jobs);
  const std::string what = fmt::format("{}: {} {}x{}x{}{}{}{}", c.target, c.dtype, c.m, c.n, c.k,
                                       c.epilogue ? " with epilogue" : "", c.gated ? ", gated" : "",
                                       c.gain         ? ", norm and gain inside"
                                       : c.layer_norm ? ", LayerNorm inside"
                                                      : "");
  std::string registers;
  int spills = 0;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i]) {
      const KernelResources& used = results[i]->cubin.resources;
      registers += fmt::format("{} {}; ", sources[i].config, used.registers);
      CHECK(used.spill_bytes == 0);
      continue;
    }
    const std::string message = take_report(results[i].takeError()).message;
    CHECK_MESSAGE(message.find(" spills ") != std::string::npos, message);
    const std::string text = fmt::format("{}: {}: {}", what, sources[i].config, message);
    MESSAGE(text.substr(0, text.find('\n')));
    CHECK_MESSAGE(i > 0, "the first choice spills");
    ++spills;
  }
  MESSAGE(what << ": " << registers);
  return spills;
}

}  // namespace

TEST_CASE("weights of 2048 x 4096: no candidate spills") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (nvrtc == nullptr) return;
  for (const i64 m : {1, 4, 8, 16}) {
    for (const bool epilogue : {false, true}) {
      CHECK(count_spills(*nvrtc, {"bf16", m, 2048, 4096, epilogue}, 4) == 0);
    }
  }
}

TEST_CASE("other sizes, dtypes and dual GEMMs: the two best do not spill") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (nvrtc == nullptr) return;
  const Case kCases[] = {
      {"f16", 8, 4096, 14336, true},        {"bf16", 16, 28672, 4096, true},
      {"f32", 4, 2048, 2048, true},         {"f32", 16, 2048, 2080, true},
      {"bf16", 1, 14336, 4096, true, true}, {"bf16", 16, 14336, 4096, true, true},
      {"bf16", 5, 2047, 4160, true},        {"bf16", 16, 40, 576, false},
  };
  for (const Case& c : kCases) CHECK(count_spills(*nvrtc, c, 2) == 0);
}

TEST_CASE("slices of N and parts of blocks: the three best do not spill") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (nvrtc == nullptr) return;
  const Case kCases[] = {
      {"bf16", 1, 4608, 3584, true},   {"bf16", 13, 5120, 2880, true},
      {"bf16", 16, 3000, 1160, false}, {"bf16", 8, 1066, 1160, false},
      {"f32", 13, 2112, 3580, true},   {"bf16", 16, 2880, 2880, true, true},
  };
  for (const Case& c : kCases) CHECK(count_spills(*nvrtc, c, 3) == 0);
}

TEST_CASE("by cp.async on the other targets: the two best do not spill") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (nvrtc == nullptr) return;
  for (const char* target : {"a100", "a10", "l4", "b200"}) {
    const Case kCases[] = {
        {"bf16", 1, 2048, 4096, true, false, target},
        {"bf16", 8, 2048, 4096, true, false, target},
        {"f16", 16, 2048, 4096, true, false, target},
        {"bf16", 4, 4096, 14336, false, false, target},
        {"f32", 8, 2048, 2080, true, false, target},
        {"bf16", 8, 14336, 4096, true, true, target},
    };
    for (const Case& c : kCases) CHECK(count_spills(*nvrtc, c, 2) == 0);
  }
}

TEST_CASE("with a norm and a gain inside: the three best do not spill") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (nvrtc == nullptr) return;
  const Case kCases[] = {
      {"bf16", 1, 2048, 4096, true},
      {"bf16", 4, 4608, 3584, true},
      {"bf16", 8, 4096, 14336, true},
      {"f16", 16, 2048, 4096, true},
      {"bf16", 24, 6144, 4096, true},
      {"bf16", 1, 14336, 4096, true, true},
      {"bf16", 8, 14336, 4096, true, true},
      {"bf16", 16, 14336, 4096, true, true},
      {"bf16", 13, 3000, 1160, true},
      {"bf16", 8, 2048, 4096, true, false, "a100"},
      {"f16", 16, 2048, 4096, true, false, "l4"},
  };
  for (Case c : kCases) {
    c.gain = true;
    CHECK(count_spills(*nvrtc, c, 3) == 0);
  }
}

TEST_CASE("with a LayerNorm inside, where it is faster: the best does not spill") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (nvrtc == nullptr) return;
  const Case kCases[] = {
      {"bf16", 1, 2304, 768, true},        {"bf16", 1, 2048, 4096, true},
      {"bf16", 8, 4096, 14336, true},      {"f16", 16, 2048, 4096, true},
      {"bf16", 24, 2048, 1024, true},      {"bf16", 13, 3000, 1160, true},
      {"bf16", 32, 3072, 768, true},       {"bf16", 48, 4096, 1024, true},
      {"bf16", 8, 4096, 1024, true, true}, {"bf16", 8, 2048, 4096, true, false, "a100"},
  };
  int inside = 0;
  for (Case c : kCases) {
    c.layer_norm = true;
    if (!takes_norm_inside(c)) continue;
    ++inside;
    CHECK(count_spills(*nvrtc, c, 1) == 0);
  }
  CHECK(inside >= 3);
}

TEST_CASE("a forced shape by cp.async compiles for sm_90a") {
  const Nvrtc* nvrtc = nvrtc_or_skip();
  if (nvrtc == nullptr) return;
  std::vector<Source> sources;
  PlanOptions options;
  options.force_tile = "skinny16x1s3r1g2p2a";
  add_source({"bf16", 1, 2048, 4096, true}, options, sources);
  REQUIRE(sources.size() == 1);
  auto results = nvrtc->compile_all({sources[0].job});
  REQUIRE(static_cast<bool>(results[0]));
  CHECK(results[0]->cubin.resources.spill_bytes == 0);
}
