// SPDX-License-Identifier: Apache-2.0
// The host's compiler as a program in the user's process: signals, other children, limits, the
// temporary folder, and what killed processes leave there.
#include "compiler/compile/host_process.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "compiler/compile/host_compiler.h"
#include "compiler/compile/scratch_folder.h"
#include "ir/temporary_folder.h"
#include "simulator/object.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using catenary::test::ScopedEnv;
using catenary::test::TempDir;
namespace fs = std::filesystem;

namespace {

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const char* const kKernel =
    "#include \"ptx/sync.cuh\"\n"
    "struct P { int* to; };\n"
    "extern \"C\" __global__ void kern(const __grid_constant__ P p) {\n"
    "  catenary::griddepcontrol_wait();\n"
    "}\n";

// What went wrong in finding a compiler and compiling by it; empty: nothing.
std::string compile_problem() {
  auto compiler = HostCompiler::open("g++");
  if (!compiler) return take_report(compiler.takeError()).message;
  auto result = (*compiler)->compile({{"kern", "", kKernel}, "sm_90a", {}});
  return result ? "" : take_report(result.takeError()).message;
}

bool skipped() {
  const std::string problem = compile_problem();
  if (!problem.empty()) MESSAGE("skipped: " << problem);
  return !problem.empty();
}

int files_in(const std::string& folder) {
  return static_cast<int>(std::distance(fs::recursive_directory_iterator(folder), {}));
}

// Runs `work` in a child, which ends without cleaning up if `killed`; `work` gives a problem.
template <typename Work>
void in_child(const std::string& folder, const Work& work, bool killed = false) {
  const std::string report = folder + ".report";
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string problem = work();
    std::ofstream(report) << problem;
    if (killed) ::raise(SIGKILL);
    std::exit(problem.empty() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  std::ifstream file(report);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  fs::remove(report);
  INFO(text);
  CHECK(text.empty());
  CHECK((killed ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

}  // namespace

TEST_CASE("a program's outputs and how it ended") {
  const ProcessResult both = run_process({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, 10);
  CHECK(both.status == 3);
  CHECK(both.output == "out\nerr\n");
  CHECK(run_process({"/bin/sh", "-c", "cat; echo $LC_ALL"}, 10).output == "C\n");
  const ProcessResult killed = run_process({"/bin/sh", "-c", "kill -9 $$"}, 10);
  CHECK(killed.status < 0);
  CHECK(has(killed.problem, "signal 9"));
  const ProcessResult none = run_process({"/nonexistent/cxx"}, 10);
  CHECK(none.status == -1);
  CHECK(has(none.problem, "No such file"));
  const ProcessResult late = run_process({"/bin/sh", "-c", "echo early; exec sleep 60"}, 1);
  CHECK(late.status < 0);
  CHECK(has(late.problem, "after 1 s"));
  CHECK(late.output == "early\n");
  const ProcessResult large = run_process({"/bin/sh", "-c", "yes | head -c 6000000; exit 0"}, 60);
  CHECK(large.status == 0);
  CHECK(large.output.size() == 4 << 20);
  // A grandchild that keeps the pipe open does not keep this process waiting.
  CHECK(run_process({"/bin/sh", "-c", "sleep 60 & echo $0 '$0'", "a;b"}, 30).output == "a;b $0\n");
}

TEST_CASE("SIGCHLD may be ignored, and signals may be blocked") {
  if (skipped()) return;
  const TempDir folder;
  in_child(folder.path(), [] {
    ::signal(SIGCHLD, SIG_IGN);
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    return compile_problem();
  });
}

TEST_CASE("a host that waits for all of its children does not take the compiler's status") {
  if (skipped()) return;
  const TempDir folder;
  in_child(folder.path(), [] {
    std::atomic<bool> stop{false};
    std::thread thief([&] {
      while (!stop) ::waitpid(-1, nullptr, WNOHANG);
    });
    const std::string problem = compile_problem();
    stop = true;
    thief.join();
    return problem;
  });
}

TEST_CASE("a limit of file sizes is an error, not a signal") {
  if (skipped()) return;
  const TempDir folder;
  in_child(folder.path(), [] {
    const rlimit limit = {4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const std::string problem = compile_problem();
    if (problem.empty()) return std::string("a compile within 4096 bytes");
    auto object = sim::Object::load(std::vector<u8>(10000));
    if (object) return std::string("an object of zeros");
    const std::string message = take_report(object.takeError()).message;
    return has(message, "File too large") ? "" : message;
  });
}

TEST_CASE("a compiler that is found and not used leaves no headers") {
  if (skipped()) return;
  const TempDir folder;
  const ScopedEnv where("TMPDIR", folder.path().c_str());
  in_child(folder.path(), [&] {
    auto compiler = HostCompiler::open("g++");
    if (!compiler) return take_report(compiler.takeError()).message;
    return files_in(folder.path()) == 0 ? std::string() : std::string("files were written");
  });
}

TEST_CASE("the folder of a killed process is removed by the next one, that of a live one is not") {
  const TempDir folder;
  const ScopedEnv where("TMPDIR", folder.path().c_str());
  const auto make = [] {
    auto made = header_folder();
    return made ? std::string() : take_report(made.takeError()).message;
  };
  in_child(folder.path(), make, /*killed=*/true);
  CHECK(files_in(folder.path()) > 10);
  Expected<ScratchFolder> own = ScratchFolder::make();
  REQUIRE(!!own);
  CHECK(files_in(folder.path()) == 1);  // that one
  in_child(folder.path(), make);
  CHECK(fs::exists(own->path()));
  CHECK(files_in(folder.path()) == 1);
  // A child of fork() leaves the folder to its parent.
  in_child(folder.path(), [&] {
    { const ScratchFolder moved = std::move(*own); }
    return std::string();
  });
  CHECK(fs::exists(own->path()));
  // Files of others are not touched.
  std::ofstream(folder / "catenary-host-file") << "x";
  fs::create_directory_symlink("/", folder / "catenary-host-link");
  in_child(folder.path(), make);
  CHECK(fs::exists(folder / "catenary-host-file"));
  CHECK(fs::is_symlink(folder / "catenary-host-link"));
}

TEST_CASE("a TMPDIR like an option is a folder") {
  if (skipped()) return;
  const TempDir folder;
  fs::create_directory(folder / "-x");
  in_child(folder.path(), [&] {
    if (::chdir(folder.path().c_str()) != 0) return std::string("chdir");
    ::setenv("TMPDIR", "-x", 1);
    if (!fs::path(temporary_folder()).is_absolute()) return "relative: " + temporary_folder();
    return compile_problem();
  });
}

TEST_CASE("the error names a folder that cannot be written") {
  const TempDir folder;
  in_child(folder.path(), [] {
    ::setenv("TMPDIR", "/nonexistent/tmp", 1);
    auto made = header_folder();
    if (made) return std::string("a folder was made");
    const ErrorReport report = take_report(made.takeError());
    const bool right = report.code == ErrorCode::kIo && has(report.message, "/nonexistent/tmp");
    return right ? "" : report.message;
  });
}
