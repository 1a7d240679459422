// SPDX-License-Identifier: Apache-2.0
#include "bench/measure/compile_cost.h"

#include <stdlib.h>

#include <chrono>
#include <filesystem>

#include "compiler/compile/key.h"
#include "compiler/compile/nvrtc.h"
#include "compiler/emit/emit.h"
#include "runtime/cache/cache.h"

namespace catenary::bench {
namespace {

struct Sample {
  const char* name;
  const char* text;
};

constexpr Sample kSamples[] = {
    {"pseudo_linear",
     "chain pseudo_linear(input x: f32[32768, 4096], weight w: f32[4096], weight b: f32[4096]) {\n"
     "  y = relu(add(mul(x, w), b))\n  return y: f32\n}\n"},
    {"gemm",
     "chain gemm(input x: bf16[8192, 4096], weight w: bf16[4096, 4096]) {\n"
     "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16\n}\n"},
    {"gemm_bias_gelu",
     "chain gemm_bias_gelu(input x: bf16[8192, 4096], weight w: bf16[4096, 4096],\n"
     "    weight b: bf16[4096]) {\n"
     "  h = contract \"mk,nk->mn\"(x, w)\n  y = gelu_tanh(add(h, b))\n  return y: bf16\n}\n"},
    {"swiglu",
     "chain swiglu(input x: bf16[8192, 4096], weight wg: bf16[4096, 4096],\n"
     "    weight wu: bf16[4096, 4096]) {\n"
     "  g = contract \"mk,nk->mn\"(x, wg)\n  u = contract \"mk,nk->mn\"(x, wu)\n"
     "  y = mul(silu(g), u)\n  return y: bf16\n}\n"},
    {"small_batch",
     "chain small_batch(input x: bf16[8, 4096], weight w: bf16[2048, 4096]) {\n"
     "  y = contract \"mk,nk->mn\"(x, w)\n  return y: bf16\n}\n"},
    {"bias_gradient",
     "chain bias_gradient(input d: bf16[8192, 4096]) {\n"
     "  y = sum \"mn->n\"(d)\n  return y: f32\n}\n"}};

// A temporary folder, removed with its contents.
class Folder {
 public:
  Folder() {
    std::error_code code;
    std::string pattern =
        (std::filesystem::temp_directory_path(code) / "catenary-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Median microseconds of body(), which returns Error, over `repeats` runs after a warm-up.
template <typename Body>
Expected<double> median_us(int repeats, const Body& body) {
  std::vector<double> us;
  for (int i = -1; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (Error error = body()) return error;
    const auto end = std::chrono::steady_clock::now();
    if (i >= 0) us.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  return median(us);
}

struct Planned {
  VerifiedChain chain;
  Plan plan;
};

Expected<Planned> plan_text(const char* text, const Target& target) {
  Expected<VerifiedChain> verified = verified_chain(text);
  if (!verified) return verified.takeError();
  Expected<Plan> plan = make_plan(*verified, target);
  if (!plan) return plan.takeError();
  return Planned{std::move(*verified), std::move(*plan)};
}

Expected<double> nvrtc_ms(const Nvrtc& nvrtc, llvm::ArrayRef<CompileJob> jobs, bool quick) {
  double total = 0;
  for (const CompileJob& job : jobs) {
    Expected<double> us = median_us(quick ? 1 : 5, [&]() -> Error {
      Expected<CompileResult> result = nvrtc.compile(job);
      return result ? Error::success() : result.takeError();
    });
    if (!us) return us.takeError();
    total += *us * 1e-3;
  }
  return total / static_cast<double>(jobs.size());
}

// Key and disk read of one kernel, by a cache that is empty in memory.
Expected<double> cache_hit_us(const Nvrtc& nvrtc, const CompileJob& job, bool quick) {
  const Folder folder;
  if (folder.path().empty()) {
    return make_error(ErrorCode::kIo, "no temporary folder could be made: set TMPDIR to one");
  }
  CacheOptions options;
  options.directory = folder.path();
  const auto get = [&](CubinCache& cache, const CubinCache::Compile& compile) -> Error {
    const KeyFields fields{job.source.body, nvrtc.header_digest(), job.arch,
                           nvrtc.option_text(job.arch, job.options), nvrtc.compiler_id()};
    auto cubin = cache.get(kernel_key(fields), key_record(fields), compile);
    return cubin ? Error::success() : cubin.takeError();
  };
  {
    CubinCache cache(options);
    if (Error error = get(cache, [&]() -> Expected<Cubin> {
          Expected<CompileResult> result = nvrtc.compile(job);
          if (!result) return result.takeError();
          return std::move(result->cubin);
        })) {
      return error;
    }
  }
  std::vector<double> us;
  for (int i = 0; i < (quick ? 11 : 51); ++i) {
    CubinCache cache(options);
    const auto start = std::chrono::steady_clock::now();
    if (Error error = get(cache, []() -> Expected<Cubin> {
          return make_error(ErrorCode::kCacheIo, "the entry that was just written is not there");
        })) {
      return error;
    }
    const auto end = std::chrono::steady_clock::now();
    us.push_back(std::chrono::duration<double, std::micro>(end - start).count());
  }
  return median(us);
}

Expected<CompileRow> measure(const Sample& sample, const Target& target, const Nvrtc* nvrtc,
                             bool quick) {
  Expected<Planned> planned = plan_text(sample.text, target);
  if (!planned) return planned.takeError();
  const auto& kernels = planned->plan.buckets[0].kernels;
  CompileRow row;
  row.chain = sample.name;
  row.family = plan_family(planned->plan);
  row.target = target.name;
  row.kernels = static_cast<int>(kernels.size());
  const int repeats = quick ? 31 : 301;
  Expected<double> frontend = median_us(repeats, [&]() -> Error {
    Expected<Planned> again = plan_text(sample.text, target);
    return again ? Error::success() : again.takeError();
  });
  if (!frontend) return frontend.takeError();
  row.frontend_us = *frontend;
  // A spill does not change the compile time.
  CompileOptions options;
  options.allow_spills = true;
  std::vector<CompileJob> jobs;
  Expected<double> emission = median_us(repeats, [&]() -> Error {
    jobs.clear();
    for (const KernelPlan& kernel : kernels) {
      jobs.push_back({emit(planned->chain, planned->plan, kernel), target.arch, options});
    }
    return Error::success();
  });
  if (!emission) return emission.takeError();
  row.emit_us = *emission;
  if (nvrtc == nullptr) return row;
  Expected<double> compile = nvrtc_ms(*nvrtc, jobs, quick);
  if (!compile) return compile.takeError();
  row.nvrtc_ms = *compile;
  Expected<double> hit = cache_hit_us(*nvrtc, jobs.front(), quick);
  if (!hit) return hit.takeError();
  row.cache_hit_us = *hit;
  return row;
}

}  // namespace

Expected<CompileCost> measure_compile_cost(const Target& target, bool quick,
                                           const std::function<void(i64 done, i64 all)>& progress) {
  CompileCost cost;
  const Nvrtc* nvrtc = nullptr;
  if (Expected<const Nvrtc*> found = Nvrtc::get()) {
    nvrtc = *found;
    cost.compiler = nvrtc->compiler_id();
  } else {
    cost.nvrtc_problem = take_report(found.takeError()).message;
  }
  for (const Sample& sample : kSamples) {
    progress(static_cast<i64>(cost.rows.size()), static_cast<i64>(std::size(kSamples)));
    Expected<CompileRow> row = measure(sample, target, nvrtc, quick);
    if (!row) return row.takeError();
    cost.rows.push_back(std::move(*row));
  }
  return cost;
}

}  // namespace catenary::bench
