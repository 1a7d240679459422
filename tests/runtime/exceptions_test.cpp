// SPDX-License-Identifier: Apache-2.0
// Exceptions (out of memory, a user's callback) in SingleFlight and parallel_for: they reach every
// caller concerned, no thread waits for ever, and the process goes on.
#include <doctest/doctest.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ir/parallel.h"
#include "runtime/cache/single_flight.h"

namespace catenary {
namespace {

TEST_CASE("a flight whose work throws: the leader and all waiting callers get the exception") {
  constexpr int kCallers = 8;
  SingleFlight<int, int> flights;
  std::atomic<int> arrived{0};
  std::atomic<int> works{0};
  std::atomic<int> caught{0};
  const auto work = [&]() -> int {
    ++works;
    // So that the other callers wait; a later one would lead a flight of its own.
    while (arrived < kCallers) std::this_thread::yield();
    throw std::runtime_error("no value");
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kCallers; ++i) {
    threads.emplace_back([&] {
      ++arrived;
      try {
        flights.run(1, work);
      } catch (const std::runtime_error& error) {
        caught += error.what() == std::string("no value");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(caught == kCallers);
  CHECK(works >= 1);
  CHECK(works <= kCallers);
  const auto after = flights.run(1, [] { return 7; });
  CHECK(after.value == 7);
  CHECK(after.led);
}

// Copying it throws while `armed` is set.
struct ThrowingKey {
  ThrowingKey() = default;
  ThrowingKey(const ThrowingKey& other) : value(other.value) {
    if (armed) throw std::bad_alloc();
  }
  bool operator<(const ThrowingKey& other) const { return value < other.value; }
  int value = 1;
  static inline bool armed = false;
};

TEST_CASE("a flight that could not be entered leaves nothing for the next caller") {
  SingleFlight<ThrowingKey, int> flights;
  ThrowingKey::armed = true;
  CHECK_THROWS_AS(flights.run({}, [] { return 1; }), std::bad_alloc);
  ThrowingKey::armed = false;
  const auto after = flights.run({}, [] { return 7; });
  CHECK(after.value == 7);
  CHECK(after.led);
}

TEST_CASE("a loop body that throws ends the loop, and the caller gets the exception") {
  for (int threads : {1, 4}) {
    CAPTURE(threads);
    std::atomic<int> bodies{0};
    const auto body = [&](i64 i) {
      ++bodies;
      if (i == 3) throw std::bad_alloc();
    };
    CHECK_THROWS_AS(parallel_for(1'000'000, threads, body), std::bad_alloc);
    CHECK(bodies < 1'000'000);
  }
}

}  // namespace
}  // namespace catenary
