// SPDX-License-Identifier: Apache-2.0
// The n-th call of one kind fails (failing_calls.c) while the command compiles, checks, runs and
// prunes: the result is right or one sentence says what failed, and the next run is right.
// `--full=1` tries every n; without it a few. `--call=<number>` tries one kind of kCalls.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "tests/support/arguments.h"
#include "tests/support/cli_command.h"

using namespace catenary;
using namespace catenary::test;

namespace {

namespace fs = std::filesystem;

constexpr const char* kCalls[] = {"open",   "read", "write", "fsync",
                                  "rename", "mmap", "spawn", "malloc"};

struct Scenario {
  std::string arguments;
  std::string environment;
  std::string program = "catenary";
  std::vector<std::string> outputs;  // in the folder: files that a run that succeeds has written
  bool cold = false;                 // without the cache of the run before
  bool slow = false;                 // without --full only calls that start programs fail
};

using Files = std::map<std::string, std::string>;

class Sweep {
 public:
  explicit Sweep(Scenario scenario) : scenario_(std::move(scenario)) {
    std::ofstream(command_.path("c.chain"))
        << "chain c(input x: f32[64]) {\n  y = relu(x)\n  return y: f32\n}\n";
    fs::create_directory(command_.path("tmp"));
  }

  bool works() {
    const CommandResult result = run("");
    if (result.exit_code != 0) {
      MESSAGE("skipped: " << result.err);
      return false;
    }
    wanted_ = outputs();
    return true;
  }

  void all_calls() {
    const u64 only = argument("call", std::size(kCalls));
    for (size_t i = 0; i < std::size(kCalls); ++i) {
      if (only != std::size(kCalls) && only != i) continue;
      const bool starts_program = std::string(kCalls[i]) == "spawn";
      if (scenario_.slow && argument("full", 0) == 0 && !starts_program) continue;
      for (const bool for_good : {false, true}) one_call(kCalls[i], for_good);
    }
  }

  int runs() const { return runs_; }

 private:
  void one_call(const std::string& call, bool for_good) {
    const bool full = argument("full", 0) != 0;
    for (long n = 1;; n = full || n < 2 ? n + 1 : 8 * n) {
      CAPTURE(call);
      CAPTURE(for_good);
      CAPTURE(n);
      fs::remove(command_.path("mark"));
      const CommandResult result = run(fmt::format(
          "LD_PRELOAD='{}' FAULT_PROGRAM={} FAULT_CALL={} FAULT_NTH={} {} FAULT_MARK='{}'",
          FAILING_CALLS, scenario_.program, call, n, for_good ? "FAULT_FOR_GOOD=1" : "",
          command_.path("mark")));
      expect_result_or_sentence(result);
      const bool came = command_.exists("mark");
      if (full || !came || n == 2) expect_next_run_is_right();
      if (!came) {
        CHECK(result.exit_code == 0);
        break;
      }
    }
  }

  void expect_result_or_sentence(const CommandResult& result) {
    CAPTURE(result.err);
    CAPTURE(result.exit_code);
    if (result.exit_code == 0) {
      CHECK((outputs() == wanted_));
      return;
    }
    CHECK((result.exit_code == 2 || result.exit_code == 3));
    const size_t at = result.err.find("error: ");
    CHECK(at != std::string::npos);
    // A stdout that cannot be written either is a failure of its own.
    const size_t second = result.err.find("error: ", at + 1);
    CHECK((second == std::string::npos ||
           result.err.find("standard output could not be written", second) == second + 7));
    CHECK_FALSE(has(result.err, "[internal]"));
  }

  void expect_next_run_is_right() {
    const CommandResult next = run("");
    CAPTURE(next.err);
    CHECK(next.exit_code == 0);
    CHECK((outputs() == wanted_));
  }

  CommandResult run(const std::string& faults) {
    ++runs_;
    for (const std::string& output : scenario_.outputs) fs::remove(command_.path(output));
    if (scenario_.cold) fs::remove_all(command_.path("cache"));
    return command_(in_folder(scenario_.arguments),
                    fmt::format("TMPDIR='{}' {} timeout -k 5 120 env {}", command_.path("tmp"),
                                scenario_.environment, faults));
  }

  // With @ for the folder.
  std::string in_folder(std::string text) const {
    for (size_t at = text.find('@'); at != std::string::npos; at = text.find('@')) {
      text.replace(at, 1, command_.path(""));
    }
    return text;
  }

  Files outputs() const {
    Files files;
    for (const std::string& output : scenario_.outputs) {
      files[output] = file_text(command_.path(output));
    }
    return files;
  }

  Scenario scenario_;
  Command command_;
  Files wanted_;
  int runs_ = 0;
};

void sweep(const Scenario& scenario) {
  Sweep all(scenario);
  if (!all.works()) return;
  all.all_calls();
  MESSAGE(scenario.program << " " << scenario.arguments << ": " << all.runs() << " runs");
}

const std::string kFake = "CATENARY_NVRTC='" FAKE_NVRTC "'";

}  // namespace

TEST_CASE("compile, in the command") {
  sweep({.arguments = "compile @c.chain --arch sm_90a -o @out",
         .environment = kFake + " CATENARY_HELPER=off",
         .outputs = {"out/sm_90a/c_k0.cu", "out/sm_90a/c_k0.cubin"},
         .cold = true});
}

TEST_CASE("compile, by a helper: calls of the command") {
  sweep({.arguments = "compile @c.chain --arch sm_90a -o @out",
         .environment = kFake + " CATENARY_HELPER=on",
         .outputs = {"out/sm_90a/c_k0.cu", "out/sm_90a/c_k0.cubin"},
         .cold = true});
}

TEST_CASE("compile, by a helper: calls of the helper") {
  sweep({.arguments = "compile @c.chain --arch sm_90a -o @out",
         .environment = kFake + " CATENARY_HELPER=on",
         .program = "catenary-nvrtc",
         .outputs = {"out/sm_90a/c_k0.cu", "out/sm_90a/c_k0.cubin"},
         .cold = true});
}

TEST_CASE("check, in the simulator") {
  sweep(
      {.arguments = "check @c.chain --device sim --schedules 1", .environment = "", .outputs = {}});
}

TEST_CASE("check, by a kernel that the host's compiler has yet to make") {
  sweep({.arguments = "check @c.chain --device sim --schedules 1",
         .environment = "",
         .outputs = {},
         .cold = true,
         .slow = true});
}

TEST_CASE("run, in the simulator") {
  sweep({.arguments = "run @c.chain --device sim --output y=@y.npy",
         .environment = "",
         .outputs = {"y.npy"}});
}

TEST_CASE("cache prune") {
  sweep({.arguments = "cache prune --max-size 0", .environment = "", .outputs = {}});
}
