// SPDX-License-Identifier: Apache-2.0
// The tuner: which candidate wins, and in the simulator, which keeps no time, all that leads up to
// the timing and what becomes of its records.
#include <doctest/doctest.h>

#include <set>

#include "runtime/tuning/tuning.h"
#include "tests/support/bench_session.h"
#include "tests/support/temp_dir.h"
#include "tuner/tune.h"

using namespace catenary;
using namespace catenary::tuner;
using test::verified;

namespace {

TunedCandidate candidate(std::optional<double> us) {
  TunedCandidate one;
  one.median_us = us;
  return one;
}

std::string refusal(const Session& session, const std::string& text) {
  RandomPool pool(3);
  auto records = tune_chain(session, pool, verified(text), default_tuning(),
                            [](const std::string&, i64, i64) { FAIL("it was measured"); });
  REQUIRE_FALSE(records);
  const ErrorReport report = take_report(records.takeError());
  CHECK(report.code == ErrorCode::kUnsupported);
  return report.message;
}

}  // namespace

TEST_CASE("the fastest candidate wins, if it is faster than the cost model's by more than noise") {
  CHECK(choose_winner({candidate(10), candidate(9), candidate(8), candidate(11)}) == 2);
  CHECK(choose_winner({candidate(10), candidate(9.95)}) == 0);
  CHECK(choose_winner({candidate(10), candidate(std::nullopt), candidate(9.8)}) == 2);
  CHECK(choose_winner({candidate(std::nullopt), candidate(20), candidate(30)}) == 1);
  CHECK(choose_winner({candidate(10)}) == 0);
  CHECK(choose_winner({candidate(std::nullopt), candidate(std::nullopt)}) == 0);
}

TEST_CASE("what cannot be tuned is refused before anything is measured") {
  const auto session = test::simulated_session();
  if (!session) return;
  CHECK(refusal(*session,
                "chain c[M in 1..8](input x: bf16[M, 64], weight w: bf16[64, 64]) {"
                " y = contract \"mk,nk->mn\"(x, w) return y: bf16 }")
            .find("symbol M") != std::string::npos);
  CHECK(refusal(*session,
                "chain c(input x: bf16[8, 64], weight w: bf16[64, 64], scalar a: f32) {"
                " y = scale(contract \"mk,nk->mn\"(x, w), a) return y: bf16 }")
            .find("scalar a") != std::string::npos);
  CHECK(refusal(*session, "chain c(input x: f32[64]) { y = relu(x) return y: f32 }")
            .find("no contraction") != std::string::npos);
  CHECK(refusal(*session,
                "chain c(input x: bf16[8, 64], weight w: bf16[64, 64]) {"
                " h = contract \"mk,nk->mn\"(x, w) y = relu(h)"
                " return y: bf16, h: f32 }")
            .find("2 outputs") != std::string::npos);
}

TEST_CASE("every contraction of a chain gets a record, which plans the chain from then on") {
  const auto session = test::simulated_session();
  if (!session) return;
  const test::TempDir folder;
  const test::ScopedEnv cache("CATENARY_CACHE_DIR", (folder / "cache").c_str());
  const VerifiedChain chain = verified(
      "chain two(input x: bf16[24, 64], weight v: bf16[72, 64], weight w: bf16[2, 40, 72], input "
      "ends: i32[2]) {\n  h = cast(silu(contract \"mk,nk->mn\"(x, v)), bf16)\n"
      "  y = contract \"mk,enk->mn\"(h, w) ragged m by ends over e\n  return y: bf16\n}\n");
  RandomPool pool(3);
  TuneOptions options;
  options.timing = test::shortest();
  options.top = 1;
  std::vector<i64> steps;
  std::set<std::string> contests;
  auto records = tune_chain(*session, pool, chain, options,
                            [&](const std::string& contest, i64 done, i64 all) {
                              contests.insert(contest);
                              steps.push_back(done);
                              CHECK(all == 4);
                            });
  REQUIRE_MESSAGE(records, take_report(records.takeError()).message);
  CHECK(contests.size() == 2);
  CHECK(steps == std::vector<i64>{0, 1, 2, 3});
  REQUIRE(records->size() == 2);
  TuningOptions where;
  where.directory = folder / "records";
  TuningStore store(where, "");
  for (const TuningRecord& record : *records) {
    REQUIRE(record.candidates.size() == 2);
    for (const TunedCandidate& one : record.candidates) {
      CHECK_MESSAGE(one.median_us.has_value(), one.note);
    }
    CHECK(record.model == record.candidates[0].id);
    CHECK(record.target == session->info().target.name);
    CHECK_FALSE(static_cast<bool>(store.write(record)));
  }
  const TuningStore reader(where, "");
  PlanOptions plan_options;
  plan_options.tuned = [&](const std::string& signature) {
    return reader.choice(session->info().target, signature);
  };
  const Plan plan = test::planned(chain, plan_options);
  int tuned = 0;
  for (const KernelPlan& kernel : plan.buckets[0].kernels) tuned += kernel.tuned.empty() ? 0 : 1;
  CHECK(tuned == 2);
}
