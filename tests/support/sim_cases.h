// SPDX-License-Identifier: Apache-2.0
// Many chains in the simulator, in parallel: a case is any struct, its test a function that returns
// what is wrong.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/parallel.h"
#include "tests/support/sim_chain.h"

namespace catenary::testing {

// Checks that run(case, index, compiler) returns "" for every case. Skips where there is no host
// compiler.
template <class Case, class Run>
void run_cases(const std::vector<Case>& cases, Run run) {
  auto compiler = HostCompiler::get();
  if (!compiler) {
    MESSAGE("skipped: " << take_report(compiler.takeError()).message);
    return;
  }
  std::vector<std::string> problems(cases.size());
  parallel_for(static_cast<i64>(cases.size()), 0,
               [&](i64 i) { problems[i] = run(cases[i], i, **compiler); });
  for (const std::string& problem : problems) CHECK(problem == "");
}

// The first failure of a chain under the schedules of seeds 1 to `seeds`; empty: none.
inline std::string first_failure(const SimulatedChain& chain, const std::string& name, u64 seeds) {
  for (u64 seed = 1; seed <= seeds; ++seed) {
    const SimulatedOutcome outcome = chain.run(seed);
    if (outcome.name.empty()) continue;
    return fmt::format("{}, seed {}: {}: {}", name, seed, outcome.name, outcome.message);
  }
  return "";
}

}  // namespace catenary::testing
