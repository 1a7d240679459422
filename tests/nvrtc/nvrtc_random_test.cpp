// SPDX-License-Identifier: Apache-2.0
// Random chains from text to machine code without a GPU: every chain verifies, is planned for every
// target, and is emitted twice with equal bytes; a sample goes through NVRTC for three
// architectures with no spill and no warning of ptxas. A failure prints the seed and the chain.
#include <doctest/doctest.h>

#include <set>

#include "compiler/compile/nvrtc.h"
#include "compiler/emit/emit.h"
#include "ir/random/random_chain.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

constexpr u64 kChains = 2000;
constexpr u64 kCompiledChains = 100;
constexpr u64 kFirstCompiled = 10'000;

Chain chain_of(u64 seed) {
  RandomChainOptions options;
  options.max_elements = seed % 5 == 0 ? 1 << 20 : 4096;
  options.exact_only = seed % 4 == 1;
  options.no_ragged = seed % 3 != 0;
  // Compiled chains have one contraction at most: a kernel of that family takes NVRTC 0.1 to 0.4 s.
  options.max_contractions = static_cast<int>(seed >= kFirstCompiled ? seed % 2 : seed % 4);
  return random_chain(seed, options);
}

std::string describe(u64 seed, const Chain& chain) {
  return fmt::format("seed {}\n{}", seed, print(chain));
}

// Plans and emits; an error is put into `problem`. A layout that no kernel family supports is a
// typed refusal, which is counted and is no failure.
std::vector<KernelSource> sources_for(const VerifiedChain& chain, const Target& target,
                                      int& refused, std::string& problem) {
  std::vector<KernelSource> sources;
  Expected<Plan> plan = make_plan(chain, target);
  if (!plan) {
    const ErrorReport report = take_report(plan.takeError());
    if (report.code == ErrorCode::kUnsupported) {
      ++refused;
    } else {
      problem =
          fmt::format("{}: {}: {}", target.name, error_code_name(report.code), report.message);
    }
    return sources;
  }
  for (const PlanBucket& bucket : plan->buckets) {
    for (const KernelPlan& kernel : bucket.kernels) sources.push_back(emit(chain, *plan, kernel));
  }
  return sources;
}

Expected<VerifiedChain> verified_chain(u64 seed, Chain& chain) {
  chain = chain_of(seed);
  return verify(chain);
}

}  // namespace

TEST_CASE("random chains verify, plan for every target and emit the same bytes twice") {
  int refused = 0;
  size_t kernels = 0;
  for (u64 seed = 0; seed < kChains; ++seed) {
    Chain chain;
    Expected<VerifiedChain> verified = verified_chain(seed, chain);
    if (!verified) {
      FAIL_CHECK(describe(seed, chain) << take_report(verified.takeError()).message);
      continue;
    }
    for (const Target& target : all_targets()) {
      std::string problem;
      int ignored = 0;
      const auto first = sources_for(*verified, target, refused, problem);
      const auto second = sources_for(*verified, target, ignored, problem);
      if (!problem.empty()) {
        FAIL_CHECK(describe(seed, chain) << problem);
        break;
      }
      kernels += first.size();
      REQUIRE(first.size() == second.size());
      for (size_t k = 0; k < first.size(); ++k) {
        if (first[k].text() != second[k].text()) {
          FAIL_CHECK(describe(seed, chain) << target.name << ": " << first[k].symbol << " differs");
        }
      }
    }
  }
  MESSAGE(kernels << " kernels, " << refused << " plans refused as unsupported");
  CHECK(kernels > kChains * all_targets().size());
  // At most two in a hundred plans.
  CHECK(refused * 50 <= static_cast<int>(kChains * all_targets().size()));
}

TEST_CASE("a value recomputed by one kernel and stored by a later one is planned") {
  // q depends only on x: the kernel of d recomputes it, and the kernel that stores r (for
  // the contraction) stores q as well.
  const char* text = R"(chain late(input x: f32[8, 8], input w: f32[8, 8]) {
    q = relu(x)
    z = neg(q)
    r = exp(x)
    c = contract "mk,nk->mn"(r, w)
    d = add(c, z)
    return d: f32, q: bf16
  })";
  for (bool fuse : {true, false}) {
    auto verified = verify(llvm::cantFail(parse(text)));
    if (!verified) MESSAGE(take_report(verified.takeError()).message);
    REQUIRE(static_cast<bool>(verified));
    PlanOptions options;
    options.fuse = fuse;
    auto plan = make_plan(*verified, all_targets()[0], options);
    CHECK(static_cast<bool>(plan));
    if (!plan) MESSAGE(take_report(plan.takeError()).message);
  }
}

TEST_CASE("a long ladder of recomputed values is planned in linear time") {
  Chain chain;
  chain.name = "ladder";
  TensorType type;
  type.shape = {Dim{8}};
  ValueId last = chain.parameter(Role::kInput, "x", type);
  for (int i = 0; i < 250; ++i) last = chain.elementwise(Op::kAdd, {Use{last, ""}, Use{last, ""}});
  chain.returns(last, DType::kF32);
  auto verified = verify(chain);
  REQUIRE(static_cast<bool>(verified));
  auto plan = make_plan(*verified, all_targets()[0]);
  REQUIRE(static_cast<bool>(plan));
  CHECK(plan->buckets[0].kernels.size() == 1);
}

TEST_CASE("a kernel's scalars and tensors are named by their positions among the parameters") {
  const char* text = R"(chain places(scalar a: f32, scalar b: f32, input x: f32[8], scalar c: f32,
      input y: f32[8]) {
    p = scale(y, c)
    q = scale(p, b)
    r = sub(q, x)
    t = scale(r, a)
    return t: f32
  })";
  auto verified = verify(llvm::cantFail(parse(text)));
  if (!verified) MESSAGE(take_report(verified.takeError()).message);
  REQUIRE(static_cast<bool>(verified));
  auto plan = make_plan(*verified, all_targets()[0]);
  REQUIRE(static_cast<bool>(plan));
  const KernelPlan& kernel = plan->buckets[0].kernels[0];
  REQUIRE(kernel.slots.size() == 3);
  CHECK(kernel.slots[0].name == "y");
  CHECK(kernel.slots[0].index == 4);
  CHECK(kernel.slots[1].name == "x");
  CHECK(kernel.slots[1].index == 2);
  CHECK(llvm::ArrayRef<int>(kernel.scalars) == llvm::ArrayRef<int>({3, 1, 0}));
}

TEST_CASE("a sample of random chains compiles for three architectures without spills") {
  Expected<const Nvrtc*> nvrtc = Nvrtc::get();
  if (!nvrtc) {
    MESSAGE("skipped: " << take_report(nvrtc.takeError()).message);
    return;
  }
  struct Origin {
    u64 seed;
    std::string target;
  };
  std::vector<Origin> origins;
  std::vector<CompileJob> jobs;
  std::set<std::string> seen;  // arch and body: equal kernels are compiled once
  for (u64 i = 0; i < kCompiledChains; ++i) {
    const u64 seed = kFirstCompiled + i;
    Chain chain;
    Expected<VerifiedChain> verified = verified_chain(seed, chain);
    if (!verified) {
      FAIL_CHECK(describe(seed, chain) << take_report(verified.takeError()).message);
      continue;
    }
    for (const char* name : {"a100", "h200", "b200"}) {
      Expected<Target> target = find_target(name);
      REQUIRE(static_cast<bool>(target));
      if (!(*nvrtc)->supports(target->arch)) {
        MESSAGE("skipped " << target->arch << ": " << (*nvrtc)->compiler_id());
        continue;
      }
      int refused = 0;
      std::string problem;
      for (KernelSource& source : sources_for(*verified, *target, refused, problem)) {
        if (!seen.insert(target->arch + source.body).second) continue;
        origins.push_back({seed, name});
        jobs.push_back({std::move(source), target->arch, {}});
      }
      if (!problem.empty()) FAIL_CHECK(describe(seed, chain) << problem);
    }
  }
  REQUIRE(jobs.size() >= kCompiledChains);
  auto results = (*nvrtc)->compile_all(jobs);
  int failures = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    if (results[j]) continue;
    const ErrorReport report = take_report(results[j].takeError());
    if (++failures > 10) continue;
    FAIL_CHECK(describe(origins[j].seed, chain_of(origins[j].seed))
               << origins[j].target << ": " << report.message.substr(0, 1500));
  }
  MESSAGE(jobs.size() << " kernels compiled");
  CHECK(failures == 0);
}
