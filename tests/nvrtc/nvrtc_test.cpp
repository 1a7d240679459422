// SPDX-License-Identifier: Apache-2.0
// NVRTC: finding it in every layout, compiling, errors. Cases that compile need an NVRTC;
// with none on the machine at all they say so, with one that is not found they fail.
#include "compiler/compile/nvrtc.h"

#include <doctest/doctest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "compiler/compile/templates.h"
#include "tests/support/temp_dir.h"

namespace catenary {
namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;
using test::TempDir;

// Null, with a message, only where the machine has none.
const Nvrtc* nvrtc_or_skip() {
  auto nvrtc = Nvrtc::get();
  if (nvrtc) return *nvrtc;
  const ErrorReport report = take_report(nvrtc.takeError());
  const bool toolkit = fs::exists("/usr/local/cuda/lib64/libnvrtc.so.13") ||
                       fs::exists("/usr/local/cuda/lib64/libnvrtc.so.12") ||
                       std::getenv("CATENARY_NVRTC") != nullptr;
  CHECK_MESSAGE(!toolkit, report.message);
  CHECK(report.code == ErrorCode::kNvrtcMissing);
  MESSAGE("skipped: no NVRTC");
  return nullptr;
}

KernelSource source_of(std::string body, std::string symbol = "kern") {
  return {std::move(symbol), "", std::move(body)};
}

CompileJob job_of(std::string body, std::string arch = "sm_90a") {
  return {source_of(std::move(body)), std::move(arch), {}};
}

const char* const kGood =
    "extern \"C\" __global__ void kern(float* p, int n) {\n"
    "  __shared__ float s[64];\n"
    "  s[threadIdx.x] = p[threadIdx.x];\n"
    "  __syncthreads();\n"
    "  p[n] = s[63 - threadIdx.x];\n"
    "}\n";

// 200 values live over a barrier, at most 64 registers a thread.
const char* const kSpilling =
    "extern \"C\" __global__ void __launch_bounds__(1024) kern(float* p, int n) {\n"
    "  float a[200];\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 200; i++) a[i] = p[i * n + threadIdx.x];\n"
    "  __syncthreads();\n"
    "#pragma unroll\n"
    "  for (int i = 0; i < 200; i++) p[i * n + threadIdx.x] = a[i] * a[(i * 7) % 200];\n"
    "}\n";

// ptxas: C7508, setmaxnreg ignored, as the register count at entry is unknown.
const char* const kC75 =
    "extern \"C\" __global__ void kern(float* p) {\n"
    "  asm volatile(\"setmaxnreg.inc.sync.aligned.u32 64;\");\n"
    "  p[0] = 1.0f;\n"
    "}\n";

ErrorReport failure(const Nvrtc& nvrtc, const CompileJob& job) {
  auto result = nvrtc.compile(job);
  REQUIRE_FALSE(result);
  return take_report(result.takeError());
}

CompileResult success(const Nvrtc& nvrtc, const CompileJob& job) {
  auto result = nvrtc.compile(job);
  if (!result) FAIL(take_report(result.takeError()).message);
  return std::move(*result);
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_SUITE("search") {
  // Runs the case "child: ..." of this binary in a fresh process, where no NVRTC is loaded yet.
  int run_child(const char* name) {
    const pid_t child = ::fork();
    if (child == 0) {
      const std::string filter = std::string("--test-case=child: ") + name;
      ::execl("/proc/self/exe", "nvrtc_test", filter.c_str(), "--no-skip", nullptr);
      ::_exit(127);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // A folder laid out as the nvidia-cuda-nvrtc wheel is, holding copies of the library pair.
  bool make_wheel(const Nvrtc& nvrtc, const std::string& site) {
    const fs::path folder = site + "/nvidia/cu13/lib";
    const fs::path from = fs::canonical(nvrtc.path());
    fs::create_directories(folder);
    fs::copy_file(from, folder / "libnvrtc.so.13");
    for (const auto& file : fs::directory_iterator(from.parent_path())) {
      const std::string name = file.path().filename();
      if (name.starts_with("libnvrtc-builtins.so.") && !file.is_symlink()) {
        fs::copy_file(file.path(), folder / name);
        return true;
      }
    }
    return false;
  }

  TEST_CASE("a wheel's library pair compiles, wherever the wheel lies") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc || !has(nvrtc->compiler_id(), "nvrtc 13.")) return;
    TempDir dir;
    const std::string site = dir / "lib/python3.11/site-packages";
    REQUIRE(make_wheel(*nvrtc, site));
    ScopedEnv no_path("LD_LIBRARY_PATH", nullptr);
    ScopedEnv expected("CATENARY_TEST_EXPECTED", (site + "/nvidia/cu13/lib").c_str());
    {
      ScopedEnv chosen("CATENARY_NVRTC", (site + "/nvidia/cu13/lib").c_str());
      CHECK(run_child("compile with the chosen NVRTC") == 0);
    }
    {
      ScopedEnv chosen("CATENARY_NVRTC", site.c_str());
      CHECK(run_child("compile with the chosen NVRTC") == 0);
    }
    ScopedEnv chosen("CATENARY_NVRTC", nullptr);
    ScopedEnv venv("VIRTUAL_ENV", dir.path().c_str());
    const auto places = Nvrtc::search_places();
    CHECK(std::find(places.begin(), places.end(), site) != places.end());
    auto opened = Nvrtc::open(site);
    REQUIRE(opened);
    CHECK((*opened)->compiler_id() == nvrtc->compiler_id());
  }

  TEST_CASE("child: compile with the chosen NVRTC" * doctest::skip()) {
    const char* expected = std::getenv("CATENARY_TEST_EXPECTED");
    if (!expected) return;
    auto nvrtc = Nvrtc::get();
    if (!nvrtc) FAIL(take_report(nvrtc.takeError()).message);
    CHECK((*nvrtc)->path() == std::string(expected) + "/libnvrtc.so.13");
    CHECK_FALSE(success(**nvrtc, job_of(kGood)).cubin.image.empty());
    std::ifstream maps("/proc/self/maps");
    std::string line;
    bool own = false;
    while (std::getline(maps, line)) {
      if (!has(line, "libnvrtc-builtins")) continue;
      own = true;
      CHECK_MESSAGE(has(line, expected), line);
    }
    CHECK(own);
  }

  TEST_CASE("a wrong CATENARY_NVRTC is told, and nothing else is tried") {
    TempDir dir;
    ScopedEnv chosen("CATENARY_NVRTC", (dir / "absent").c_str());
    CHECK(Nvrtc::search_places() == std::vector<std::string>{dir / "absent"});
    CHECK(run_child("the chosen NVRTC is missing") == 0);
  }

  TEST_CASE("child: the chosen NVRTC is missing" * doctest::skip()) {
    const char* chosen = std::getenv("CATENARY_NVRTC");
    if (!chosen) return;
    auto nvrtc = Nvrtc::get();
    REQUIRE_FALSE(nvrtc);
    const ErrorReport report = take_report(nvrtc.takeError());
    CHECK(report.code == ErrorCode::kNvrtcMissing);
    for (const char* part :
         {chosen, "set CATENARY_NVRTC", "toolkit", "pip install nvidia-cuda-nvrtc"}) {
      CHECK_MESSAGE(has(report.message, part), report.message);
    }
  }

  TEST_CASE("places come in the documented order") {
    TempDir dir;
    fs::create_directories(dir / "home/.local/lib/python3.9/site-packages");
    fs::create_directories(dir / "conda/lib/python3.12/site-packages");
    ScopedEnv chosen("CATENARY_NVRTC", nullptr);
    ScopedEnv folders("CATENARY_NVRTC_PATH", "/wheels/a::/wheels/b");
    ScopedEnv cuda_home("CUDA_HOME", "/toolkit/a");
    ScopedEnv cuda_path("CUDA_PATH", "/toolkit/b");
    ScopedEnv venv("VIRTUAL_ENV", nullptr);
    ScopedEnv conda("CONDA_PREFIX", (dir / "conda").c_str());
    ScopedEnv home("HOME", (dir / "home").c_str());
    const auto places = Nvrtc::search_places();
    const std::vector<std::string> documented = {"this process",
                                                 "/wheels/a",
                                                 "/wheels/b",
                                                 "the loader's path",
                                                 "/toolkit/a",
                                                 "/toolkit/b",
                                                 "/usr/local/cuda",
                                                 dir / "conda/lib/python3.12/site-packages",
                                                 dir / "home/.local/lib/python3.9/site-packages"};
    REQUIRE(places.size() >= documented.size());
    CHECK(std::vector(places.begin(), places.begin() + 9) == documented);
  }

  TEST_CASE("an empty folder, a text file and another library are no NVRTC") {
    TempDir dir;
    std::ofstream(dir / "libnvrtc.so.13") << "not a library\n";
    fs::create_directory(dir / "empty");
    for (const std::string& path : {dir / "empty", dir / "absent", dir / "libnvrtc.so.13",
                                    dir.path(), std::string("libc.so.6")}) {
      CAPTURE(path);
      auto nvrtc = Nvrtc::open(path);
      REQUIRE_FALSE(nvrtc);
      const ErrorReport report = take_report(nvrtc.takeError());
      CHECK(report.code == ErrorCode::kNvrtcMissing);
      CHECK_MESSAGE(has(report.message, path), report.message);
    }
  }
}

TEST_SUITE("compile") {
  TEST_CASE("the compiler id names the full build") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    int major, minor, patch, change;
    CHECK(std::sscanf(nvrtc->compiler_id().c_str(), "nvrtc %d.%d.%d CL-%d", &major, &minor, &patch,
                      &change) == 4);
    CHECK((major == 12 || major == 13));
  }

  TEST_CASE("a good kernel: cubin, resources, PTX, and no word of complaint") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    for (const bool line_info : {false, true}) {
      CompileJob job = job_of(kGood);
      job.options.line_info = line_info;
      job.options.want_ptx = true;
      const CompileResult result = success(*nvrtc, job);
      CHECK(result.cubin.symbol == "kern");
      CHECK(result.cubin.arch == "sm_90a");
      CHECK(result.cubin.compiler_id == nvrtc->compiler_id());
      CHECK(std::string(result.cubin.image.begin() + 1, result.cubin.image.begin() + 4) == "ELF");
      CHECK(result.cubin.resources.registers > 0);
      CHECK(result.cubin.resources.static_smem_bytes == 256);
      CHECK(result.cubin.resources.spill_bytes == 0);
      CHECK(has(result.ptx, ".target sm_90a"));
      CHECK(result.ptx.find('\0') == std::string::npos);
      for (const char* word : {"warning", "error", "deprecated", "ignored"}) {
        CHECK_MESSAGE(!has(result.log, word), result.log);
      }
      // Nothing of this run, such as a path or a time, is in the machine code.
      CHECK(success(*nvrtc, job).cubin == result.cubin);
    }
  }

  TEST_CASE("every architecture that is supported compiles, every other is refused by name") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
      REQUIRE(nvrtc->supports(arch));
      CHECK(success(*nvrtc, job_of(kGood, arch)).cubin.arch == arch);
    }
    for (const char* arch : {"sm_20", "sm_80a", "sm_90b", "sm_", "90a", "", "sm_90a -x"}) {
      CAPTURE(arch);
      CHECK_FALSE(nvrtc->supports(arch));
      const ErrorReport report = failure(*nvrtc, job_of(kGood, arch));
      CHECK(report.code == ErrorCode::kUnsupported);
      CHECK(has(report.message, std::string("for ") + arch + ":"));
      CHECK(has(report.message, "sm_90"));
    }
  }

  TEST_CASE("an error names the kernel, the place and the value, then gives the log") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    const ErrorReport report =
        failure(*nvrtc, job_of("extern \"C\" __global__ void kern(float* p) {\n"
                               "  float v0 = p[0];       // %g = input\n"
                               "  float v1 = bogus(v0);  // %h = gelu %g\n"
                               "  p[0] = v1;\n}\n"));
    CHECK(report.code == ErrorCode::kCompileFailed);
    CHECK(first_line(report.message) ==
          "kernel kern does not compile for sm_90a: kern.cu(3): value %h: identifier \"bogus\" is "
          "undefined");
    CHECK(has(report.message, "\nkern.cu(3): error:"));
  }

  TEST_CASE("an error inside a template leads to the value that used it") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    const ErrorReport report =
        failure(*nvrtc, job_of("template <int N> struct Ring {\n"
                               "  static_assert(N > 3, \"too few stages\");\n};\n"
                               "extern \"C\" __global__ void kern(float* p) {\n"
                               "  *p = sizeof(Ring<2>);  // %acc = contract %x, %w\n}\n"));
    CHECK(has(first_line(report.message), "kern.cu(2): value %acc: static assertion failed"));
  }

  TEST_CASE("ptxas' error is found where -v hides it") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    const ErrorReport report =
        failure(*nvrtc, job_of("extern \"C\" __global__ void kern(float* p) {\n"
                               "  __shared__ float q[100000];\n  q[threadIdx.x] = 1;\n"
                               "  __syncthreads();\n  p[0] = q[3];\n}\n"));
    CHECK(report.code == ErrorCode::kCompileFailed);
    CHECK_MESSAGE(has(first_line(report.message), "uses too much shared data"), report.message);
  }

  TEST_CASE("a spill is a failure unless it is allowed") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    CompileJob job = job_of(kSpilling);
    job.options.allow_spills = true;
    const KernelResources used = success(*nvrtc, job).cubin.resources;
    CHECK(used.spill_bytes > 0);
    CHECK(used.stack_bytes > 0);
    CHECK(used.registers <= 64);
    job.options.allow_spills = false;
    const ErrorReport report = failure(*nvrtc, job);
    CHECK(report.code == ErrorCode::kKernelRejected);
    CHECK(has(report.message, "kernel kern spills " + std::to_string(used.spill_bytes) + " bytes"));
  }

  TEST_CASE("a C75xx warning is a failure unless it is allowed") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    CompileJob job = job_of(kC75);
    const ErrorReport report = failure(*nvrtc, job);
    CHECK(report.code == ErrorCode::kKernelRejected);
    CHECK_MESSAGE(has(report.message, "C75"), report.message);
    CHECK(has(report.message, "kernel kern"));
    job.options.allow_spills = true;
    CHECK(has(success(*nvrtc, job).log, "C75"));
  }

  TEST_CASE("a source without its kernel, an empty one and a huge one are refused") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    for (const char* body : {"", "extern \"C\" __global__ void other() {}\n"}) {
      const ErrorReport report = failure(*nvrtc, job_of(body));
      CHECK(report.code == ErrorCode::kCompileFailed);
      CHECK(has(report.message, "kernel kern"));
    }
    const ErrorReport report = failure(*nvrtc, job_of(std::string((4 << 20) + 1, ' ')));
    CHECK(report.code == ErrorCode::kResourceLimit);
    CHECK(has(report.message, "kern has 4194305 bytes"));
  }

  TEST_CASE("every embedded header compiles on its own, by its name, with no include path") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    std::vector<CompileJob> jobs;
    for (const EmbeddedTemplate& header : embedded_templates()) {
      if (std::string_view(header.name).ends_with(".def")) continue;
      jobs.push_back(job_of(std::string("#include \"") + header.name + "\"\n" + kGood));
    }
    REQUIRE_FALSE(jobs.empty());
    for (auto& result : nvrtc->compile_all(jobs)) {
      if (!result) CHECK_MESSAGE(false, take_report(result.takeError()).message);
    }
    const ErrorReport report = failure(*nvrtc, job_of("#include \"absent.cuh\"\n"));
    CHECK(has(first_line(report.message), "absent.cuh"));
  }

  TEST_CASE("many jobs: every one's own result, in order, errors among them") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    std::vector<CompileJob> jobs;
    for (int i = 0; i < 12; ++i) {
      const std::string name = "kern" + std::to_string(i);
      const std::string body = "extern \"C\" __global__ void " + name + "(float* p) { p[" +
                               std::to_string(i) + "] = " + (i % 5 == 4 ? "x" : "1") + "; }\n";
      jobs.push_back({source_of(body, name), i % 2 ? "sm_80" : "sm_90a", {}});
    }
    for (int threads : {0, 1, 3, 100}) {
      auto results = nvrtc->compile_all(jobs, threads);
      REQUIRE(results.size() == jobs.size());
      for (size_t i = 0; i < jobs.size(); ++i) {
        if (i % 5 == 4) {
          REQUIRE_FALSE(results[i]);
          const ErrorReport report = take_report(results[i].takeError());
          CHECK(has(report.message, "kernel kern" + std::to_string(i) + " "));
        } else {
          REQUIRE(results[i]);
          CHECK(results[i]->cubin.symbol == jobs[i].source.symbol);
          CHECK(results[i]->cubin.arch == jobs[i].arch);
        }
      }
    }
    CHECK(nvrtc->compile_all({}).empty());
  }

  TEST_CASE("a caller with a stack of 64 KiB can compile") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (!nvrtc) return;
    struct Call {
      const Nvrtc* nvrtc;
      bool good = false;
    } call{nvrtc};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    REQUIRE(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
    pthread_t thread;
    auto body = [](void* argument) -> void* {
      auto* call = static_cast<Call*>(argument);
      auto result = call->nvrtc->compile(job_of(kGood));
      call->good = static_cast<bool>(result);
      if (!result) llvm::consumeError(result.takeError());
      return nullptr;
    };
    REQUIRE(pthread_create(&thread, &attributes, body, &call) == 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    CHECK(call.good);
  }

  TEST_CASE("the option text is what the machine code depends on") {
    const Nvrtc* nvrtc = nvrtc_or_skip();
    if (nvrtc == nullptr) return;
    const CompileOptions plain;
    const std::string text = nvrtc->option_text("sm_90a", plain);
    CHECK(has(text, "-std=c++20\n"));
    CHECK(has(text, "-arch=sm_90a\n"));
    CHECK_FALSE(has(text, "-lineinfo"));
    CHECK(nvrtc->option_text("sm_80", plain) != text);
    CHECK(nvrtc->option_text("sm_90a", {.line_info = true}) != text);
    CHECK(nvrtc->option_text("sm_90a", {.allow_spills = true}) != text);
    CHECK(nvrtc->option_text("sm_90a", {.want_ptx = true}) == text);
  }
}

}  // namespace
}  // namespace catenary
