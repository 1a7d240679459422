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
                "chain c(input x: bf16[8, 64], weight w: bf16[64, 64], input r: f32[8, 64]) {"
                " h = contract \"mk,nk->mn\"(x, w) y = add(h, r)"
                " return h: bf16, y: f32 inplace r }")
            .find("overwrites its input 'r'") != std::string::npos);
}

TEST_CASE("several outputs: each is compared") {
  const auto session = test::simulated_session();
  if (!session) return;
  const VerifiedChain chain = verified(
      "chain c(input x: bf16[8, 64], weight w: bf16[64, 64], weight v: bf16[24, 64]) {"
      " y = contract \"mk,nk->mn\"(x, w) z = relu(contract \"mk,nk->mn\"(x, v))"
      " return y: bf16, z: f32 }");
  RandomPool pool(3);
  auto setup = set_up_chain(*session, pool, chain, {});
  REQUIRE_MESSAGE(setup, take_report(setup.takeError()).message);
  REQUIRE(setup->samples.size() == 2);
  Engine engine(engine_options(*session));
  auto bound = BoundChain::make(*session, chain, {}, setup->tensors, setup->copies);
  REQUIRE_MESSAGE(bound, take_report(bound.takeError()).message);
  REQUIRE_FALSE(
      static_cast<bool>(run_poisoned(*session, setup->data(), contender("ours", *bound))));
  auto right = compare_samples(setup->samples, setup->tensors);
  REQUIRE(right);
  CHECK(right->ok());
  const size_t elements = setup->samples[0].indices.size() + setup->samples[1].indices.size();
  CHECK(right->checked == static_cast<i64>(elements));
  auto near = coarse_distance(setup->samples, setup->tensors);
  REQUIRE(near);
  CHECK(*near < kCoarseLimit);
  // The second one is wrong.
  const Contender nothing{"nothing", [](int) { return Error::success(); }};
  const ContestData second{setup->tensors, llvm::ArrayRef(setup->samples).drop_front(), 1};
  REQUIRE_FALSE(static_cast<bool>(run_poisoned(*session, second, nothing)));
  auto wrong = compare_samples(setup->samples, setup->tensors);
  REQUIRE(wrong);
  CHECK_FALSE(wrong->ok());
  auto far = coarse_distance(setup->samples, setup->tensors);
  REQUIRE(far);
  CHECK(*far > kCoarseLimit);
}

TEST_CASE("contractions in one launch get one record, which is of all of them") {
  const auto session = test::simulated_session();
  if (!session) return;
  const test::TempDir folder;
  const test::ScopedEnv cache("CATENARY_CACHE_DIR", (folder / "cache").c_str());
  RandomPool pool(3);
  TuneOptions options;
  options.timing = test::shortest();
  options.top = 1;
  auto records = tune_chain(
      *session, pool,
      verified("chain c(input x: bf16[8, 64], weight w: bf16[64, 64], weight v: bf16[24, 64]) {"
               " y = contract \"mk,nk->mn\"(x, w) z = contract \"mk,nk->mn\"(x, v)"
               " return y: bf16, z: f32 }"),
      options, [](const std::string&, i64, i64) {});
  REQUIRE_MESSAGE(records, take_report(records.takeError()).message);
  REQUIRE(records->size() == 1);
  for (const TunedCandidate& one : (*records)[0].candidates) {
    CHECK_MESSAGE(one.median_us.has_value(), one.note);
  }
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
