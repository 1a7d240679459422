// SPDX-License-Identifier: Apache-2.0
// Writers of one cache folder are killed at random moments, two at a time: no entry is bad, what
// they leave is collected by the next writer, and no process outlives the one that was killed.
// `--kills=1000` for a long run.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/support/arguments.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/cli_command.h"

using namespace catenary;
using namespace catenary::test;

namespace {

namespace fs = std::filesystem;

constexpr int kKeys = 40;
constexpr size_t kBytes = 40'000;

// Writes entries until it is killed; removes some, so that there is always one to write. Ends with
// status 1 when it reads a wrong one.
[[noreturn]] void write_entries(const std::string& folder, unsigned seed) {
  std::mt19937 random(seed);
  for (;;) {
    CubinCache cache({.directory = folder, .warn = {}});
    for (int i = 0; i < 20; ++i) {
      const Sample sample(static_cast<int>(random() % kKeys), kBytes);
      auto got =
          cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> { return sample.cubin; });
      if (!got || **got != sample.cubin || cache.stats().corrupt > 0) ::_exit(1);
      if (random() % 4 == 0) llvm::consumeError(cache.remove({sample.key.hex()}).takeError());
    }
  }
}

// Two processes that `start` makes. One at a time is killed at a random moment and made again.
template <typename Start>
void kill_often(int kills, int longest_us, const Start& start) {
  std::mt19937 random(7);
  std::array<pid_t, 2> writers{};
  unsigned seed = 0;
  for (pid_t& writer : writers) writer = start(++seed);
  for (int i = 0; i < kills; ++i) {
    pid_t& writer = writers[i % 2];
    std::this_thread::sleep_for(
        std::chrono::microseconds(static_cast<int>(random() % static_cast<unsigned>(longest_us))));
    ::kill(writer, SIGKILL);
    int status = 0;
    REQUIRE(::waitpid(writer, &status, 0) == writer);
    CAPTURE(i);
    // It has ended by itself only where `start` makes one that ends, and then well.
    CHECK((WIFSIGNALED(status) || WEXITSTATUS(status) == 0));
    writer = start(++seed);
  }
  for (const pid_t writer : writers) {
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
  }
}

// As an hour later.
void make_old(const std::string& folder) {
  for (const std::string& path : files_below(folder)) {
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  }
}

// Waits for the processes that have come to this one since their parents were killed. False: one
// is still there after 20 s.
bool orphans_end() {
  for (int i = 0; i < 2000; ++i) {
    const pid_t ended = ::waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) return true;
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace

TEST_CASE("two writers of one cache, killed: no bad entry, no leftovers") {
  const TempDir dir;
  const std::string folder = dir / "cache";
  const int kills = static_cast<int>(argument("kills", 150));
  kill_often(kills, 20'000, [&](unsigned seed) {
    const pid_t child = ::fork();
    if (child == 0) write_entries(folder, seed);
    return child;
  });
  CubinCache reader({.directory = folder, .mode = CacheMode::kReadOnly, .warn = {}});
  const auto entries = llvm::cantFail(reader.list());
  CHECK_FALSE(entries.empty());
  for (const CacheEntryInfo& entry : entries) CHECK(entry.problem == "");
  CHECK(files_below(folder + "/v1/bad").empty());
  MESSAGE(kills << " kills left " << files_below(folder + "/v1/tmp").size()
                << " temporary files, which the next writer removes an hour later");
  for (const char* part : {"/v1/tmp", "/v1/locks"}) make_old(folder + part);
  Fixture next(folder);
  for (int number = 0; number < kKeys; ++number) {
    const Sample sample(number, kBytes);
    CHECK(*next.get(sample) == sample.cubin);
  }
  CHECK(next.warnings.empty());
  CHECK(files_below(folder + "/v1/tmp").empty());
  // The next writer's own locks; those of the killed ones are swept when a folder is opened.
  CHECK(files_below(folder + "/v1/locks").size() <= kKeys);
}

TEST_CASE("two commands that compile by a helper, killed: no process, no leftovers") {
  REQUIRE(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  Command command;
  const std::string chain = command.path("c.chain");
  std::ofstream(chain) << "chain c(input x: f32[64]) {\n  y = relu(x)\n  return y: f32\n}\n";
  const std::string tmp = command.path("tmp");
  fs::create_directory(tmp);
  const ScopedEnv fake("CATENARY_NVRTC", FAKE_NVRTC);
  const ScopedEnv helper("CATENARY_HELPER", "on");
  const ScopedEnv temporary("TMPDIR", tmp.c_str());
  const ScopedEnv cache("CATENARY_CACHE_DIR", command.path("cache").c_str());
  const int kills = static_cast<int>(argument("kills", 150)) / 10;
  kill_often(kills, 120'000, [&](unsigned seed) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    const std::string out = command.path("out" + std::to_string(seed % 2));
    const std::string log = command.path("log");
    ::dup2(::open(log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), STDOUT_FILENO);
    // Every arch is a kernel of its own.
    ::execl(CATENARY_COMMAND, "catenary", "compile", chain.c_str(), "--arch", "sm_80,sm_90a", "-o",
            out.c_str(), nullptr);
    ::_exit(9);
  });
  CHECK(orphans_end());
  const CommandResult next =
      command("compile '" + chain + "' --arch sm_80,sm_90a -o '" + command.path("out") + "'");
  CHECK_MESSAGE(next.exit_code == 0, next.err);
  CHECK(next.err == "");
  const CommandResult verify = command("cache verify");
  CHECK_MESSAGE(verify.exit_code == 0, verify.out);
  CHECK(files_below(tmp).empty());
}
