// SPDX-License-Identifier: Apache-2.0
// A cache that is pinned to a build of NVRTC: a hit opens no NVRTC, a miss opens it, and another
// build is refused.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>

#include "compiler/compile/pinned_compiler.h"
#include "compiler/compile/templates.h"
#include "runtime/engine.h"
#include "tests/support/fake_driver.h"
#include "tests/support/packed_chains.h"
#include "tests/support/recorded_dlopen.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using catenary::cuda::ScopedDriver;
using catenary::testing::fake_api;
using test::count_opened;
using test::layer_chain;
using test::LayerSizes;
using test::must;

namespace {

constexpr const char* kBuild = "nvrtc 13.9.1 CL-9";

EngineOptions pinned_to(const std::string& build, const std::string& folder) {
  EngineOptions options;
  options.cache.directory = folder;
  options.nvrtc_build = build;
  return options;
}

// A compiler of build `id` that is nothing else.
class OtherBuild final : public KernelCompiler {
 public:
  explicit OtherBuild(std::string id) : id_(std::move(id)) {}
  bool supports(std::string_view arch) const override { return arch == "sm_90a"; }
  const std::string& path() const override { return path_; }
  const std::string& compiler_id() const override { return id_; }
  std::string option_text(std::string_view, const CompileOptions&) const override { return ""; }
  std::string header_digest() const override { return ""; }
  Expected<CompileResult> compile(const CompileJob& job) const override {
    CompileResult result;
    result.cubin.symbol = job.source.symbol;
    return result;
  }

 private:
  const std::string id_;
  const std::string path_ = "/opt/libnvrtc.so.13";
};

// Puts the kernels of the chain's plan into the cache, as a process with that NVRTC does that
// rejects the choices of the first `rejections` plans.
void fill(const std::string& folder, const VerifiedChain& chain, const Target& target,
          int rejections = 0) {
  const PinnedCompiler compiler(kBuild, nullptr);
  EngineOptions options = pinned_to(kBuild, folder);
  CubinCache cache(options.cache);
  const auto is_kept = [&](const Plan& plan, const KernelPlan& kernel, bool rejected) {
    const KernelSource source = emit(chain, plan, kernel);
    const KeyFields fields{source.body, compiler.header_digest(), target.arch,
                           compiler.option_text(target.arch, {}), compiler.compiler_id()};
    const auto compile = [&]() -> Expected<Cubin> {
      if (rejected) return make_error(ErrorCode::kKernelRejected, "{} spills", source.symbol);
      Cubin cubin;
      cubin.symbol = source.symbol;
      cubin.arch = target.arch;
      cubin.compiler_id = kBuild;
      cubin.image = test::fake_code(target.arch, source.body);
      return cubin;
    };
    auto got = cache.get(kernel_key(fields), key_record(fields), compile);
    if (got) return true;
    CHECK(take_report(got.takeError()).code == ErrorCode::kKernelRejected);
    return false;
  };
  PlanOptions plan_options;
  for (bool again = true; again; --rejections) {
    again = false;
    const Plan plan = must(make_plan(chain, target, plan_options));
    for (const PlanBucket& bucket : plan.buckets) {
      for (const KernelPlan& kernel : bucket.kernels) {
        if (is_kept(plan, kernel, rejections > 0 && !kernel.signature.empty())) continue;
        plan_options.rejected.push_back({kernel.signature, kernel.candidate});
        again = true;
      }
    }
  }
}

ErrorReport problem(const PinnedCompiler& compiler, const std::string& arch) {
  CompileJob job;
  job.source.symbol = "ctn_k";
  job.arch = arch;
  auto compiled = compiler.compile(job);
  return compiled ? ErrorReport{} : take_report(compiled.takeError());
}

}  // namespace

TEST_CASE("a hit opens no NVRTC; a miss does") {
  const test::TempDir folder;
  // A file of that name that is no library: opening it is tried, and fails.
  const std::string library = folder / "libnvrtc.so.13";
  std::ofstream(library) << "no library";
  ::setenv("CATENARY_NVRTC", library.c_str(), 1);
  const ScopedDriver driver = must(ScopedDriver::over(fake_api()));
  const Target target = must(cuda::probe(0)).target;
  fill(folder / "cache", layer_chain(), target);

  const size_t before = count_opened("nvrtc");
  for (const bool by_environment : {false, true}) {
    CAPTURE(by_environment);
    if (by_environment) ::setenv("CATENARY_NVRTC_BUILD", kBuild, 1);
    Engine engine(pinned_to(by_environment ? "" : kBuild, folder / "cache"));
    CHECK(must(engine.prepare(layer_chain().chain(), 0)) != nullptr);
    CHECK(engine.cache().stats().misses == 0);
    CHECK(engine.cache().stats().disk_hits > 0);
    ::unsetenv("CATENARY_NVRTC_BUILD");
  }
  CHECK(count_opened("nvrtc") == before);

  Engine engine(pinned_to(kBuild, folder / "cache"));
  LayerSizes unknown;
  unknown.n = 512;
  const ErrorReport missed =
      take_report(engine.prepare(layer_chain(unknown).chain(), 0).takeError());
  CHECK(missed.code == ErrorCode::kNvrtcMissing);
  CHECK(count_opened("nvrtc") > before);
}

TEST_CASE("a cache that has rejections serves a chain whose first choices are rejected") {
  const test::TempDir folder;
  ::setenv("CATENARY_NVRTC", (folder / "absent").c_str(), 1);
  const ScopedDriver driver = must(ScopedDriver::over(fake_api()));
  const Target target = must(cuda::probe(0)).target;
  fill(folder / "cache", layer_chain(), target, 2);
  const size_t before = count_opened("nvrtc");
  EngineOptions read_only = pinned_to(kBuild, folder / "cache");
  read_only.cache.mode = CacheMode::kReadOnly;
  Engine engine(read_only);
  const auto compiled = must(engine.compile(layer_chain().chain(), target));
  CHECK(engine.cache().stats().misses == 0);
  CHECK(count_opened("nvrtc") == before);
  const Plan first = must(make_plan(layer_chain(), target));
  CHECK_FALSE(compiled->plan.buckets[0].kernels[0].candidate ==
              first.buckets[0].kernels[0].candidate);
  CHECK(must(engine.prepare(layer_chain().chain(), 0)) != nullptr);
}

TEST_CASE("a key of another build is no hit") {
  const test::TempDir folder;
  ::setenv("CATENARY_NVRTC", (folder / "absent").c_str(), 1);
  const Target target = must(find_target("h200"));
  fill(folder / "cache", layer_chain(), target);
  Engine engine(pinned_to("nvrtc 13.9.2 CL-9", folder / "cache"));
  const ErrorReport missed = take_report(engine.compile(layer_chain().chain(), target).takeError());
  CHECK(missed.code == ErrorCode::kNvrtcMissing);
}

TEST_CASE("what the pinned compiler opens must be its build, and know the architecture") {
  const OtherBuild right(kBuild);
  const OtherBuild wrong("nvrtc 13.0.88 CL-1");
  const auto open = [](const OtherBuild& build) {
    return [&build]() -> Expected<const KernelCompiler*> { return &build; };
  };
  CHECK(problem(PinnedCompiler(kBuild, open(right)), "sm_90a").code == ErrorCode::kOk);
  CHECK(problem(PinnedCompiler(kBuild, open(right)), "sm_100a").code == ErrorCode::kUnsupported);
  const ErrorReport other = problem(PinnedCompiler(kBuild, open(wrong)), "sm_90a");
  CHECK(other.code == ErrorCode::kNvrtcMissing);
  CHECK(other.message ==
        "kernel ctn_k is not in the cache, which is pinned to nvrtc 13.9.1 CL-9, and NVRTC is "
        "nvrtc 13.0.88 CL-1 at /opt/libnvrtc.so.13: install the pinned build, or change the pin");
}

TEST_CASE("keys are those of NVRTC itself") {
  const PinnedCompiler compiler(kBuild, nullptr);
  CHECK(compiler.header_digest() == templates_digest());
  CHECK(compiler.supports("sm_90a"));
  CHECK(compiler.compiler_id() == kBuild);
}
