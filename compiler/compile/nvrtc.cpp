// SPDX-License-Identifier: Apache-2.0
// KernelSource -> Cubin by one NVRTC program per job, each on a thread with a stack of known size.
// Holds the option list. Must not know what the source computes.
#include "compiler/compile/nvrtc.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "compiler/compile/address_space.h"
#include "compiler/compile/nvrtc_library.h"
#include "compiler/compile/nvrtc_log.h"
#include "compiler/compile/templates.h"
#include "ir/callbacks.h"
#include "ir/default_numerics.h"
#include "ir/log.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace catenary {

struct Nvrtc::Api {
  NvrtcLibrary library;
  NvrtcFacts facts;
};

namespace {

NvrtcFacts facts_of(const NvrtcLibrary& library, std::string compiler_id) {
  return {library.path, std::move(compiler_id), library.major, library.minor, library.archs};
}

}  // namespace

namespace {

constexpr size_t kStackBytes = 8 << 20;
constexpr i64 kProgramBytes = i64{112} << 20;
constexpr size_t kMaxBodyBytes = 4 << 20;
constexpr int kMaxThreads = 8;

using Options = std::vector<std::string>;

// A thread with an 8 MiB stack, joined on destruction; std::thread cannot set the size.
class CompilerThread {
 public:
  explicit CompilerThread(llvm::function_ref<void()> work) : work_(work) {
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0) return;
    pthread_attr_setstacksize(&attributes, kStackBytes);
    started_ = pthread_create(&thread_, &attributes, &run, this) == 0;
    pthread_attr_destroy(&attributes);
  }
  CompilerThread(const CompilerThread&) = delete;
  CompilerThread& operator=(const CompilerThread&) = delete;
  ~CompilerThread() {
    if (started_) pthread_join(thread_, nullptr);
  }
  bool started() const { return started_; }

 private:
  static void* run(void* self) {
    const DefaultNumerics numerics;  // NVRTC reads and folds the source's numbers on this thread
    static_cast<CompilerThread*>(self)->work_();
    return nullptr;
  }

  llvm::function_ref<void()> work_;
  pthread_t thread_{};
  bool started_ = false;
};

Error no_thread() {
  return make_error(ErrorCode::kOutOfMemory,
                    "no memory for a compiler thread with a stack of {} MiB: free memory or raise "
                    "the limit on threads",
                    kStackBytes >> 20);
}

// One nvrtcProgram. `result` is the first nvrtcResult that was not success.
class Program {
 public:
  Program(const NvrtcFunctions& api, const std::string& body, const std::string& name) : api_(api) {
    std::vector<const char*> texts, names;
    for (const EmbeddedTemplate& header : embedded_templates()) {
      texts.push_back(header.text);
      names.push_back(header.name);
    }
    result = api_.create_program(&program_, body.c_str(), name.c_str(),
                                 static_cast<int>(names.size()), texts.data(), names.data());
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program() {
    if (program_) api_.destroy_program(&program_);
  }

  void compile(const Options& options) {
    if (result != kNvrtcSuccess) return;
    std::vector<const char*> arguments;
    for (const std::string& option : options) arguments.push_back(option.c_str());
    result = api_.compile_program(program_, static_cast<int>(arguments.size()), arguments.data());
  }
  std::string log() { return text(api_.log_size, api_.log); }
  std::string ptx() { return text(api_.ptx_size, api_.ptx); }
  std::string cubin() { return read(api_.cubin_size, api_.cubin); }
  const char* status() const { return api_.error_string(result); }

  int result = kNvrtcSuccess;

 private:
  std::string read(int (*size)(NvrtcProgram, size_t*), int (*get)(NvrtcProgram, char*)) {
    size_t bytes = 0;
    if (!program_ || size(program_, &bytes) != kNvrtcSuccess || bytes == 0) return "";
    std::string out(bytes, '\0');
    if (get(program_, out.data()) != kNvrtcSuccess) return "";
    return out;
  }
  // Text ends at its first zero byte, wherever the library says that it ends.
  std::string text(int (*size)(NvrtcProgram, size_t*), int (*get)(NvrtcProgram, char*)) {
    std::string out = read(size, get);
    out.resize(std::min(out.find('\0'), out.size()));
    return out;
  }

  const NvrtcFunctions& api_;
  NvrtcProgram program_ = nullptr;
};

Options option_list(std::string_view arch, const CompileOptions& options) {
  // The stack limit belongs to the whole process: NVRTC must not raise it unasked.
  // --minimal leaves out the declarations of the CUDA runtime, which no template uses: 10 ms.
  Options list{"-std=c++20", fmt::format("-arch={}", arch), "--modify-stack-limit=false",
               "-default-device", "--minimal"};
  if (options.line_info) list.push_back("-lineinfo");
  return list;
}

// A compile that failed without a reason: with -v, ptxas loses some of its errors ("uses too much
// shared data"), so the reason is asked for again without it.
std::string failure_log(const NvrtcLibrary& library, const CompileJob& job, std::string log) {
  if (first_log_error(log, job.source.symbol)) return log;
  Program program(library.api, job.source.body, job.source.symbol + ".cu");
  program.compile(option_list(job.arch, job.options));
  const std::string plain = program.log();
  return first_log_error(plain, job.source.symbol) ? plain : log;
}

Error compile_failure(const NvrtcLibrary& library, const CompileJob& job, Program& program) {
  std::string log = program.log();
  if (program.result == kNvrtcOutOfMemory || says_out_of_memory(log)) {
    return make_error(ErrorCode::kOutOfMemory,
                      "kernel {} does not compile for {}: NVRTC ran out of memory; free memory or "
                      "compile fewer kernels at a time",
                      job.source.symbol, job.arch);
  }
  if (program.result == kNvrtcBuiltinFailure) {
    return make_error(ErrorCode::kNvrtcMissing,
                      "NVRTC at {} cannot open its builtins: put libnvrtc-builtins.so.{}.{} beside "
                      "it",
                      library.path, library.major, library.minor);
  }
  if (program.result == kNvrtcCompilationError) log = failure_log(library, job, std::move(log));
  return make_error_text(ErrorCode::kCompileFailed,
                         compile_error_message(job.source, job.arch, log, program.status()));
}

// Why a compiled kernel is not acceptable: it is slow in a way that the cost model does not
// predict.
Error check_report(const CompileJob& job, const PtxasReport& report) {
  const std::string& symbol = job.source.symbol;
  const KernelResources& used = report.resources;
  if (!report.entry_found) {
    return make_error(ErrorCode::kCompileFailed,
                      "kernel {} is not in its own source: define extern \"C\" __global__ {}",
                      symbol, symbol);
  }
  if (job.options.allow_spills) return Error::success();
  if (used.spill_bytes > 0) {
    return make_error(ErrorCode::kKernelRejected,
                      "kernel {} spills {} bytes of registers for {} ({} registers, {} bytes of "
                      "stack): choose a smaller tile or allow spills",
                      symbol, used.spill_bytes, job.arch, used.registers, used.stack_bytes);
  }
  if (!report.warning.empty()) {
    return make_error(ErrorCode::kKernelRejected,
                      "kernel {} is rejected for {} because of ptxas' warning \"{}\": choose "
                      "another plan or allow spills",
                      symbol, job.arch, report.warning);
  }
  return Error::success();
}

Options full_options(const NvrtcLibrary& library, const CompileJob& job) {
  Options options = option_list(job.arch, job.options);
  // NVRTC has a cache of its own from 12.9 on; the library's cache makes it useless.
  if (library.major > 12 || library.minor >= 9) options.push_back("--no-cache");
  options.insert(options.end(), {"-Xptxas", "-v"});
  return options;
}

Expected<CompileResult> compile_here(const NvrtcLibrary& library, const std::string& compiler_id,
                                     const CompileJob& job) {
  const auto start = std::chrono::steady_clock::now();
  // Where the limit is near, one program at a time.
  static std::mutex near_limit;
  std::unique_lock<std::mutex> alone(near_limit, std::defer_lock);
  if (address_space_left() < kMaxThreads * kProgramBytes) alone.lock();
  if (Error error = check_nvrtc_memory()) return error;
  Program program(library.api, job.source.body, job.source.symbol + ".cu");
  program.compile(full_options(library, job));
  if (program.result != kNvrtcSuccess) return compile_failure(library, job, program);

  CompileResult result;
  result.log = program.log();
  const PtxasReport report = parse_ptxas_log(result.log, job.source.symbol);
  if (Error error = check_report(job, report)) return error;
  const std::string image = program.cubin();
  if (image.empty()) {
    return make_error(ErrorCode::kInternal, "NVRTC at {} gave no machine code for kernel {}",
                      library.path, job.source.symbol);
  }
  result.cubin = {job.source.symbol, job.arch, compiler_id, report.resources,
                  std::vector<u8>(image.begin(), image.end())};
  if (job.options.want_ptx) result.ptx = program.ptx();
  result.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

// "V13.0.88" and "CL-36424714" out of a PTX header, up to the next space or comma.
std::string word_from(llvm::StringRef text, llvm::StringRef start) {
  const size_t at = text.find(start);
  if (at == llvm::StringRef::npos) return "";
  return text.drop_front(at).take_until([](char c) { return llvm::isSpace(c) || c == ','; }).str();
}

// nvrtcVersion gives 13.0 for every build of 13.0; PTX names the build. PTX alone is asked for: no
// ptxas run, half the time.
Expected<std::string> probe_compiler_id(const NvrtcLibrary& library) {
  if (Error error = check_nvrtc_memory()) return error;
  std::string ptx, problem;
  bool no_memory = false;
  auto compile_probe = [&] {
    Program program(library.api, "extern \"C\" __global__ void probe() {}\n", "probe.cu");
    program.compile(
        {fmt::format("-arch=compute_{}", library.archs.front()), "--modify-stack-limit=false"});
    ptx = program.ptx();
    if (program.result != kNvrtcSuccess) {
      problem = fmt::format("{} {}", program.status(), llvm::StringRef(program.log()).trim().str());
    }
  };
  auto probe = [&] {
    try {
      compile_probe();
    } catch (const std::bad_alloc&) {  // no exception may leave this thread
      no_memory = true;
    }
  };
  if (library.archs.empty()) {
    problem = "it compiles for no architecture";
  } else if (!CompilerThread(probe).started()) {
    return no_thread();
  }
  if (no_memory) return no_thread();
  const std::string version = word_from(ptx, "V1");
  const std::string build = word_from(ptx, "CL-");
  if (problem.empty() && (version.empty() || build.empty())) problem = "its PTX names no build";
  if (!problem.empty()) {
    return make_error(ErrorCode::kNvrtcMissing,
                      "NVRTC {}.{} at {} fails to compile an empty kernel ({}): reinstall it with "
                      "libnvrtc-builtins beside it",
                      library.major, library.minor, library.path, problem);
  }
  return fmt::format("nvrtc {} {}", version.substr(1), build);
}

}  // namespace

Error check_nvrtc_memory() {
  const i64 left = address_space_left();
  if (left >= kProgramBytes) return Error::success();
  return make_error(
      ErrorCode::kOutOfMemory,
      "the limit of address space of NVRTC's process (ulimit -v, or CATENARY_HELPER_MEMORY) leaves "
      "{} MiB, and NVRTC needs {}: raise the limit",
      left >> 20, kProgramBytes >> 20);
}

Nvrtc::Nvrtc(std::unique_ptr<Api> api) : api_(std::move(api)) {}
Nvrtc::~Nvrtc() = default;

Expected<const Nvrtc*> Nvrtc::get() {
  static std::mutex mutex;
  // Never destroyed: threads may compile until the process ends.
  static const Nvrtc* instance = nullptr;
  const CallbacksHeld held;
  const std::lock_guard lock(mutex);
  if (instance) return instance;
  std::string compiler_id;
  auto library = find_nvrtc_library([&](const NvrtcLibrary& candidate) -> Error {
    auto id = probe_compiler_id(candidate);
    if (!id) return id.takeError();
    compiler_id = std::move(*id);
    return Error::success();
  });
  if (!library) return library.takeError();
  auto api = std::make_unique<Api>();
  api->facts = facts_of(*library, std::move(compiler_id));
  api->library = std::move(*library);
  instance = new Nvrtc(std::move(api));
  log_event(LogLevel::kDebug, "opened {} at {}", instance->compiler_id(), instance->path());
  return instance;
}

Expected<std::unique_ptr<Nvrtc>> Nvrtc::open(const std::string& path) {
  auto library = open_nvrtc_library(path);
  if (!library) return library.takeError();
  auto id = probe_compiler_id(*library);
  if (!id) return id.takeError();
  auto api = std::make_unique<Api>();
  api->facts = facts_of(*library, std::move(*id));
  api->library = std::move(*library);
  return std::unique_ptr<Nvrtc>(new Nvrtc(std::move(api)));
}

std::vector<std::string> Nvrtc::search_places() { return nvrtc_search_paths(); }

const NvrtcFacts& Nvrtc::facts() const { return api_->facts; }
const std::string& Nvrtc::path() const { return api_->facts.path; }
const std::string& Nvrtc::compiler_id() const { return api_->facts.compiler_id; }
bool Nvrtc::supports(std::string_view arch) const { return nvrtc_supports(api_->facts, arch); }

bool nvrtc_supports(const NvrtcFacts& nvrtc, std::string_view arch) {
  llvm::StringRef rest(arch.data(), arch.size());
  int number = 0;
  if (!rest.consume_front("sm_") || rest.consumeInteger(10, number)) return false;
  if (!llvm::is_contained(nvrtc.archs, number)) return false;
  const bool has_families = nvrtc.major > 12 || nvrtc.minor >= 9;
  return rest.empty() || (rest == "a" && number >= 90) ||
         (rest == "f" && number >= 100 && has_families);
}

Expected<CompileResult> Nvrtc::compile(const CompileJob& job) const {
  return std::move(compile_all(job, 1).front());
}

std::vector<Expected<CompileResult>> Nvrtc::compile_all(llvm::ArrayRef<CompileJob> jobs,
                                                        int threads) const {
  std::vector<std::optional<Expected<CompileResult>>> slots(jobs.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i = next++; i < jobs.size(); i = next++) {
      try {
        slots[i].emplace(compile_checked(jobs[i]));
      } catch (const std::bad_alloc&) {
        // The slot stays empty: no exception may leave this thread.
      }
    }
  };
  {
    const size_t cores = std::max(1u, std::thread::hardware_concurrency());
    const size_t wanted = threads > 0 ? static_cast<size_t>(threads) : cores;
    std::vector<std::unique_ptr<CompilerThread>> pool;
    for (size_t count = std::min({jobs.size(), wanted, cores, size_t{kMaxThreads}}); count > 0;
         --count) {
      pool.push_back(std::make_unique<CompilerThread>(work));
    }
  }
  std::vector<Expected<CompileResult>> results;
  results.reserve(jobs.size());
  for (auto& slot : slots) {
    // Empty when memory ran out, for a thread or on one.
    results.push_back(slot ? std::move(*slot) : Expected<CompileResult>(no_thread()));
  }
  return results;
}

Expected<CompileResult> Nvrtc::compile_checked(const CompileJob& job) const {
  const NvrtcLibrary& library = api_->library;
  if (!supports(job.arch)) {
    return make_error(ErrorCode::kUnsupported,
                      "{} ({}) cannot compile kernel {} for {}: it knows sm_{}; choose one of them "
                      "or another NVRTC",
                      compiler_id(), path(), job.source.symbol, job.arch,
                      fmt::join(library.archs, ", sm_"));
  }
  if (job.source.body.size() > kMaxBodyBytes) {
    return make_error(ErrorCode::kResourceLimit,
                      "kernel {} has {} bytes of source, over the limit of {}: split the chain",
                      job.source.symbol, job.source.body.size(), kMaxBodyBytes);
  }
  return compile_here(library, compiler_id(), job);
}

std::string Nvrtc::header_digest() const { return std::string(templates_digest()); }

std::string Nvrtc::option_text(std::string_view arch, const CompileOptions& options) const {
  return nvrtc_option_text(arch, options);
}

std::string nvrtc_option_text(std::string_view arch, const CompileOptions& options) {
  return llvm::join(option_list(arch, options), "\n") +
         (options.allow_spills ? "\nspills allowed" : "\nspills refused");
}

}  // namespace catenary
