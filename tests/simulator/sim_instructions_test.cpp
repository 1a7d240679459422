// SPDX-License-Identifier: Apache-2.0
// The kernels of tests/instructions in the simulator, under several seeds, against expectations
// that are computed independently. The GPU suite runs the same cases on a device.
#include <doctest/doctest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "compiler/compile/host_compiler.h"
#include "tests/instructions/simulate.h"

namespace catenary::instructions {
namespace {

constexpr u64 kSeeds = 10;

template <class Work>
void in_parallel(size_t count, const Work& work) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::max(std::thread::hardware_concurrency(), 1u); ++i) {
    threads.emplace_back([&] {
      for (size_t at = next++; at < count; at = next++) work(at);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The failures of a kernel's cases, one line each.
std::string problems_of(const HostCompiler& compiler, const std::vector<const Case*>& cases) {
  auto object = compile_for_simulator(compiler, *cases.front());
  if (!object) return take_report(object.takeError()).message + "\n";
  std::string problems;
  for (const Case* c : cases) {
    for (u64 seed = 1; seed <= kSeeds; ++seed) {
      auto output = run_in_simulator(*c, *object, seed);
      const std::string problem =
          output ? difference(*c, *output) : take_report(output.takeError()).message;
      if (problem.empty()) continue;
      problems += fmt::format("{} (seed {}): {}\n", c->name, seed, problem);
      break;
    }
  }
  return problems;
}

}  // namespace

TEST_CASE("the instructions do what the PTX ISA specifies") {
  auto compiler = HostCompiler::get();
  REQUIRE(compiler);
  std::map<std::string, std::vector<const Case*>> kernels;
  for (const Case& c : all_cases()) {
    INFO(c.name);
    CHECK_FALSE(source_of(c).body.empty());
    CHECK((c.approximate.empty() ? c.expected.size() : 4 * c.approximate.size()) ==
          c.buffers.back().bytes.size());
    kernels[c.kernel].push_back(&c);
  }
  std::vector<std::string> names;
  for (const auto& [name, cases] : kernels) names.push_back(name);
  std::vector<std::string> problems(names.size());
  in_parallel(names.size(),
              [&](size_t i) { problems[i] = problems_of(**compiler, kernels.at(names[i])); });
  for (size_t i = 0; i < names.size(); ++i) {
    INFO(names[i]);
    CHECK(problems[i] == "");
  }
}

TEST_CASE("case names are unique, and a wrong byte is found") {
  std::set<std::string> names;
  for (const Case& c : all_cases()) CHECK_MESSAGE(names.insert(c.name).second, c.name);
  for (const Case& c : all_cases()) {
    if (!c.approximate.empty()) continue;
    std::vector<u8> wrong = c.expected;
    CHECK(difference(c, wrong) == "");
    wrong[wrong.size() / 2] ^= 1;
    CHECK(difference(c, wrong) != "");
  }
}

}  // namespace catenary::instructions
