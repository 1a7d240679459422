// SPDX-License-Identifier: Apache-2.0
// Engine: the steps of a chain, one call each: verify, plan, emit, key, cache or compile, load,
// bind. Decides only which candidate is tried after the compiler rejected one.
#include "runtime/engine.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "compiler/compile/environment.h"
#include "compiler/compile/helper/nvrtc_helper.h"
#include "compiler/compile/host_compiler.h"
#include "compiler/compile/pinned_compiler.h"
#include "compiler/emit/emit.h"
#include "ir/callbacks.h"
#include "ir/counted.h"
#include "ir/log.h"
#include "ir/parallel.h"
#include "llvm/ADT/STLExtras.h"
#include "runtime/executable.h"
#include "runtime/fork_guard.h"
#include "runtime/lookup/pack_lookup.h"

namespace catenary {
namespace {

// Beside long epilogues many tiles spill: for a GELU MLP that repeats its products 8 are too few.
constexpr int kMaxReplans = 24;
constexpr int kMaxCompileThreads = 8;

const char* tier_text(CacheTier tier) {
  switch (tier) {
    case CacheTier::kMemory:
      return "found in memory";
    case CacheTier::kDisk:
      return "found on disk";
    case CacheTier::kCompiled:
      return "compiled";
  }
  return "";
}

void log_plan(const VerifiedChain& chain, const Plan& plan, double ms) {
  if (!logs(LogLevel::kInfo)) return;
  size_t kernels = 0;
  for (const PlanBucket& bucket : plan.buckets) kernels += bucket.kernels.size();
  log_event(LogLevel::kInfo, "chain '{}' planned for {} ({}): {} in {}, {:.1f} ms",
            chain.chain().name, plan.target.name, plan.target.arch, counted(kernels, "kernel"),
            counted(plan.buckets.size(), "bucket"), ms);
}

TuningOptions tuning_options(const EngineOptions& options) {
  TuningOptions tuning = options.tuning;
  if (!tuning.warn) tuning.warn = options.cache.warn;
  return tuning;
}

// Without a compiler nothing goes into the cache or comes from it.
CacheOptions cache_options(const EngineOptions& options) {
  CacheOptions cache = options.cache;
  if (options.lookup.jit != JitMode::kOff) return cache;
  cache.mode = CacheMode::kOff;
  cache.directory = "off";  // not empty, so that CATENARY_CACHE does not override it
  return cache;
}

LookupOptions lookup_options(const EngineOptions& options) {
  LookupOptions lookup = options.lookup;
  if (!lookup.warn) lookup.warn = options.cache.warn;
  return lookup;
}

struct Job {
  size_t bucket;
  size_t kernel;
  ErrorReport problem;
};

}  // namespace

struct Engine::State {
  explicit State(EngineOptions o)
      : options(std::move(o)),
        cache(cache_options(options)),
        tuning(tuning_options(options), cache.directory()),
        lookup(lookup_options(options)) {
    options.compile.want_ptx = false;  // the cache keeps machine code only
    if (options.nvrtc_build.empty()) options.nvrtc_build = environment("CATENARY_NVRTC_BUILD");
    if (!options.nvrtc_build.empty()) {
      pinned.emplace(options.nvrtc_build, [this] { return open_nvrtc(); });
    }
  }

  EngineOptions options;
  CubinCache cache;
  TuningStore tuning;
  PackLookup lookup;
  std::optional<PinnedCompiler> pinned;

  // Kernels by device and identity, so that chains that share one load it once.
  struct LoadedKey {
    const cuda::Driver* driver;
    int device;
    KernelKey identity;
    i64 dynamic_smem;
    auto operator<=>(const LoadedKey&) const = default;
  };
  struct LoadedSlot {
    std::mutex mutex;  // held while the kernel is loaded, so that others load meanwhile
    std::weak_ptr<const LoadedKernel> kernel;
  };
  std::mutex loaded_mutex;
  std::map<LoadedKey, std::shared_ptr<LoadedSlot>> loaded;

  ChainOptions chain_options() const {
    return {options.plan.fuse, options.plan.split_k, options.plan.force_tile,
            options.compile.allow_spills, options.plan.batch_invariant};
  }
  ChainRequest request(const VerifiedChain& chain, const Target& target) const {
    return make_request(chain, target, options.backend == Backend::kHost, chain_options());
  }
  // `target` must outlive the result.
  PlanOptions tuned_plan_options(const Target& target);
  Expected<const KernelCompiler*> compiler();
  Expected<const KernelCompiler*> open_nvrtc();
  std::shared_ptr<LoadedSlot> loaded_slot(const LoadedKey& key);
  Error compile_kernel(const KernelCompiler& compiler, const Target& target,
                       CompiledKernel& kernel);
  Expected<std::shared_ptr<const CompiledChain>> compile_chain(const VerifiedChain& chain,
                                                               const Target& target);
  Expected<CompiledChain> compile_plan(const KernelCompiler& compiler, const VerifiedChain& chain,
                                       Plan plan, std::vector<RejectedCandidate>& rejected);
  Expected<std::shared_ptr<const LoadedKernel>> load_kernel(const cuda::Driver& driver, int device,
                                                            const KernelRecord& kernel);
};

Engine::Engine(EngineOptions options) : state_(std::make_unique<State>(std::move(options))) {}
Engine::~Engine() = default;
CubinCache& Engine::cache() { return state_->cache; }
TuningStore& Engine::tuning() { return state_->tuning; }

Expected<const KernelCompiler*> Engine::compiler() const { return state_->compiler(); }

Expected<Plan> Engine::plan(const VerifiedChain& chain, const Target& target) const {
  return make_plan(chain, target, state_->tuned_plan_options(target));
}

PlanOptions Engine::State::tuned_plan_options(const Target& target) {
  PlanOptions tuned = options.plan;
  if (!tuned.tuned) {
    tuned.tuned = [this, &target](const std::string& signature) {
      return tuning.choice(target, signature);
    };
  }
  return tuned;
}

Expected<const KernelCompiler*> Engine::State::compiler() {
  if (options.backend == Backend::kHost) return HostCompiler::get();
  if (pinned) return &*pinned;
  return open_nvrtc();
}

Expected<const KernelCompiler*> Engine::State::open_nvrtc() {
  return find_nvrtc(options.helper, [this](const std::string& line) { cache.warn(line); });
}

Error Engine::State::compile_kernel(const KernelCompiler& compiler, const Target& target,
                                    CompiledKernel& kernel) {
  const KeyFields fields{kernel.source.body, compiler.header_digest(), target.arch,
                         compiler.option_text(target.arch, options.compile),
                         compiler.compiler_id()};
  kernel.key = kernel_key(fields);
  const std::string& symbol = kernel.source.symbol;
  log_event(LogLevel::kDebug, "kernel {} has key {}", symbol, kernel.key.hex());
  const LogTimer timer;
  CacheTier tier = CacheTier::kMemory;
  const auto compile = [&]() -> Expected<Cubin> {
    Expected<CompileResult> result =
        compiler.compile(CompileJob{kernel.source, target.arch, options.compile});
    if (!result) return result.takeError();
    return std::move(result->cubin);
  };
  auto cubin = cache.get(kernel.key, key_record(fields), compile, &tier,
                         {symbol, target.arch, compiler.compiler_id()});
  if (!cubin) return cubin.takeError();
  kernel.cubin = std::move(*cubin);
  log_event(LogLevel::kInfo, "kernel {} ({}) {} in {:.1f} ms", symbol, kernel.cubin->arch,
            tier_text(tier), timer.ms());
  return Error::success();
}

// Emits and compiles every kernel of `plan`. On failure the error is the first one in the plan's
// order, and `rejected` gets the candidates that others may replace.
Expected<CompiledChain> Engine::State::compile_plan(const KernelCompiler& compiler,
                                                    const VerifiedChain& chain, Plan plan,
                                                    std::vector<RejectedCandidate>& rejected) {
  CompiledChain compiled{chain, std::move(plan), {}, chain_options()};
  std::vector<Job> jobs;
  for (size_t b = 0; b < compiled.plan.buckets.size(); ++b) {
    compiled.buckets.emplace_back();
    const auto& kernels = compiled.plan.buckets[b].kernels;
    for (size_t k = 0; k < kernels.size(); ++k) {
      compiled.buckets[b].push_back({emit(chain, compiled.plan, kernels[k]), {}, nullptr});
      jobs.push_back({b, k, {}});
    }
  }
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const auto all = static_cast<i64>(jobs.size());
  std::atomic<i64> done{0};
  parallel_for(all, std::min(cores, kMaxCompileThreads), [&](i64 i) {
    Job& job = jobs[i];
    Error error =
        compile_kernel(compiler, compiled.plan.target, compiled.buckets[job.bucket][job.kernel]);
    if (error) job.problem = take_report(std::move(error));
    if (options.progress) options.progress(++done, all);
  });
  const Job* first = nullptr;
  bool all_replaceable = true;
  for (const Job& job : jobs) {
    if (job.problem.code == ErrorCode::kOk) continue;
    if (first == nullptr) first = &job;
    const KernelPlan& kernel = compiled.plan.buckets[job.bucket].kernels[job.kernel];
    if (job.problem.code == ErrorCode::kKernelRejected && !kernel.signature.empty()) {
      rejected.push_back({kernel.signature, kernel.candidate});
    } else {
      all_replaceable = false;
    }
  }
  if (first == nullptr) return compiled;
  if (!all_replaceable) rejected.clear();
  return make_error_text(first->problem.code, first->problem.message, first->problem.at);
}

Expected<std::shared_ptr<const CompiledChain>> Engine::compile(Chain chain, const Target& target) {
  Expected<ForkGuard> guard = ForkGuard::enter();
  if (!guard) return guard.takeError();
  chain.words.algebraic_norms |= state_->options.plan.algebraic_norms;
  Expected<VerifiedChain> verified = verify(std::move(chain));
  if (!verified) return verified.takeError();
  if (!state_->lookup.idle()) {
    const ChainRequest request = state_->request(*verified, target);
    state_->lookup.trace(request);
    if (Error error = state_->lookup.refuse_compiling(request)) return error;
  }
  return state_->compile_chain(*verified, target);
}

Expected<std::shared_ptr<const ChainRecord>> Engine::obtain(Chain chain, const Target& target) {
  Expected<ForkGuard> guard = ForkGuard::enter();
  if (!guard) return guard.takeError();
  chain.words.algebraic_norms |= state_->options.plan.algebraic_norms;
  Expected<VerifiedChain> verified = verify(std::move(chain));
  if (!verified) return verified.takeError();
  if (!state_->lookup.idle()) {
    const ChainRequest request = state_->request(*verified, target);
    state_->lookup.trace(request);
    auto found = state_->lookup.find(request);
    if (!found) return found.takeError();
    if (*found) {
      log_event(LogLevel::kInfo, "chain '{}' is {}", (*found)->name, (*found)->from);
      return std::move(*found);
    }
    if (Error error = state_->lookup.miss(request)) return error;
  }
  auto compiled = state_->compile_chain(*verified, target);
  if (!compiled) return compiled.takeError();
  return make_record(std::move(*compiled));
}

void Engine::add_pack(std::shared_ptr<const Pack> pack, int priority) {
  state_->lookup.add(std::move(pack), priority);
}

std::string Engine::missed() const { return state_->lookup.missed(); }

Expected<std::shared_ptr<const CompiledChain>> Engine::State::compile_chain(
    const VerifiedChain& chain, const Target& target) {
  Expected<const KernelCompiler*> compiler = this->compiler();
  if (!compiler) return compiler.takeError();
  if (!(*compiler)->supports(target.arch)) {
    return make_error(ErrorCode::kUnsupported,
                      "{} cannot compile for {} (target '{}'): install a newer NVRTC, or choose "
                      "another target",
                      (*compiler)->compiler_id(), target.arch, target.name);
  }
  PlanOptions plan_options = tuned_plan_options(target);
  ErrorReport last;
  for (int attempt = 0; attempt <= kMaxReplans; ++attempt) {
    const LogTimer timer;
    Expected<Plan> plan = make_plan(chain, target, plan_options);
    if (!plan) {
      // If every candidate was rejected, the last rejection says more than that none is left.
      if (last.code == ErrorCode::kOk) return plan.takeError();
      llvm::consumeError(plan.takeError());
      break;
    }
    log_plan(chain, *plan, timer.ms());
    std::vector<RejectedCandidate> rejected;
    Expected<CompiledChain> compiled = compile_plan(**compiler, chain, std::move(*plan), rejected);
    if (compiled) return std::make_shared<const CompiledChain>(std::move(*compiled));
    last = take_report(compiled.takeError());
    log_event(LogLevel::kInfo, "chain '{}' has a kernel that is not used: {}", chain.chain().name,
              llvm::StringRef(last.message).split('\n').first.str());
    const size_t known = plan_options.rejected.size();
    for (RejectedCandidate& candidate : rejected) {
      if (!llvm::is_contained(plan_options.rejected, candidate)) {
        plan_options.rejected.push_back(std::move(candidate));
      }
    }
    if (plan_options.rejected.size() == known) break;  // nothing new to avoid
  }
  return make_error_text(last.code, last.message, last.at);
}

// Returns the slot of `key`, and removes the slots of kernels that are unloaded. A slot that only
// the map holds is not being loaded: every other holder got it here, under the mutex. A count of 1
// does not order what the last holder wrote before this read; the slot's own mutex does.
std::shared_ptr<Engine::State::LoadedSlot> Engine::State::loaded_slot(const LoadedKey& key) {
  const std::lock_guard lock(loaded_mutex);
  if (const auto it = loaded.find(key); it != loaded.end()) return it->second;
  std::erase_if(loaded, [](const auto& entry) {
    LoadedSlot& slot = *entry.second;
    if (entry.second.use_count() > 1) return false;
    const std::unique_lock hold(slot.mutex, std::try_to_lock);
    return hold.owns_lock() && slot.kernel.expired();
  });
  return loaded[key] = std::make_shared<LoadedSlot>();
}

Expected<std::shared_ptr<const LoadedKernel>> Engine::State::load_kernel(
    const cuda::Driver& driver, int device, const KernelRecord& kernel) {
  const std::shared_ptr<LoadedSlot> slot =
      loaded_slot({&driver, device, kernel.identity, kernel.smem_bytes});
  const CallbacksHeld held;
  const std::lock_guard lock(slot->mutex);
  if (auto known = slot->kernel.lock()) return known;
  const LogTimer timer;
  auto fresh = LoadedKernel::load(driver, *kernel.cubin, kernel.smem_bytes);
  if (!fresh) return fresh;
  log_event(LogLevel::kInfo, "kernel {} loaded on device {} in {:.1f} ms", kernel.symbol, device,
            timer.ms());
  slot->kernel = *fresh;
  return fresh;
}

namespace {

// Refuses before the driver does: its message would be "no kernel image is available".
Error check_arch(const std::string& chain, const Cubin& cubin, const cuda::DeviceInfo& info,
                 bool simulated) {
  const std::string arch(planned_arch(cubin.arch));
  if (is_host_arch(cubin.arch) != simulated) {
    return make_error(ErrorCode::kArchMismatch,
                      "chain '{}' is compiled for {}, and device {} ({}) is {}: compile it by an "
                      "engine with backend {}",
                      chain, simulated ? arch : "the simulator", info.ordinal, info.name,
                      simulated ? "the simulator" : "a GPU", simulated ? "kHost" : "kNvrtc");
  }
  if (arch_runs_on(arch, info.compute_capability)) return Error::success();
  return make_error(ErrorCode::kArchMismatch,
                    "chain '{}' is compiled for {}, and device {} ({}) is sm_{}: compile it for {}",
                    chain, arch, info.ordinal, info.name, info.compute_capability,
                    info.target.arch);
}

Error check_device(const ChainRecord& record, const cuda::DeviceInfo& info, bool simulated) {
  for (const BucketRecord& bucket : record.buckets) {
    for (const KernelRecord& kernel : bucket.kernels) {
      if (Error error = check_arch(record.name, *kernel.cubin, info, simulated)) return error;
      if (kernel.smem_bytes > info.target.smem_per_cta) {
        return make_error(ErrorCode::kResourceLimit,
                          "kernel {} of chain '{}' needs {} bytes of shared memory, and device {} "
                          "({}) gives {}: compile it for this device",
                          kernel.symbol, record.name, kernel.smem_bytes, info.ordinal, info.name,
                          info.target.smem_per_cta);
      }
    }
  }
  return Error::success();
}

}  // namespace

Expected<std::shared_ptr<const Executable>> Engine::load(
    std::shared_ptr<const CompiledChain> compiled, int device, cuda::Stream stream) {
  return load(compiled ? make_record(std::move(compiled)) : nullptr, device, stream);
}

Expected<std::shared_ptr<const Executable>> Engine::load(std::shared_ptr<const ChainRecord> record,
                                                         int device, cuda::Stream stream) {
  Expected<ForkGuard> guard = ForkGuard::enter();
  if (!guard) return guard.takeError();
  if (!record) {
    return make_error(ErrorCode::kInvalidArgument,
                      "compiled chain is null: pass what compile() returned");
  }
  Expected<cuda::DeviceInfo> info = cuda::probe(device);
  if (!info) return info.takeError();
  const cuda::Driver* driver = *cuda::Driver::get();
  if (Error error = check_device(*record, *info, driver->simulated())) return error;
  Expected<cuda::ScopedContext> scope = cuda::ScopedContext::primary(device);
  if (!scope) return scope.takeError();
  if (Error error = refuse_capture(*driver, stream)) return error;

  auto state = std::make_unique<Executable::State>();
  state->record = std::move(record);
  state->driver = driver;
  state->device = device;
  Expected<cuda::Context> context = driver->primary_context(device);
  if (!context) return context.takeError();
  state->context = *context;
  if (Error error = state->bind()) return error;
  for (size_t b = 0; b < state->buckets.size(); ++b) {
    for (size_t k = 0; k < state->buckets[b].kernels.size(); ++k) {
      BoundKernel& kernel = state->buckets[b].kernels[k];
      auto loaded = state_->load_kernel(*driver, device, state->record->buckets[b].kernels[k]);
      if (!loaded) return loaded.takeError();
      kernel.loaded = std::move(*loaded);
      kernel.function = kernel.loaded->function();
      if (Error error = state->fit_clusters(kernel)) return error;
    }
  }
  return std::shared_ptr<const Executable>(new Executable(std::move(state)));
}

Expected<std::shared_ptr<const Executable>> Engine::prepare(Chain chain, int device,
                                                            cuda::Stream stream) {
  Expected<cuda::DeviceInfo> info = cuda::probe(device);
  if (!info) return info.takeError();
  {
    Expected<cuda::ScopedContext> scope = cuda::ScopedContext::primary(device);
    if (!scope) return scope.takeError();
    if (Error error = refuse_capture(**cuda::Driver::get(), stream)) return error;
  }
  auto record = obtain(std::move(chain), info->target);
  if (!record) return record.takeError();
  return load(std::move(*record), device, stream);
}

}  // namespace catenary
