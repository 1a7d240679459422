// SPDX-License-Identifier: Apache-2.0
// Helpers of benchmark tests: verified chains, plans for h200, a session on the simulator.
#pragma once

#include <doctest/doctest.h>

#include "compiler/compile/host_compiler.h"
#include "compiler/plan.h"
#include "ir/text/text.h"
#include "runtime/driver/simulated_driver.h"
#include "tuner/session.h"
#include "tuner/timing.h"

namespace catenary::test {

inline VerifiedChain verified(const std::string& text) {
  INFO(text);
  Expected<Chain> chain = parse(text);
  REQUIRE_MESSAGE(chain, take_report(chain.takeError()).message);
  Expected<VerifiedChain> result = verify(std::move(*chain));
  REQUIRE_MESSAGE(result, take_report(result.takeError()).message);
  return std::move(*result);
}

inline Plan planned(const VerifiedChain& chain, const PlanOptions& options = {}) {
  Expected<Plan> plan = make_plan(chain, *find_target("h200"), options);
  REQUIRE_MESSAGE(plan, take_report(plan.takeError()).message);
  return std::move(*plan);
}

// A session on the simulator; null and a message without a host compiler.
inline std::unique_ptr<tuner::Session> simulated_session() {
  if (auto compiler = HostCompiler::get(); !compiler) {
    MESSAGE("skipped: " << take_report(compiler.takeError()).message);
    return nullptr;
  }
  REQUIRE_FALSE(static_cast<bool>(cuda::use_simulator()));
  auto session = tuner::Session::open(0);
  REQUIRE_MESSAGE(session, take_report(session.takeError()).message);
  REQUIRE((*session)->driver().simulated());
  return std::move(*session);
}

// The shortest run that the protocol allows.
inline tuner::TimingOptions shortest() {
  tuner::TimingOptions timing;
  timing.rounds = 1;
  timing.batch_us = 0;
  timing.graph_launches = 2;
  return timing;
}

}  // namespace catenary::test
