// SPDX-License-Identifier: Apache-2.0
// fork() and compiling: a child whose parent compiled at that moment refuses with a sentence; any
// other child compiles.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <future>
#include <thread>

#include "compiler/compile/nvrtc.h"
#include "ir/text/text.h"
#include "runtime/engine.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using catenary::test::TempDir;

namespace {

Chain chain() {
  return llvm::cantFail(
      parse("chain forked(input x: f32[64]) {\n  y = relu(x)\n  return y: f32\n}\n"));
}

// The message of a compile in this process; empty: it was compiled.
std::string compile_problem(Engine& engine) {
  auto compiled = engine.compile(chain(), llvm::cantFail(find_target("a100")));
  if (compiled) return "";
  const ErrorReport report = take_report(compiled.takeError());
  return std::string(error_code_name(report.code)) + ": " + report.message;
}

// Whether a child of fork() finds `part` in its problem ("": it compiles) within 30 s.
bool child_finds(Engine& engine, const std::string& part) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);
    const std::string problem = compile_problem(engine);
    const bool right = part.empty() ? problem.empty() : problem.find(part) != std::string::npos;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status == 0;
}

bool skipped() {
  auto nvrtc = Nvrtc::get();
  if (nvrtc) return false;
  llvm::consumeError(nvrtc.takeError());
  MESSAGE("skipped: no NVRTC");
  return true;
}

void damage(const std::string& folder) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) std::filesystem::resize_file(entry.path(), 100);
  }
}

}  // namespace

TEST_CASE("a child forked during another thread's compile refuses, other children compile") {
  if (skipped()) return;
  const TempDir folder;
  EngineOptions options;
  options.cache.directory = folder / "cache";
  {
    Engine first(options);
    REQUIRE(compile_problem(first) == "");
    CHECK(child_finds(first, ""));
  }
  damage(folder / "cache");
  // The thread stops in the warning of the damaged entry: it leads the compile of that key.
  std::promise<void> stopped;
  std::promise<void> go_on;
  options.cache.warn = [&](const std::string&) {
    stopped.set_value();
    go_on.get_future().wait();
  };
  Engine engine(options);
  std::string problem = "not run";
  std::thread compiles([&] { problem = compile_problem(engine); });
  stopped.get_future().wait();
  CHECK(child_finds(engine, "invalid_argument: this process was forked while another thread"));
  go_on.set_value();
  compiles.join();
  CHECK(problem == "");
  CHECK(child_finds(engine, ""));
}
