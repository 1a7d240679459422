// SPDX-License-Identifier: Apache-2.0
// NVRTC in a helper process: the same bytes and keys as in this process; every way that a helper
// can end is one sentence with a code, and the next compile is right.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "compiler/compile/helper/nvrtc_helper.h"
#include "compiler/compile/nvrtc.h"
#include "compiler/emit/emit.h"
#include "ir/text/text.h"
#include "runtime/engine.h"
#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using catenary::test::ScopedEnv;
using catenary::test::TempDir;

namespace {

namespace fs = std::filesystem;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

HelperOptions required() {
  return {.use = HelperUse::kRequired, .program = CATENARY_HELPER_PROGRAM};
}

// A helper of its own for each distinct option: the number of seconds makes it one.
const NvrtcHelper& helper_with(HelperOptions options) {
  Expected<HelperOptions> all = with_environment(std::move(options));
  if (!all) FAIL(take_report(all.takeError()).message);
  auto helper = NvrtcHelper::get(*all);
  if (!helper) FAIL(take_report(helper.takeError()).message);
  return **helper;
}

CompileJob job_of(const std::string& body) { return {{"kern", "", body}, "sm_90a", {}}; }

ErrorReport failure(const KernelCompiler& compiler, const std::string& body) {
  auto result = compiler.compile(job_of(body));
  REQUIRE_FALSE(result);
  ErrorReport report = take_report(result.takeError());
  CHECK(report.message.find('\n') == std::string::npos);
  return report;
}

std::string problem_of(const KernelCompiler& compiler, const std::string& body = "") {
  auto result = compiler.compile(job_of(body));
  return result ? "" : take_report(result.takeError()).message;
}

// Whether a thread of it still runs: the first thread is a zombie while another still ends, and the
// files of the process are open until the last one has ended.
bool is_alive(pid_t process) {
  std::error_code gone;
  for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", process), gone)) {
    const std::string stat = test::file_text(thread.path() / "stat");
    const size_t end = stat.rfind(')');
    if (end != std::string::npos && end + 2 < stat.size() && stat[end + 2] != 'Z') return true;
  }
  return false;
}

// The running processes below this one, its own threads' children included.
std::set<pid_t> descendants(pid_t root) {
  std::set<pid_t> found;
  for (size_t before = 1, after = 0; before != after;) {
    before = found.size();
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (!std::all_of(name.begin(), name.end(), ::isdigit)) continue;
      std::string stat = test::file_text(entry.path() / "stat");
      const size_t end = stat.rfind(')');
      if (end == std::string::npos || end + 4 > stat.size()) continue;
      const pid_t parent = std::atoi(stat.c_str() + end + 4);
      if (parent != root && found.count(parent) == 0) continue;
      if (is_alive(std::stoi(name))) found.insert(std::stoi(name));
    }
    after = found.size();
  }
  return found;
}

// Whether `condition` becomes true within 20 s.
template <typename Condition>
bool becomes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

int exit_status(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("the same cubin, PTX, log, errors and key parts as in this process") {
  auto here = Nvrtc::get();
  if (!here) {
    MESSAGE("skipped: " << take_report(here.takeError()).message);
    return;
  }
  const NvrtcHelper& helper = helper_with(required());
  CHECK(helper.compiler_id() == (*here)->compiler_id());
  CHECK(helper.path() == (*here)->path());
  CHECK(helper.header_digest() == (*here)->header_digest());
  for (const char* arch : {"sm_80", "sm_90a", "sm_100f", "sm_10", "x"}) {
    CHECK(helper.supports(arch) == (*here)->supports(arch));
  }
  int kernels = 0;
  for (const char* name : {"linear", "scaled", "tf32_linear", "experts", "odd_linear"}) {
    const std::string text =
        test::file_text(fmt::format("{}/tests/chains/{}.chain", CATENARY_SOURCE_DIR, name));
    const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(text))));
    for (const char* arch : {"sm_80", "sm_90a"}) {
      const Plan plan = llvm::cantFail(make_plan(chain, llvm::cantFail(find_target(arch))));
      const KernelPlan& kernel = plan.buckets[0].kernels[0];
      const CompileJob job{emit(chain, plan, kernel), arch, {.line_info = true, .want_ptx = true}};
      CHECK(helper.option_text(arch, job.options) == (*here)->option_text(arch, job.options));
      const CompileResult inside = llvm::cantFail((*here)->compile(job));
      const CompileResult outside = llvm::cantFail(helper.compile(job));
      CHECK(inside.cubin == outside.cubin);
      CHECK(inside.ptx == outside.ptx);
      // The log has the times of ptxas.
      CHECK(outside.log.substr(0, 40) == inside.log.substr(0, 40));
      CHECK(outside.milliseconds > 0);
      ++kernels;
    }
  }
  CHECK(kernels == 10);
  CHECK(helper.started() == 1);
  const CompileJob wrong = job_of("int a = lost;  // %h = gelu %g\n");
  const ErrorReport inside = take_report((*here)->compile(wrong).takeError());
  const ErrorReport outside = take_report(helper.compile(wrong).takeError());
  CHECK(inside.code == outside.code);
  CHECK(inside.message == outside.message);
}

TEST_CASE("an engine's keys do not depend on where it compiles") {
  if (auto here = Nvrtc::get(); !here) {
    MESSAGE("skipped: " << take_report(here.takeError()).message);
    return;
  }
  const TempDir folder;
  const Target target = llvm::cantFail(find_target("h200"));
  const auto chain = [] {
    return llvm::cantFail(parse("chain c(input x: f32[64]) { y = relu(x) return y: f32 }"));
  };
  EngineOptions options;
  options.cache.directory = folder / "cache";
  options.helper = required();
  Engine outside(options);
  const auto first = llvm::cantFail(outside.compile(chain(), target));
  CHECK(outside.cache().stats().misses == 1);
  options.helper = {.use = HelperUse::kOff, .program = {}};
  Engine inside(options);
  const auto second = llvm::cantFail(inside.compile(chain(), target));
  CHECK(inside.cache().stats().disk_hits == 1);
  CHECK(first->buckets[0][0].key == second->buckets[0][0].key);
}

TEST_CASE("every way that a helper ends is one sentence, and the next compile is right") {
  const ScopedEnv fake("CATENARY_NVRTC", FAKE_NVRTC);
  HelperOptions options = required();
  options.memory_bytes = i64{600} << 20;
  options.seconds = 2;
  const NvrtcHelper& helper = helper_with(options);
  CHECK(helper.compiler_id() == "nvrtc 13.0.1 CL-1");
  REQUIRE(problem_of(helper) == "");
  CHECK(helper.started() == 1);

  const ErrorReport crash = failure(helper, "FAULT_CRASH");
  CHECK(crash.code == ErrorCode::kCompileFailed);
  CHECK_MESSAGE(has(crash.message, "kernel kern does not compile for sm_90a"), crash.message);
  CHECK_MESSAGE(has(crash.message, "crashed by signal 6"), crash.message);
  CHECK(problem_of(helper) == "");

  const ErrorReport hang = failure(helper, "FAULT_HANG");
  CHECK(hang.code == ErrorCode::kCompileTimeout);
  CHECK_MESSAGE(has(hang.message, "ended after 2 s"), hang.message);
  CHECK(problem_of(helper) == "");

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const ErrorReport memory = failure(helper, "FAULT_MEMORY");
  CHECK(memory.code == ErrorCode::kOutOfMemory);
  CHECK_MESSAGE(has(memory.message, "ran out of memory"), memory.message);
  CHECK(problem_of(helper) == "");
#endif

  const ErrorReport killed = failure(helper, "FAULT_KILLED");
  CHECK(killed.code == ErrorCode::kOutOfMemory);
  CHECK_MESSAGE(has(killed.message, "was killed"), killed.message);
  CHECK(problem_of(helper) == "");

  const ErrorReport status = failure(helper, "FAULT_EXIT");
  CHECK(status.code == ErrorCode::kCompilerEnded);
  CHECK_MESSAGE(has(status.message, "status 3"), status.message);
  CHECK(problem_of(helper) == "");
}

TEST_CASE("the cache keeps a crash, and no end that another try may not have") {
  const ScopedEnv fake("CATENARY_NVRTC", FAKE_NVRTC);
  HelperOptions options = required();
  options.seconds = 1;
  const NvrtcHelper& helper = helper_with(options);
  CubinCache cache({.directory = "off", .mode = CacheMode::kOff, .warn = {}});
  for (const auto& [fault, compiles] :
       {std::pair{"FAULT_CRASH", 1}, {"FAULT_HANG", 2}, {"FAULT_KILLED", 2}, {"FAULT_EXIT", 2}}) {
    KernelKey key;
    key.bytes[0] = static_cast<u8>(fault[6]);
    int compiled = 0;
    for (int i = 0; i < 2; ++i) {
      auto result = cache.get(key, "record", [&, fault = fault]() -> Expected<Cubin> {
        ++compiled;
        auto made = helper.compile(job_of(fault));
        if (!made) return made.takeError();
        return std::move(made->cubin);
      });
      REQUIRE_FALSE(result);
      llvm::consumeError(result.takeError());
    }
    CAPTURE(fault);
    CHECK(compiled == compiles);
  }
}

TEST_CASE("a helper is used again; one that ended while it was idle is replaced") {
  const ScopedEnv fake("CATENARY_NVRTC", FAKE_NVRTC);
  HelperOptions options = required();
  options.seconds = 101;
  const NvrtcHelper& helper = helper_with(options);
  for (int i = 0; i < 5; ++i) CHECK(problem_of(helper) == "");
  CHECK(helper.started() == 1);
  const std::set<pid_t> before = descendants(::getpid());
  for (const pid_t process : before) ::kill(process, SIGKILL);
  // Once the shell has ended, the helper is no descendant: each is waited for.
  CHECK(becomes_true([&] { return std::none_of(before.begin(), before.end(), is_alive); }));
  CHECK(problem_of(helper) == "");
  CHECK(helper.started() == 2);
  // It ends by itself, without a job.
  CHECK(becomes_true([&] { return descendants(::getpid()).empty(); }));
  CHECK(problem_of(helper) == "");
  CHECK(helper.started() == 3);
}

TEST_CASE("many threads compile in helpers of their own, and a child of fork in its own") {
  const ScopedEnv fake("CATENARY_NVRTC", FAKE_NVRTC);
  HelperOptions options = required();
  options.seconds = 102;
  const NvrtcHelper& helper = helper_with(options);
  std::vector<std::thread> threads;
  std::vector<std::string> problems(12, "not run");
  for (std::string& problem : problems) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) problem = problem_of(helper);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) CHECK(problem == "");
  CHECK(helper.started() <= 8);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(problem_of(helper).empty() && problem_of(helper).empty() ? 0 : 1);
  CHECK(exit_status(child) == 0);
  CHECK(problem_of(helper) == "");
}

TEST_CASE("a host that is killed during a compile leaves no process") {
  const ScopedEnv fake("CATENARY_NVRTC", FAKE_NVRTC);
  for (const int signal : {SIGKILL, SIGINT}) {
    const pid_t host = ::fork();
    if (host == 0) {
      ::signal(SIGINT, SIG_DFL);  // doctest has a handler
      HelperOptions options = required();
      options.seconds = 103;
      llvm::consumeError(helper_with(options).compile(job_of("FAULT_HANG")).takeError());
      ::_exit(0);
    }
    // The shell and the helper, and time for it to take the job.
    CHECK(becomes_true([&] { return descendants(host).size() == 2; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::set<pid_t> helpers = descendants(host);
    ::kill(host, signal);
    CHECK(exit_status(host) == -signal);
    CHECK(becomes_true([&] { return std::none_of(helpers.begin(), helpers.end(), is_alive); }));
  }
}

TEST_CASE("a host with SIGCHLD ignored, without standard streams, with a limit of memory") {
  const ScopedEnv fake("CATENARY_NVRTC", FAKE_NVRTC);
  const pid_t host = ::fork();
  if (host == 0) {
    ::signal(SIGCHLD, SIG_IGN);
    for (int file = 0; file < 3; ++file) ::close(file);
    HelperOptions options = required();
    options.seconds = 2;
    const HelperOptions all = llvm::cantFail(with_environment(options));
    auto helper = NvrtcHelper::get(all);
    if (!helper) ::_exit(1);
    if (!problem_of(**helper).empty()) ::_exit(2);
    auto crash = (*helper)->compile(job_of("FAULT_CRASH"));
    if (crash || take_report(crash.takeError()).code != ErrorCode::kCompileFailed) ::_exit(3);
    ::_exit(0);
  }
  CHECK(exit_status(host) == 0);
}

TEST_CASE("a helper that is not there, is of another build, or does not run") {
  const TempDir folder;
  const auto problem = [](const HelperOptions& options) {
    auto found = find_nvrtc(options, {});
    REQUIRE_FALSE(found);
    ErrorReport report = take_report(found.takeError());
    CHECK(report.code == ErrorCode::kNvrtcMissing);
    return report.message;
  };
  CHECK(has(problem({.use = HelperUse::kRequired, .program = "/nonexistent/x"}),
            "'/nonexistent/x' is not an executable file"));
  const std::string script = folder / "helper";
  std::ofstream(script) << "#!/nonexistent/interpreter\n";
  fs::permissions(script, fs::perms::owner_all);
  CHECK(has(problem({.use = HelperUse::kRequired, .program = script}), "does not run"));
  std::ofstream(script) << "#!/bin/sh\nexit 7\n";
  auto ended = find_nvrtc({.use = HelperUse::kRequired, .program = script}, {});
  REQUIRE_FALSE(ended);
  const ErrorReport report = take_report(ended.takeError());
  CHECK(report.code == ErrorCode::kNvrtcMissing);
  CHECK_MESSAGE(has(report.message, "it ended with status 7"), report.message);
  // Preferred: one warning, and this process compiles.
  std::string warning;
  auto here = find_nvrtc({.use = HelperUse::kPreferred, .program = "/nonexistent/x"},
                         [&](const std::string& line) { warning = line; });
  CHECK(has(warning, "NVRTC runs in this process: the helper program '/nonexistent/x'"));
  if (!here) llvm::consumeError(here.takeError());
}

TEST_CASE("the environment: on, off, a path, limits; nonsense is refused by name") {
  const ScopedEnv memory("CATENARY_HELPER_MEMORY", nullptr);
  const ScopedEnv seconds("CATENARY_HELPER_SECONDS", nullptr);
  const auto read = [](const char* value) {
    const ScopedEnv use("CATENARY_HELPER", value);
    return llvm::cantFail(with_environment(HelperOptions{}));
  };
  CHECK(read(nullptr).use == HelperUse::kOff);
  CHECK(read("off").use == HelperUse::kOff);
  CHECK(read("on").use == HelperUse::kRequired);
  CHECK(read("on").memory_bytes == kDefaultHelperMemory);
  CHECK(read("on").seconds == kDefaultHelperSeconds);
  CHECK(read("/a/b").program == "/a/b");
  const ScopedEnv use("CATENARY_HELPER", "on");
  for (const auto& [name, value] : {std::pair{"CATENARY_HELPER", "maybe"},
                                    {"CATENARY_HELPER_MEMORY", "4G"},
                                    {"CATENARY_HELPER_MEMORY", "0"},
                                    {"CATENARY_HELPER_SECONDS", "-1"},
                                    {"CATENARY_HELPER_SECONDS", "99999999999"}}) {
    const ScopedEnv wrong(name, value);
    auto options = with_environment(HelperOptions{});
    REQUIRE_FALSE(options);
    const ErrorReport report = take_report(options.takeError());
    CHECK(report.code == ErrorCode::kInvalidArgument);
    CHECK_MESSAGE(has(report.message, fmt::format("{}={}", name, value)), report.message);
  }
  const ScopedEnv more("CATENARY_HELPER_MEMORY", "1000000000");
  CHECK(llvm::cantFail(with_environment(HelperOptions{})).memory_bytes == 1'000'000'000);
}

TEST_CASE("started by hand, the helper says what it is for") {
  const TempDir folder;
  const test::CommandResult result =
      test::run_command(CATENARY_HELPER_PROGRAM, folder, "< /dev/null");
  CHECK(result.exit_code == kHelperNotStarted);
  CHECK(has(result.err, "compiles kernels for the Catenary library"));
}
