// SPDX-License-Identifier: Apache-2.0
// Chain text: every text is a chain or an error with a place; a chain that verifies is printed and
// parsed back, planned and emitted.
#pragma once

#include <string>

#include "compiler/emit/emit.h"
#include "ir/text/text.h"
#include "tests/fuzz/require.h"

namespace catenary::fuzz {

inline void expect_user_error(Error error) {
  const ErrorReport report = take_report(std::move(error));
  FUZZ_REQUIRE(report.code != ErrorCode::kInternal);
  FUZZ_REQUIRE(!report.message.empty());
}

inline void plan_and_emit(const VerifiedChain& chain, const Target& target) {
  Expected<Plan> plan = make_plan(chain, target);
  if (!plan) return expect_user_error(plan.takeError());
  for (const PlanBucket& bucket : plan->buckets) {
    for (const KernelPlan& kernel : bucket.kernels)
      FUZZ_REQUIRE(!emit(chain, *plan, kernel).body.empty());
  }
}

// `target`: null plans nothing.
inline void run_text(const std::string& text, const Target* target) {
  Expected<Chain> chain = parse(text);
  if (!chain) {
    const ErrorReport report = take_report(chain.takeError());
    FUZZ_REQUIRE(report.at.line > 0);
    FUZZ_REQUIRE(!render_error(report, "file", text).empty());
    return;
  }
  Expected<VerifiedChain> verified = verify(*chain);
  if (!verified) return expect_user_error(verified.takeError());
  Expected<Chain> again = parse(print(*chain));
  FUZZ_REQUIRE(!!again);
  FUZZ_REQUIRE(*again == *chain);
  if (target != nullptr) plan_and_emit(*verified, *target);
}

}  // namespace catenary::fuzz
