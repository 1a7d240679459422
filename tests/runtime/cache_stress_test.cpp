// SPDX-License-Identifier: Apache-2.0
// Many threads and processes on one cache: no torn read, one compile per key and process, the same
// value or the same error for all callers.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "runtime/cache/single_flight.h"
#include "tests/support/cache_fixture.h"
#include "tests/support/temp_dir.h"

namespace catenary {
namespace {

using test::fast_folder;
using test::Sample;
using test::TempDir;

constexpr int kProcesses = 4;
constexpr int kThreads = 4;
constexpr int kKeys = 20;
constexpr auto kDuration = std::chrono::milliseconds(2000);

struct Tally {
  std::atomic<int> gets{0};
  std::atomic<int> wrong{0};
};

// Gets random keys, with a new cache every 50 times so that memory does not hide the disk;
// sometimes prunes entries that others read.
void work_on(const std::string& folder, const std::vector<Sample>& samples, unsigned seed,
             FileSystem& files, Tally& tally, std::atomic<int>& corrupt) {
  std::mt19937 random(seed);
  const auto end = std::chrono::steady_clock::now() + kDuration;
  while (std::chrono::steady_clock::now() < end) {
    CubinCache cache({.directory = folder, .warn = {}, .file_system = &files});
    for (int i = 0; i < 50; ++i) {
      const Sample& sample = samples[random() % samples.size()];
      auto got =
          cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> { return sample.cubin; });
      ++tally.gets;
      if (!got) {
        llvm::consumeError(got.takeError());
        ++tally.wrong;
      } else if (**got != sample.cubin) {
        ++tally.wrong;
      }
      if (random() % 64 == 0) llvm::consumeError(cache.prune(60'000).takeError());
    }
    corrupt += static_cast<int>(cache.stats().corrupt);
  }
}

// Not FaultyFiles: its counters belong to one thread.
class Unsynced : public FileSystem {
  int fsync(int) override { return 0; }
};

// The threads of one process; the exit code says what failed.
int run_process(const std::string& folder, const std::vector<Sample>& samples, unsigned seed) {
  Unsynced files;
  Tally tally;
  std::atomic<int> corrupt{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back(
        [&, t] { work_on(folder, samples, seed * 100 + t, files, tally, corrupt); });
  }
  for (std::thread& thread : threads) thread.join();
  if (tally.wrong > 0) return 1;
  if (corrupt > 0) return 2;
  return tally.gets > 0 ? 0 : 3;
}

TEST_CASE("four processes of four threads on one folder read nothing torn") {
  TempDir dir(fast_folder());
  const std::string folder = dir / "cache";
  std::vector<Sample> samples;
  for (int i = 0; i < kKeys; ++i) samples.emplace_back(i, 1000 + 700 * i);
  std::vector<pid_t> children;
  for (unsigned p = 0; p < kProcesses; ++p) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(run_process(folder, samples, p + 1));
    REQUIRE(child > 0);
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  CubinCache cache({.directory = folder, .warn = {}});
  auto infos = cache.list();
  REQUIRE(infos);
  CHECK_FALSE(infos->empty());
  for (const CacheEntryInfo& info : *infos) CHECK(info.problem == "");
  CHECK(test::files_below(folder + "/v1/tmp").empty());
}

constexpr int kCallers = 16;

// Many concurrent callers of one key, and the result of each.
template <typename Compile>
std::vector<Expected<std::shared_ptr<const Cubin>>> get_together(CubinCache& cache,
                                                                 const Sample& sample,
                                                                 Compile compile) {
  std::vector<std::optional<Expected<std::shared_ptr<const Cubin>>>> slots(kCallers);
  std::barrier start(kCallers);
  std::vector<std::thread> threads;
  for (int t = 0; t < kCallers; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      slots[t].emplace(cache.get(sample.key, sample.record, compile));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<Expected<std::shared_ptr<const Cubin>>> results;
  for (auto& slot : slots) results.push_back(std::move(*slot));
  return results;
}

TEST_CASE("sixteen threads, one key: one compile, one cubin") {
  TempDir dir(fast_folder());
  for (int round = 0; round < 50; ++round) {
    CubinCache cache({.directory = dir / std::to_string(round), .warn = {}});
    const Sample sample(round);
    std::atomic<int> compiles{0};
    auto results = get_together(cache, sample, [&]() -> Expected<Cubin> {
      ++compiles;
      std::this_thread::yield();
      return sample.cubin;
    });
    CHECK(compiles == 1);
    std::set<const Cubin*> distinct;
    for (auto& result : results) {
      REQUIRE(result);
      distinct.insert(result->get());
      CHECK(**result == sample.cubin);
    }
    CHECK(distinct.size() == 1);
    CHECK(cache.stats().misses == 1);
    CHECK(cache.stats().memory_hits == kCallers - 1);
  }
}

TEST_CASE("sixteen threads, one key that fails: one compile, one error") {
  for (int round = 0; round < 50; ++round) {
    CubinCache cache({.directory = "", .mode = CacheMode::kOff, .warn = {}});
    std::atomic<int> compiles{0};
    auto results = get_together(cache, Sample(round), [&]() -> Expected<Cubin> {
      return make_error(ErrorCode::kCompileFailed, "kernel kern: attempt {}", ++compiles);
    });
    CHECK(compiles == 1);
    for (auto& result : results) {
      REQUIRE_FALSE(result);
      const ErrorReport report = take_report(result.takeError());
      CHECK(report.code == ErrorCode::kCompileFailed);
      CHECK(report.message == "kernel kern: attempt 1");
    }
  }
}

TEST_CASE("callers that wait share a transient error; a later caller compiles again") {
  SingleFlight<int, int> flights;
  std::atomic<int> works{0};
  std::atomic<bool> started{false}, release{false};
  std::thread leader([&] {
    const auto result = flights.run(7, [&] {
      ++works;
      started = true;
      while (!release) std::this_thread::yield();
      return 1;
    });
    CHECK(result.led);
  });
  while (!started) std::this_thread::yield();
  // A flight of one key does not block another key.
  CHECK(flights.run(8, [] { return 5; }).value == 5);
  std::thread waiter([&] {
    const auto result = flights.run(7, [&] {
      ++works;
      return 2;
    });
    CHECK(result.value == (result.led ? 2 : 1));
  });
  release = true;
  leader.join();
  waiter.join();
  const auto later = flights.run(7, [&] {
    ++works;
    return 3;
  });
  CHECK(later.led);
  CHECK(later.value == 3);
  CHECK((works == 2 || works == 3));
}

TEST_CASE("different keys compile at the same time") {
  CubinCache cache({.directory = "", .mode = CacheMode::kOff, .warn = {}});
  // Each compile waits for the other: with one lock for both, neither would end.
  std::barrier both(2);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      const Sample sample(t);
      auto got = cache.get(sample.key, sample.record, [&]() -> Expected<Cubin> {
        both.arrive_and_wait();
        return sample.cubin;
      });
      REQUIRE(got);
      CHECK(**got == sample.cubin);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(cache.stats().misses == 2);
}

}  // namespace
}  // namespace catenary
