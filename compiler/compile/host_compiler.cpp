// SPDX-License-Identifier: Apache-2.0
// KernelSource -> shared object, one process of the host's compiler per job. Holds the search and
// the option list. Must not know what the source computes.
#include "compiler/compile/host_compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include "compiler/compile/environment.h"
#include "compiler/compile/host_log.h"
#include "compiler/compile/host_process.h"
#include "compiler/compile/scratch_folder.h"
#include "compiler/compile/templates.h"
#include "compiler/target.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Host.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

namespace catenary {
namespace {

constexpr int kCompileSeconds = 300;
constexpr int kProbeSeconds = 30;
constexpr const char* kFillVariables = "-ftrivial-auto-var-init=pattern";

// What the templates need of a C++20 compiler: config structs as template arguments, which clang++
// 14 accepts but misreads where such a struct ends in padding; the place of a call as a default
// argument.
constexpr const char* kProbe = R"(
#include "shared/gemm_sm80_config.h"
using namespace catenary;
struct Site { const char* file; unsigned line; };
constexpr Site here(const char* f = __builtin_FILE(), unsigned l = __builtin_LINE()) {
  return {f, l};
}
__attribute__((noinline)) i64 size_of(Extent extent) { return extent.size; }
__attribute__((noinline)) i64 size_of(const i32& number) { return number; }
template <GemmSm80Config kConfig> bool reads_well(Site at = here()) {
  return size_of(kConfig.space.m) == 3 && size_of(kConfig.space.n) == 4 &&
         size_of(kConfig.space.k) == 5 && size_of(kConfig.tile.block_m) == 6 &&
         size_of(kConfig.tile.stages) == 7 && size_of(kConfig.vec) == 8 && at.line > 0;
}
extern "C" __attribute__((visibility("default"))) bool catenary_probe() {
  return reads_well<GemmSm80Config{.space = {.m = 3, .n = 4, .k = 5},
                                   .tile = {.block_m = 6, .stages = 7},
                                   .vec = 8}>();
}
)";

// Runs the compiled probe. An object that cannot be loaded from its folder tells nothing.
bool probe_reads_well(const std::string& object) {
  void* handle = ::dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return true;
  auto* probe = reinterpret_cast<bool (*)()>(::dlsym(handle, "catenary_probe"));
  const bool good = probe != nullptr && probe();
  ::dlclose(handle);
  return good;
}

// The files of one compile, removed at its end. Not beside the headers: a quoted include looks in
// the file's own folder first, before the host shims.
struct Unit {
  explicit Unit(const std::string& folder) {
    static std::atomic<u64> count{0};
    llvm::sys::fs::create_directory(folder + "/units");
    const std::string name = fmt::format("{}/units/unit{}", folder, ++count);
    source = name + ".cpp";
    object = name + ".so";
  }
  Unit(const Unit&) = delete;
  Unit& operator=(const Unit&) = delete;
  ~Unit() {
    for (const std::string& path : {source, object}) llvm::sys::fs::remove(path);
  }
  std::string source;
  std::string object;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// The kernel as a translation unit; places in it are those of the emitted source.
std::string unit_text(const KernelSource& source) {
  return fmt::format(
      "#line 1 \"{0}.cu\"\n{1}\n#define CATENARY_SIM_KERNEL {0}\n#include \"sim/entry.h\"\n",
      source.symbol, source.body);
}

}  // namespace

std::string_view planned_arch(std::string_view arch) {
  if (arch.substr(0, kHostArch.size()) == std::string_view(kHostArch)) {
    arch.remove_prefix(kHostArch.size());
  }
  return arch;
}

std::string arch_words(std::string_view arch) {
  return fmt::format("{}{}", is_host_arch(arch) ? "the simulator of " : "", planned_arch(arch));
}

std::vector<std::string> HostCompiler::option_list(std::string_view arch,
                                                   const CompileOptions& options) const {
  Target target;
  target.arch = arch;
  std::vector<std::string> list{
      "-std=c++20", "-O1", "-fPIC", "-shared",
      // Each shared object has its own inline variables.
      "-fvisibility=hidden",
      // Products are rounded before they are added, unless a template says fma.
      "-ffp-contract=off", "-fno-exceptions", "-fno-rtti", "-fno-stack-protector", "-w",
      fmt::format("-D__CUDA_ARCH__={}", 10 * target.compute_capability())};
  if (fills_variables_) list.push_back(kFillVariables);
  if (options.line_info) list.push_back("-g");
  return list;
}

std::string HostCompiler::option_text(std::string_view arch, const CompileOptions& options) const {
  // The compiler's name says nothing of the machine that it compiles for.
  return llvm::join(option_list(arch, options), "\n") + "\nfor " + llvm::sys::getProcessTriple();
}

std::string HostCompiler::header_digest() const {
  return fmt::format("{} {}", templates_digest(), shims_digest());
}

bool HostCompiler::supports(std::string_view) const { return true; }

Expected<std::string> HostCompiler::try_out() {
  const ProcessResult version = run_process({path_, "--version"}, kProbeSeconds);
  if (version.status != 0 || version.output.empty()) {
    return version.problem.empty() ? "it reports no version" : version.problem;
  }
  compiler_id_ = "host " + first_line(version.output);
  // Not header_folder(): a process that finds its kernels in the cache needs few of the headers,
  // and only for this moment.
  Expected<ScratchFolder> folder = ScratchFolder::make();
  if (!folder) return folder.takeError();
  if (Error error = write_headers(folder->path(), "shared/")) return error;
  const Unit unit(folder->path());
  if (Error error = write_text(unit.source, kProbe)) return error;
  ProcessResult tried;
  for (const bool fills : {true, false}) {
    fills_variables_ = fills;
    std::vector<std::string> arguments{path_};
    llvm::append_range(arguments, option_list("sm_90a", {}));
    arguments.insert(arguments.end(), {"-I", folder->path(), "-o", unit.object, unit.source});
    tried = run_process(arguments, kProbeSeconds);
    if (tried.status != 0 || !llvm::sys::fs::exists(unit.object)) continue;
    if (probe_reads_well(unit.object)) return "";
    return fmt::format("{} misreads structs that are template arguments", compiler_id_);
  }
  const std::optional<LogError> error = first_host_error(tried.output, "");
  return fmt::format("{} does not compile C++20: {}", compiler_id_,
                     error                   ? error->text
                     : tried.problem.empty() ? first_line(tried.output)
                                             : tried.problem);
}

Expected<std::unique_ptr<HostCompiler>> HostCompiler::find(llvm::ArrayRef<std::string> programs,
                                                           llvm::StringRef variable) {
  std::vector<std::string> tried;
  // Empty: PATH.
  llvm::SmallVector<llvm::StringRef, 2> trusted;
  if (has_more_rights_than_its_user()) trusted = {"/usr/bin", "/bin"};
  for (const std::string& program : programs) {
    const llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName(program, trusted);
    std::string why = program.find('/') == std::string::npos ? "not on the path" : "not there";
    if (path && llvm::sys::fs::can_execute(*path)) {
      std::unique_ptr<HostCompiler> compiler(new HostCompiler);
      compiler->path_ = *path;
      Expected<std::string> reason = compiler->try_out();
      if (!reason) return reason.takeError();
      if (reason->empty()) return compiler;
      why = std::move(*reason);
    }
    tried.push_back(fmt::format("{}{} ({})", variable.str(), program, why));
  }
  return make_error(ErrorCode::kHostCompilerMissing,
                    "no C++ compiler for the simulator: tried {}; install g++ 11 or newer, or "
                    "set CATENARY_CXX to a C++20 compiler",
                    llvm::join(tried, ", "));
}

Expected<std::unique_ptr<HostCompiler>> HostCompiler::open(const std::string& program) {
  return find(program, "");
}

Expected<const HostCompiler*> HostCompiler::get() {
  static std::mutex mutex;
  // Never destroyed: threads may compile until the process ends.
  static const HostCompiler* instance = nullptr;
  const std::lock_guard lock(mutex);
  if (instance != nullptr) return instance;
  const std::string chosen = environment("CATENARY_CXX");
  auto compiler = chosen.empty() ? find({"g++", "clang++"}, "") : find(chosen, "CATENARY_CXX=");
  if (!compiler) return compiler.takeError();
  return instance = compiler->release();
}

HostCompiler HostCompiler::over(std::string folder) const {
  HostCompiler compiler = *this;
  compiler.over_ = std::move(folder);
  return compiler;
}

Expected<CompileResult> HostCompiler::compile(const CompileJob& job) const {
  const auto start = std::chrono::steady_clock::now();
  Expected<std::string> folder = header_folder();
  if (!folder) return folder.takeError();
  const Unit unit(*folder);
  if (Error error = write_text(unit.source, unit_text(job.source))) return error;
  std::vector<std::string> arguments{path_};
  llvm::append_range(arguments, option_list(job.arch, job.options));
  for (const std::string& headers : {over_, *folder}) {
    if (headers.empty()) continue;
    arguments.insert(arguments.end(), {"-I", headers + "/sim", "-I", headers});
  }
  arguments.insert(arguments.end(),
                   {"-fdiagnostics-color=never", "-Wl,-z,defs", "-o", unit.object, unit.source});
  const ProcessResult run = run_process(arguments, kCompileSeconds);
  if (run.status == -1) {
    return make_error(ErrorCode::kHostCompilerMissing,
                      "{} could not be run ({}): reinstall it, or set CATENARY_CXX to another "
                      "compiler",
                      path_, run.problem);
  }
  // Volatile: read and not mapped.
  const auto image = llvm::MemoryBuffer::getFile(
      unit.object, /*IsText=*/false, /*RequiresNullTerminator=*/false, /*IsVolatile=*/true);
  if (run.status != 0 || !image || (*image)->getBufferSize() == 0) {
    if (says_host_out_of_memory(run.output)) {
      return make_error(ErrorCode::kOutOfMemory,
                        "kernel {} does not compile for the simulator: {} ran out of memory; free "
                        "memory or compile fewer kernels at a time",
                        job.source.symbol, compiler_id_);
    }
    const std::string status =
        run.status < 0 ? run.problem : fmt::format("{} gave no object", compiler_id_);
    return make_error_text(
        ErrorCode::kCompileFailed,
        compile_error_message(job.source, "the simulator",
                              first_host_error(run.output, job.source.symbol), run.output, status));
  }
  CompileResult result;
  result.log = run.output;
  const llvm::StringRef bytes = (*image)->getBuffer();
  result.cubin = {job.source.symbol,
                  kHostArch.str() + job.arch,
                  compiler_id_,
                  {},
                  std::vector<u8>(bytes.begin(), bytes.end())};
  result.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace catenary
