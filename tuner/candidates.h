// SPDX-License-Identifier: Apache-2.0
// The planner's candidates for one contraction. Only this file of the tuner and the benchmark reads
// KernelPlan::candidates, and forces a candidate on the planner.
#pragma once

#include "compiler/plan.h"

namespace catenary::tuner {

// One kernel that a family could launch for a contraction.
struct Candidate {
  std::string family;
  std::string tile;
  int split_k = 1;
  double predicted_us = 0;
  std::string rejected;  // why it cannot run; empty: it can
  bool chosen = false;   // by the cost model
};

// The kernel of the plan's first contraction; null: the plan has none.
const KernelPlan* contraction_kernel(const Plan& plan);

// All candidates of `kernel`, each once, in the planner's order.
std::vector<Candidate> list_candidates(const KernelPlan& kernel);

CandidateId id_of(const Candidate& candidate);

// `options` with `candidate` forced on every contraction.
PlanOptions forced(PlanOptions options, const Candidate& candidate);

// `options` with `candidate` forced on the contractions of `signature`.
PlanOptions tuned(PlanOptions options, const std::string& signature, const Candidate& candidate);

// Does the plan's kernel of `signature` follow a choice made by tuned()?
bool takes_tuned(const Plan& plan, const std::string& signature);

// The chosen candidate first, then the `best` fastest of every family by prediction, then
// `spread` more at equal distances over the rest. Rejected candidates are left out. `best` 0: all
// candidates.
std::vector<Candidate> select_candidates(llvm::ArrayRef<Candidate> candidates, int best,
                                         int spread);

// The chosen candidate first, then the `best` fastest of all families together.
std::vector<Candidate> fastest_candidates(llvm::ArrayRef<Candidate> candidates, int best);

}  // namespace catenary::tuner
