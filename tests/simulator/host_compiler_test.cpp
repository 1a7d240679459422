// SPDX-License-Identifier: Apache-2.0
// Kernels compiled by the host's compiler: which compiler is used, errors with their location, one
// compile per key, no files left. Tests that need a compiler run with each one that is installed.
#include "compiler/compile/host_compiler.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <thread>

#include "compiler/compile/host_log.h"
#include "compiler/compile/templates.h"
#include "compiler/emit/emit.h"
#include "compiler/plan.h"
#include "runtime/engine.h"
#include "shared/gemm_sm80_config.h"
#include "shared/gemm_sm90_config.h"
#include "shared/skinny_config.h"
#include "simulator/object.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using catenary::test::ScopedEnv;
using catenary::test::TempDir;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Chain scaled_chain() {
  Chain chain;
  chain.name = "scaled";
  TensorType type;
  type.shape = {{8, false}, {40, false}};
  const ValueId x = chain.parameter(Role::kInput, "x", type);
  const ValueId w = chain.parameter(Role::kWeight, "w", type);
  const ValueId h = chain.elementwise(Op::kMul, {Use{x, ""}, Use{w, ""}}, {}, "h");
  chain.returns(chain.elementwise(Op::kGelu, {Use{h, ""}}, {}, "y"), DType::kBF16);
  return chain;
}

KernelSource scaled_source() {
  const VerifiedChain chain = llvm::cantFail(verify(scaled_chain()));
  const Plan plan = llvm::cantFail(make_plan(chain, llvm::cantFail(find_target("h200"))));
  return emit(chain, plan, plan.buckets[0].kernels[0]);
}

CompileJob job_of(std::string body) { return {{"kern", "", std::move(body)}, "sm_90a", {}}; }

ErrorReport failure(const HostCompiler& compiler, const CompileJob& job) {
  auto result = compiler.compile(job);
  REQUIRE_FALSE(result);
  return take_report(result.takeError());
}

// Every compiler that is installed.
std::vector<std::unique_ptr<HostCompiler>> compilers() {
  std::vector<std::unique_ptr<HostCompiler>> found;
  for (const char* name : {"g++", "clang++"}) {
    auto compiler = HostCompiler::open(name);
    if (compiler) {
      found.push_back(std::move(*compiler));
    } else {
      CHECK(take_report(compiler.takeError()).code == ErrorCode::kHostCompilerMissing);
    }
  }
  if (found.empty()) MESSAGE("skipped: no host compiler");
  return found;
}

// As large as T if T ends in padding, which then holds `after`.
template <class T>
struct Followed {
  [[no_unique_address]] T config;
  u8 after;
};
template <class T>
constexpr bool kEndsInPadding = sizeof(Followed<T>) == sizeof(T);

size_t files_in(const std::string& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& file : std::filesystem::recursive_directory_iterator(folder)) {
    ++count;
  }
  return count;
}

}  // namespace

// Must be the first test: get() caches what it has found.
TEST_CASE("no compiler: the error names every place that was searched") {
  const auto report_of_get = [] {
    auto compiler = HostCompiler::get();
    REQUIRE_FALSE(compiler);
    const ErrorReport report = take_report(compiler.takeError());
    CHECK(report.code == ErrorCode::kHostCompilerMissing);
    CHECK(exit_code(report.code) == 3);
    return report.message;
  };
  const ScopedEnv path("PATH", "/nonexistent");
  {
    const ScopedEnv none("CATENARY_CXX", nullptr);
    const std::string text = report_of_get();
    CHECK(has(text, "g++ (not on the path)"));
    CHECK(has(text, "clang++ (not on the path)"));
    CHECK(has(text, "CATENARY_CXX"));
  }
  const ScopedEnv chosen("CATENARY_CXX", "/nonexistent/cxx");
  CHECK(has(report_of_get(), "tried CATENARY_CXX=/nonexistent/cxx (not there)"));
  const ScopedEnv wrong("CATENARY_CXX", "/bin/true");
  CHECK(has(report_of_get(), "does not compile C++20"));
}

TEST_CASE("an engine for the simulator does not need NVRTC, and reports a missing host compiler") {
  const ScopedEnv nvrtc("CATENARY_NVRTC", "/nonexistent");
  const ScopedEnv chosen("CATENARY_CXX", "/nonexistent/cxx");
  EngineOptions options;
  options.backend = Backend::kHost;
  options.cache.mode = CacheMode::kOff;
  options.cache.directory = "off";
  Engine engine(options);
  auto compiled = engine.compile(scaled_chain(), llvm::cantFail(find_target("h200")));
  REQUIRE_FALSE(compiled);
  CHECK(take_report(compiled.takeError()).code == ErrorCode::kHostCompilerMissing);
}

TEST_CASE("an emitted kernel becomes an object that loads") {
  for (const auto& compiler : compilers()) {
    CAPTURE(compiler->compiler_id());
    CHECK(compiler->compiler_id().rfind("host ", 0) == 0);
    CHECK(compiler->supports("sm_80"));
    const KernelSource source = scaled_source();
    auto result = compiler->compile({source, "sm_90a", {}});
    if (!result) FAIL(take_report(result.takeError()).message);
    CHECK(result->cubin.symbol == source.symbol);
    CHECK(result->cubin.arch == "host:sm_90a");
    CHECK(result->cubin.compiler_id == compiler->compiler_id());
    CHECK(is_host_arch(result->cubin.arch));
    CHECK(planned_arch(result->cubin.arch) == "sm_90a");
    CHECK(static_cast<bool>(sim::Object::load(result->cubin.image)));
  }
  CHECK_FALSE(is_host_arch("sm_90a"));
}

TEST_CASE("a source that does not compile: location, value and first error are reported") {
  for (const auto& compiler : compilers()) {
    CAPTURE(compiler->compiler_id());
    const ErrorReport plain = failure(*compiler, job_of("#include \"kernels/pointwise.cuh\"\n"
                                                        "int a = 1;\n"
                                                        "int b = lost;  // %h = gelu %g\n"
                                                        "int c = gone;\n"));
    CHECK(plain.code == ErrorCode::kCompileFailed);
    CAPTURE(plain.message);
    CHECK(
        has(plain.message, "kernel kern does not compile for the simulator: kern.cu(3): value %h"));
    CHECK(has(plain.message.substr(0, plain.message.find('\n')), "'lost'"));
    const ErrorReport missing = failure(*compiler, job_of("#include \"tile/none.cuh\"\n"));
    CHECK(has(missing.message, "kern.cu(1): "));
    CHECK(has(missing.message, "tile/none.cuh"));
    // A template's error, with the emitted line that uses it.
    const ErrorReport used =
        failure(*compiler, job_of("#include \"shared/params.h\"\n"
                                  "template <class T> int rows(T t) { return t.none; }\n"
                                  "int b = rows(3);  // %y = relu %h\n"
                                  "extern \"C\" void kern(int) {}\n"));
    CAPTURE(used.message);
    CHECK(has(used.message, "kern.cu(2): "));
    // No kernel of that name.
    CHECK(failure(*compiler, job_of("int a;\n")).code == ErrorCode::kCompileFailed);
    // An undefined function is an error at compile time, not when it is called.
    const ErrorReport undefined =
        failure(*compiler, job_of("#include \"sim/cuda.h\"\nint lost();\nstruct P { int* to; };\n"
                                  "extern \"C\" void kern(P p) { *p.to = lost(); }\n"));
    CHECK(has(undefined.message.substr(0, undefined.message.find('\n')), "lost"));
  }
}

TEST_CASE(
    "a compiler that runs out of memory is not an error of the source, and may succeed later") {
  const TempDir folder;
  const std::string script = folder / "cxx";
  const std::string full = folder / "full";
  std::ofstream(script) << "#!/bin/sh\nif [ -e '" << full << "' ]; then\n"
                        << "  echo 'cc1plus: out of memory allocating 65536 bytes' >&2\n"
                        << "  exit 1\nfi\nexec g++ \"$@\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  auto compiler = HostCompiler::open(script);
  if (!compiler) {
    MESSAGE("skipped: " << take_report(compiler.takeError()).message);
    return;
  }
  const CompileJob job{scaled_source(), "sm_90a", {}};
  std::ofstream(full) << "";
  const ErrorReport report = failure(**compiler, job);
  CHECK(report.code == ErrorCode::kOutOfMemory);
  CHECK(has(report.message, "ran out of memory"));
  std::filesystem::remove(full);
  CHECK(!!(*compiler)->compile(job));
}

TEST_CASE("the first error of a log: every form") {
  const auto first = [](const char* log) { return first_host_error(log, "k"); };
  const auto gxx = first(
      "In file included from k.cu:1:\n"
      "smem/cp_async_tile.cuh: In instantiation of 'void f()':\n"
      "k.cu:12:5:   required from here\n"
      "smem/cp_async_tile.cuh:7:3: error: no x\n"
      "k.cu:13:5: error: no y\n");
  REQUIRE(gxx);
  CHECK(gxx->text == "no x");
  CHECK(gxx->file == "smem/cp_async_tile.cuh");
  CHECK(gxx->line == 7);
  CHECK(gxx->emitted_line == 12);
  const auto clang = first(
      "smem/cp_async_tile.cuh:7:3: error: no x\n"
      "k.cu:12:5: note: in instantiation of function template specialization 'f' requested here\n"
      "1 error generated.\n");
  REQUIRE(clang);
  CHECK(clang->emitted_line == 12);
  const auto linker = first(
      "/usr/bin/ld: /tmp/a.o: in function `kern':\n"
      "k.cu:(.text+0x7): undefined reference to `lost()'\n"
      "collect2: error: ld returned 1 exit status\n");
  REQUIRE(linker);
  CHECK(linker->text == "undefined reference to `lost()'");
  CHECK(linker->line == 0);
  const auto fatal = first("k.cu:1:10: fatal error: a.h: No such file or directory\n");
  REQUIRE(fatal);
  CHECK(fatal->emitted_line == 1);
  CHECK(fatal->text == "a.h: No such file or directory");
  CHECK_FALSE(first("k.cu:1:1: warning: unused\n"));
  CHECK_FALSE(first(""));
}

TEST_CASE("the key covers compiler, arch, options and both tables of headers") {
  for (const auto& compiler : compilers()) {
    const CompileOptions plain;
    const std::string text = compiler->option_text("sm_90a", plain);
    CHECK(compiler->option_text("sm_80", plain) != text);
    CHECK(compiler->option_text("sm_90a", {.line_info = true}) != text);
    CHECK(compiler->option_text("sm_90a", {.want_ptx = true}) == text);
    CHECK(has(compiler->header_digest(), std::string(templates_digest())));
    CHECK(has(compiler->header_digest(), std::string(shims_digest())));
    CHECK_FALSE(has(text, "/tmp"));
  }
  CHECK(templates_digest() != shims_digest());
  for (const EmbeddedTemplate& header : embedded_templates()) {
    CHECK_FALSE(has(std::string(header.name), "sim/"));
  }
  for (const EmbeddedTemplate& header : embedded_shims()) {
    CHECK(std::string(header.name).rfind("sim/", 0) == 0);
  }
}

TEST_CASE("one compile per key: memory, then disk") {
  if (compilers().empty()) return;
  const TempDir folder;
  EngineOptions options;
  options.backend = Backend::kHost;
  options.cache.directory = folder.path();
  const Target target = llvm::cantFail(find_target("h200"));
  {
    Engine engine(options);
    const auto first = llvm::cantFail(engine.compile(scaled_chain(), target));
    CHECK(first->buckets[0][0].cubin->arch == "host:sm_90a");
    CHECK(engine.cache().stats().misses == 1);
    const auto second = llvm::cantFail(engine.compile(scaled_chain(), target));
    CHECK(engine.cache().stats().misses == 1);
    CHECK(second->buckets[0][0].key == first->buckets[0][0].key);
    const auto other =
        llvm::cantFail(engine.compile(scaled_chain(), llvm::cantFail(find_target("a100"))));
    CHECK(other->buckets[0][0].cubin->arch == "host:sm_80");
    CHECK(engine.cache().stats().misses == 2);
  }
  Engine engine(options);
  llvm::cantFail(engine.compile(scaled_chain(), target));
  CHECK(engine.cache().stats().disk_hits == 1);
  CHECK(engine.cache().stats().misses == 0);
}

TEST_CASE("a config struct has padding inside or at its end, not both") {
  CHECK_FALSE(kEndsInPadding<Operand>);
  CHECK_FALSE(kEndsInPadding<MatrixOperand>);
  CHECK_FALSE(kEndsInPadding<Sm90Operand>);
  CHECK_FALSE(kEndsInPadding<ContractionSpace>);
  CHECK_FALSE(kEndsInPadding<RaggedGroups>);
  CHECK_FALSE(kEndsInPadding<GemmSm80Config>);
  CHECK_FALSE(kEndsInPadding<GemmSm80Schedule>);
  CHECK_FALSE(kEndsInPadding<GemmSm90Config>);
  CHECK_FALSE(kEndsInPadding<GemmSm90Schedule>);
  CHECK_FALSE(kEndsInPadding<GemmSm90Epilogue>);
  CHECK_FALSE(kEndsInPadding<SkinnyConfig>);
  CHECK_FALSE(kEndsInPadding<SkinnyLoads>);
  CHECK_FALSE(kEndsInPadding<PointwiseConfig>);
  CHECK_FALSE(kEndsInPadding<ReduceConfig>);
}

TEST_CASE("many threads compile at once") {
  const auto found = compilers();
  if (found.empty()) return;
  std::vector<std::thread> threads;
  std::vector<std::string> problems(4);
  for (size_t i = 0; i < problems.size(); ++i) {
    threads.emplace_back([&, i] {
      auto result = found.front()->compile({scaled_source(), "sm_90a", {}});
      problems[i] = result ? "" : take_report(result.takeError()).message;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) CHECK(problem == "");
}

TEST_CASE("child: compiles" * doctest::skip()) {
  auto result = llvm::cantFail(HostCompiler::get())->compile({scaled_source(), "sm_90a", {}});
  REQUIRE(static_cast<bool>(result));
  CHECK(files_in(std::getenv("TMPDIR")) > 10);
  // The folder is created again if it is removed.
  for (const auto& entry : std::filesystem::directory_iterator(std::getenv("TMPDIR"))) {
    std::filesystem::remove_all(entry.path());
  }
  CHECK(static_cast<bool>(
      llvm::cantFail(HostCompiler::get())->compile({scaled_source(), "sm_90a", {}})));
}

TEST_CASE("a process leaves no files") {
  if (compilers().empty()) return;
  const TempDir folder;
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("TMPDIR", folder.path().c_str(), 1);
    ::execl("/proc/self/exe", "host_compiler_test", "--test-case=child: compiles", "--no-skip",
            nullptr);
    ::_exit(127);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(files_in(folder.path()) == 0);
}
