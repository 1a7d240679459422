// SPDX-License-Identifier: Apache-2.0
// The command compiles in a helper process: what a user sees when the helper is missing, when a
// compile hangs or crashes, and at Ctrl-C. A value's name is in the emitted source, so a chain can
// ask the fake NVRTC for a fault.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/cache_samples.h"
#include "tests/support/cli_command.h"

using namespace catenary::test;

namespace {

namespace fs = std::filesystem;

const std::string kFake = "CATENARY_NVRTC='" FAKE_NVRTC "' ";

// A chain whose one value has that name.
std::string write_chain(Command& command, const std::string& value) {
  const std::string path = command.path("c.chain");
  std::ofstream(path) << "chain c(input x: f32[64]) {\n  " << value << " = relu(x)\n  return "
                      << value << ": f32\n}\n";
  return "compile '" + path + "' --arch sm_90a -o '" + command.path("out") + "'";
}

// Waits for the children that have come to this process. False: one is there after 20 s.
bool children_end() {
  for (int i = 0; i < 2000; ++i) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) return true;
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("the helper beside the command is used, and doctor names it") {
  Command command;
  const CommandResult doctor = command("doctor", kFake);
  CHECK_MESSAGE(has(doctor.out, "in the helper process "), doctor.out);
  CHECK(has(command("doctor", kFake + "CATENARY_HELPER=off").out, "in the process of the command"));
  const CommandResult compiled = command(write_chain(command, "y"), kFake + "CATENARY_LOG=debug");
  CHECK_MESSAGE(compiled.exit_code == 0, compiled.err);
  CHECK(has(compiled.err, "catenary: debug: started helper "));
  CHECK(has(compiled.err, "catenary: info: chain 'c' planned for h200 (sm_90a)"));
}

TEST_CASE("a crash, a hang and no memory are one sentence each, and the command ends well") {
  Command command;
  expect_error(command(write_chain(command, "FAULT_CRASH"), kFake), 2,
               {"NVRTC crashed by signal 6", "[compile_failed]"});
  expect_error(command(write_chain(command, "FAULT_HANG"), kFake + "CATENARY_HELPER_SECONDS=1"), 3,
               {"NVRTC was ended after 1 s", "[compile_timeout]"});
  expect_error(
      command(write_chain(command, "FAULT_MEMORY"), kFake + "CATENARY_HELPER_MEMORY=600000000"), 3,
      {"ran out of memory", "[out_of_memory]"});
  CHECK(command(write_chain(command, "y"), kFake).exit_code == 0);
}

TEST_CASE("a missing helper: a warning by default, an error where it was asked for") {
  Command command;
  const std::string copy = command.path("catenary");
  fs::copy_file(CATENARY_COMMAND, copy);
  const TempDir folder;
  const CommandResult fallback = run_command(copy, folder, write_chain(command, "y"), kFake);
  CHECK_MESSAGE(fallback.exit_code == 0, fallback.err);
  CHECK(has(fallback.err, "catenary: warning: NVRTC runs in this process: the helper program"));
  CHECK(fallback.err.find('\n') == fallback.err.size() - 1);
  expect_error(run_command(copy, folder, write_chain(command, "z"), kFake + "CATENARY_HELPER=on"),
               3,
               {"the helper program catenary-nvrtc is in none of its places", "[nvrtc_missing]"});
  expect_error(command(write_chain(command, "z"), kFake + "CATENARY_HELPER=maybe"), 2,
               {"CATENARY_HELPER=maybe", "on, off"});
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("a limit of memory that lets no thread start says to raise it") {
  Command command;
  for (const char* bytes : {"1", "1000000", "20000000", "100000000"}) {
    CAPTURE(bytes);
    expect_error(
        command(write_chain(command, "y"), kFake + fmt::format("CATENARY_HELPER_MEMORY={}", bytes)),
        3, {"raise", "CATENARY_HELPER_MEMORY", "[out_of_memory]"});
  }
}
#endif

TEST_CASE("a program that is not the helper is named, with the variable that chose it") {
  Command command;
  for (const char* program : {"/bin/false", "/bin/cat", "/bin/true"}) {
    expect_error(command(write_chain(command, "y"), kFake + "CATENARY_HELPER=" + program), 3,
                 {std::string("in ") + program, "that program is not catenary-nvrtc of this build",
                  "set CATENARY_HELPER", "[nvrtc_missing]"});
  }
}

TEST_CASE("a helper beside the command that others may write is not started") {
  Command command;
  const std::string copy = command.path("catenary");
  const std::string helper = command.path("catenary-nvrtc");
  fs::copy_file(CATENARY_COMMAND, copy);
  fs::copy_file(CATENARY_HELPER_PROGRAM, helper);
  fs::permissions(copy, fs::perms(0755));
  const TempDir folder;
  for (const auto& [mode, started] : {std::pair{0755, true}, {0775, false}, {0757, false}}) {
    CAPTURE(mode);
    fs::permissions(helper, fs::perms(mode));
    const std::string out = run_command(copy, folder, "doctor", kFake).out;
    CHECK(has(out, "in the helper process " + helper) == started);
    CHECK(has(out, "in the process of the command") == !started);
  }
  // A build whose files are all of one group.
  fs::permissions(copy, fs::perms(0775));
  fs::permissions(helper, fs::perms(0775));
  CHECK(has(run_command(copy, folder, "doctor", kFake).out, "in the helper process " + helper));
}

TEST_CASE("Ctrl-C during a compile ends the command at once, and leaves no process and no file") {
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  Command command;
  const std::string arguments = write_chain(command, "FAULT_HANG");
  fs::create_directory(command.path("tmp"));
  const std::string line = fmt::format(
      "{} TMPDIR='{}' CATENARY_CACHE_DIR='{}' CATENARY_LOG=debug exec '{}' {} >'{}' 2>&1", kFake,
      command.path("tmp"), command.path("cache"), CATENARY_COMMAND, arguments, command.path("log"));
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGINT, SIG_DFL);
    ::execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    ::_exit(127);
  }
  // The key of the kernel is logged right before its compile.
  for (int i = 0; i < 2000 && !has(file_text(command.path("log")), " has key "); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  REQUIRE(::kill(child, SIGINT) == 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGINT);
  CHECK(children_end());
  CHECK(catenary::test::files_below(command.path("tmp")).empty());
  // The lock of the entry is free, and its file is swept an hour later.
  CHECK(catenary::test::files_below(command.path("cache/v1/tmp")).empty());
}
