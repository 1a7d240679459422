// SPDX-License-Identifier: Apache-2.0
// Tuning by hand: every tile that the planner considers for one case, compiled in parallel, checked
// like any result, timed in one contest.
#include <algorithm>

#include "bench/measure/run_case.h"
#include "ir/parallel.h"

namespace catenary::bench {
namespace {

const KernelPlan* first_gemm(const Plan& plan) {
  for (const KernelPlan& kernel : plan.buckets.front().kernels) {
    if (!kernel.tiles.empty()) return &kernel;
  }
  return nullptr;
}

struct Attempt {
  TileRow row;
  PlanOptions options;
  std::shared_ptr<const CompiledChain> compiled;
};

void compile_all(const Session& session, const CaseSetup& setup, std::vector<Attempt>& attempts) {
  parallel_for(static_cast<i64>(attempts.size()), 0, [&](i64 i) {
    Attempt& attempt = attempts[i];
    if (!attempt.row.note.empty()) return;
    EngineOptions options;
    options.plan = attempt.options;
    Engine engine(std::move(options));
    auto compiled = engine.compile(setup.chain.chain(), session.info().target);
    if (!compiled) {
      attempt.row.note = take_report(compiled.takeError()).message;
      attempt.row.note = attempt.row.note.substr(0, attempt.row.note.find('\n'));
      return;
    }
    attempt.compiled = std::move(*compiled);
    attempt.row.registers = attempt.compiled->buckets[0][0].cubin->resources.registers;
  });
}

// Loads and checks one attempt. Nothing, with a note, when it is wrong or cannot be loaded.
Expected<std::optional<Contender>> ready(const Session& session, const CaseSetup& setup,
                                         Attempt& attempt) {
  Engine engine;
  auto bound = BoundChain::load(session, engine, attempt.compiled, setup.tensors, setup.copies);
  if (!bound) {
    attempt.row.note = take_report(bound.takeError()).message;
    return std::nullopt;
  }
  Contender made = contender(attempt.row.tile, std::move(*bound));
  if (Error error = run_poisoned(session, setup.output(), made)) return error;
  auto result = compare_samples(setup.samples, setup.output());
  if (!result) return result.takeError();
  if (result->ok()) return made;
  attempt.row.note = "WRONG: " + to_string(*result);
  return std::nullopt;
}

Expected<std::vector<Attempt>> list_attempts(const Session& session, const CaseSetup& setup,
                                             const CaseOptions& options) {
  PlanOptions open = options.plan;
  open.force_tile.clear();
  auto plan = make_plan(setup.chain, session.info().target, open);
  if (!plan) return plan.takeError();
  std::vector<Attempt> attempts;
  const KernelPlan* chosen = first_gemm(*plan);
  if (chosen == nullptr) return attempts;
  for (const TileOption& tile : chosen->tiles) {
    Attempt attempt;
    attempt.row.tile = tile.name;
    attempt.row.split_k = tile.split_k;
    attempt.row.predicted_us = tile.us;
    attempt.row.note = tile.rejected;
    attempt.row.chosen = tile.chosen;
    attempt.options = open;
    attempt.options.force_tile = tile.name;
    attempt.options.split_k = tile.split_k;
    attempts.push_back(std::move(attempt));
  }
  return attempts;
}

}  // namespace

Expected<std::vector<TileRow>> time_tiles(const Session& session, const CaseSetup& setup,
                                          const CaseOptions& options) {
  auto attempts = list_attempts(session, setup, options);
  if (!attempts) return attempts.takeError();
  compile_all(session, setup, *attempts);
  std::vector<Contender> contenders;
  std::vector<Attempt*> timed;
  for (Attempt& attempt : *attempts) {
    if (!attempt.compiled) continue;
    auto made = ready(session, setup, attempt);
    if (!made) return made.takeError();
    if (!*made) continue;
    contenders.push_back(std::move(**made));
    timed.push_back(&attempt);
  }
  TimingOptions timing = options.timing;
  timing.copies = setup.copies;
  timing.rounds = std::max(5, timing.rounds / 2);
  auto timings = time_contenders(session, contenders, timing);
  if (!timings) return timings.takeError();
  for (size_t i = 0; i < timed.size(); ++i) timed[i]->row.us = (*timings)[i].us.median;
  std::vector<TileRow> rows;
  for (Attempt& attempt : *attempts) rows.push_back(std::move(attempt.row));
  std::stable_sort(rows.begin(), rows.end(), [](const TileRow& a, const TileRow& b) {
    if (a.us.has_value() != b.us.has_value()) return a.us.has_value();
    return a.us && *a.us < *b.us;
  });
  return rows;
}

}  // namespace catenary::bench
