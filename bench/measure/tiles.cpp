// SPDX-License-Identifier: Apache-2.0
// `--tiles all`: every candidate that the planner considers for one case.
#include <algorithm>

#include "bench/measure/run_case.h"
#include "ir/parallel.h"

namespace catenary::bench {

Expected<std::vector<CandidateRow>> time_tiles(const Session& session, const ChainSetup& setup,
                                               const CaseOptions& options) {
  PlanOptions open = options.plan;
  open.force_tile.clear();
  Expected<Plan> plan = make_plan(setup.chain, session.info().target, open);
  if (!plan) return plan.takeError();
  const KernelPlan* kernel = contraction_kernel(*plan);
  std::vector<CandidateRow> rows;
  if (kernel == nullptr) return rows;
  std::vector<Entrant> entrants;
  for (Candidate& candidate : list_candidates(*kernel)) {
    Entrant& entrant = entrants.emplace_back();
    entrant.plan = forced(open, candidate);
    entrant.note = candidate.rejected;
    entrant.candidate = std::move(candidate);
  }
  parallel_for(static_cast<i64>(entrants.size()), 0, [&](i64 i) {
    if (entrants[i].note.empty()) compile_entrant(session, setup.chain.chain(), entrants[i]);
  });
  TimingOptions timing = options.timing;
  timing.rounds = std::max(5, timing.rounds / 2);
  auto timed = run_contest(session, entrants, {}, setup.data(), timing, true);
  if (!timed) return timed.takeError();
  for (const Entrant& entrant : entrants) rows.push_back(candidate_row(entrant));
  std::stable_sort(rows.begin(), rows.end(), [](const CandidateRow& a, const CandidateRow& b) {
    if (a.us.has_value() != b.us.has_value()) return a.us.has_value();
    return a.us && *a.us < *b.us;
  });
  return rows;
}

}  // namespace catenary::bench
