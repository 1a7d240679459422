// SPDX-License-Identifier: Apache-2.0
// The log: levels, callback and stderr, many threads; it changes no result.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "catenary/catenary.hpp"
#include "ir/log.h"
#include "ir/text/text.h"
#include "runtime/engine.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/command.h"
#include "tests/support/temp_dir.h"

using namespace catenary;
using catenary::test::ScopedEnv;
using catenary::test::TempDir;

namespace {

struct Line {
  ctn::LogLevel level;
  std::string text;
};

// The lines of the log while it lives.
class Captured {
 public:
  explicit Captured(ctn::LogLevel level) {
    ctn::set_log(
        [this](ctn::LogLevel at, const char* line) {
          lines.push_back({at, line});
        },
        level);
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  ~Captured() {
    ctn::set_log([](ctn::LogLevel, const char*) {}, ctn::LogLevel::off);
  }

  // How many lines hold `part`.
  int count(const std::string& part) const {
    return static_cast<int>(std::count_if(lines.begin(), lines.end(), [&](const Line& line) {
      return line.text.find(part) != std::string::npos;
    }));
  }

  std::vector<Line> lines;
};

// What a child of fork writes to stderr while it runs `body`.
template <typename Body>
std::string stderr_of(const Body& body) {
  const TempDir folder;
  const std::string path = folder / "stderr";
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600), STDERR_FILENO);
    body();
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  return test::file_text(path);
}

// Logs after the statics of all functions are destroyed, as a thread that still runs may do.
struct LastOfProcess {
  ~LastOfProcess() {
    if (!armed) return;
    log_event(LogLevel::kInfo, "at the end");
    ::_exit(lines == 1 && !callback_destroyed ? 0 : 1);
  }
  bool armed = false;
  int lines = 0;
  bool callback_destroyed = false;
} last;

}  // namespace

TEST_CASE("an engine logs what it planned, where each kernel is from, and why") {
  const TempDir folder;
  EngineOptions options;
  options.backend = Backend::kHost;
  options.cache.directory = folder / "cache";
  const auto compile = [&](Engine& engine) {
    auto chain = llvm::cantFail(parse("chain c(input x: f32[8]) { y = relu(x) return y: f32 }"));
    auto compiled = engine.compile(std::move(chain), llvm::cantFail(find_target("a100")));
    if (compiled) return true;
    const ErrorReport report = take_report(compiled.takeError());
    REQUIRE(report.code == ErrorCode::kHostCompilerMissing);
    MESSAGE("skipped: " << report.message);
    return false;
  };
  {
    const Captured log(ctn::LogLevel::debug);
    Engine engine(options);
    if (!compile(engine)) return;
    CHECK(log.count("chain 'c' planned for a100 (sm_80): 1 kernel in 1 bucket") == 1);
    CHECK(log.count(" compiled in ") == 1);
    CHECK(log.count(" has key ") == 1);
    // Another look, with the lock of the entry.
    CHECK(log.count("no entry " + options.cache.directory) == 2);
    CHECK(log.count("wrote entry " + options.cache.directory) == 1);
    REQUIRE(compile(engine));
    CHECK(log.count(" found in memory in ") == 1);
    for (const Line& line : log.lines) {
      CHECK(line.text.find('\n') == std::string::npos);
      CHECK((line.level == ctn::LogLevel::info || line.level == ctn::LogLevel::debug));
    }
  }
  const Captured log(ctn::LogLevel::info);
  Engine engine(options);
  REQUIRE(compile(engine));
  CHECK(log.count(" found on disk in ") == 1);
  CHECK(log.lines.size() == 2);  // the plan and the kernel; no line of debug
}

TEST_CASE("a warning goes to the engine's callback, or else to the log") {
  const TempDir folder;
  const std::string file = folder / "file";
  test::write_file(file, {1});
  const Captured log(ctn::LogLevel::warn);
  int warnings = 0;
  {
    const CubinCache cache({.directory = file, .warn = [&](const std::string&) { ++warnings; }});
    CHECK(cache.directory() == "");
  }
  CHECK(warnings == 1);
  CHECK(log.lines.empty());
  const CubinCache cache({.directory = file, .warn = {}});
  REQUIRE(log.lines.size() == 1);
  CHECK(log.lines[0].level == ctn::LogLevel::warn);
  CHECK(log.count(file) == 1);
}

TEST_CASE("CATENARY_LOG says the level; lines go to stderr; nonsense is told once") {
  const auto logged = [](const char* value) {
    const ScopedEnv level("CATENARY_LOG", value);
    return stderr_of([] {
      reset_log();
      log_event(LogLevel::kDebug, "a {}", 1);
      log_event(LogLevel::kInfo, "b\n{}", "c\nd");
      log_event(LogLevel::kWarn, "e");
    });
  };
  CHECK(logged(nullptr) == "");
  CHECK(logged("off") == "");
  CHECK(logged("warn") == "catenary: warning: e\n");
  CHECK(logged("info") == "catenary: info: b\\x0ac\\x0ad\ncatenary: warning: e\n");
  CHECK(logged("debug") ==
        "catenary: debug: a 1\ncatenary: info: b\\x0ac\\x0ad\ncatenary: warning: e\n");
  CHECK(logged("loud") ==
        "catenary: warning: CATENARY_LOG=loud is not usable: give off, warn, info or debug\n"
        "catenary: warning: e\n");
}

TEST_CASE("a callback may throw, use the library, or replace itself") {
  ctn::set_log([](ctn::LogLevel, const char*) { throw 1; }, ctn::LogLevel::debug);
  log_event(LogLevel::kInfo, "lost");
  int calls = 0;
  ctn::set_log(
      [&](ctn::LogLevel, const char*) {
        ++calls;
        log_event(LogLevel::kWarn, "from within");
      },
      ctn::LogLevel::debug);
  log_event(LogLevel::kInfo, "one");
  CHECK(calls == 1);
  static int replaced = 0;
  CHECK(ctn_set_log(
            [](void*, ctn_log_level, const char*) {
              ++replaced;
              ctn_set_log(nullptr, nullptr, CTN_LOG_OFF);
            },
            nullptr, CTN_LOG_INFO) == CTN_OK);
  log_event(LogLevel::kInfo, "one");
  log_event(LogLevel::kInfo, "two");
  CHECK(replaced == 1);
  CHECK(ctn_set_log(nullptr, nullptr, 4) == CTN_INVALID_ARGUMENT);
  CHECK(std::string(ctn_last_error()).find("level is 4") != std::string::npos);
}

TEST_CASE("lines of many threads come one at a time, all of them, while the callback changes") {
  int first = 0, second = 0, inside = 0;
  const auto counting = [&inside](int& count) {
    return [&](ctn::LogLevel, const char*) {
      CHECK(++inside == 1);
      ++count;
      --inside;
    };
  };
  ctn::set_log(counting(first), ctn::LogLevel::info);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 500; ++i) log_event(LogLevel::kInfo, "line {}", i);
    });
  }
  ctn::set_log(counting(second), ctn::LogLevel::info);
  for (std::thread& thread : threads) thread.join();
  ctn::set_log([](ctn::LogLevel, const char*) {}, ctn::LogLevel::off);
  CHECK(first + second == 8 * 500);
}

TEST_CASE("a stderr that cannot be written loses the lines and nothing else") {
  const ScopedEnv level("CATENARY_LOG", "debug");
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(STDERR_FILENO);
    reset_log();
    log_event(LogLevel::kInfo, "lost");
    ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO);
    log_event(LogLevel::kInfo, "lost");
    int pipe[2];
    if (::pipe(pipe) != 0) ::_exit(1);
    ::dup2(pipe[1], STDERR_FILENO);
    ::close(pipe[0]);
    log_event(LogLevel::kInfo, "lost");  // no SIGPIPE
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("a callback of C++ lives until the process ends") {
  const pid_t child = ::fork();
  if (child == 0) {
    last.armed = true;
    struct Captured {
      ~Captured() { last.callback_destroyed = true; }
    };
    ctn::set_log(
        [held = std::make_shared<Captured>()](ctn::LogLevel, const char*) { ++last.lines; },
        ctn::LogLevel::info);
    std::exit(2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("a callback may wait for a thread that logs: its line comes next") {
  std::vector<std::string> lines;
  {
    ctn::set_log(
        [&](ctn::LogLevel, const char* line) {
          lines.push_back(line);
          if (lines.size() > 1) return;
          std::thread([] { log_event(LogLevel::kInfo, "two"); }).join();
          CHECK(lines.size() == 1);
        },
        ctn::LogLevel::info);
    log_event(LogLevel::kInfo, "one");
    ctn::set_log([](ctn::LogLevel, const char*) {}, ctn::LogLevel::off);
  }
  CHECK(lines == std::vector<std::string>{"one", "two"});
}

TEST_CASE("a callback may ask for the kernel that it is told about") {
  const TempDir folder;
  const test::Sample sample(1);
  const auto compile = [&]() -> Expected<Cubin> { return sample.cubin; };
  const auto options = [&](std::function<void(const std::string&)> warn) {
    return CacheOptions{.directory = folder / "cache", .warn = std::move(warn)};
  };
  std::unique_ptr<CubinCache> cache;
  int asked = 0;
  const auto ask = [&] {
    if (cache == nullptr || asked++ > 0) return;
    CHECK(!!cache->get(sample.key, sample.record, compile));
  };
  cache = std::make_unique<CubinCache>(options({}));
  ctn::set_log([&](ctn::LogLevel, const char*) { ask(); }, ctn::LogLevel::debug);
  CHECK(!!cache->get(sample.key, sample.record, compile));
  ctn::set_log([](ctn::LogLevel, const char*) {}, ctn::LogLevel::off);
  CHECK(asked > 0);
  // The same for a warning: the entry is damaged.
  test::write_file(folder / "cache/v1/" + CacheDirectory::entry_name(sample.key), {1});
  asked = 0;
  cache = std::make_unique<CubinCache>(options([&](const std::string&) { ask(); }));
  CHECK(!!cache->get(sample.key, sample.record, compile));
  CHECK(asked > 0);
}
