// SPDX-License-Identifier: Apache-2.0
#include "tuner/candidates.h"

#include <algorithm>
#include <map>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace catenary::tuner {
namespace {

// The candidates that can run, the chosen one first, then by prediction.
std::vector<Candidate> ranked(llvm::ArrayRef<Candidate> candidates) {
  std::vector<Candidate> result;
  for (const Candidate& candidate : candidates) {
    if (candidate.rejected.empty()) result.push_back(candidate);
  }
  std::stable_sort(result.begin(), result.end(), [](const Candidate& a, const Candidate& b) {
    return a.chosen != b.chosen ? a.chosen : a.predicted_us < b.predicted_us;
  });
  return result;
}

}  // namespace

const KernelPlan* contraction_kernel(const Plan& plan) {
  for (const KernelPlan& kernel : plan.buckets.front().kernels) {
    if (!kernel.candidates.empty()) return &kernel;
  }
  return nullptr;
}

std::vector<Candidate> list_candidates(const KernelPlan& kernel) {
  std::vector<Candidate> candidates;
  for (const CandidateSummary& summary : kernel.candidates) {
    // A tile that is fitted to the problem may equal one of the table.
    const auto known = llvm::find_if(
        candidates, [&](const Candidate& other) { return id_of(other) == summary.id; });
    if (known != candidates.end()) {
      known->chosen = known->chosen || summary.chosen;
      continue;
    }
    candidates.push_back({summary.id.family, summary.id.tile, summary.id.split_k, summary.us,
                          summary.rejected, summary.chosen});
  }
  return candidates;
}

CandidateId id_of(const Candidate& candidate) {
  return {candidate.family, candidate.tile, candidate.split_k};
}

PlanOptions forced(PlanOptions options, const Candidate& candidate) {
  options.force_tile = candidate.tile;
  options.split_k = candidate.split_k;
  return options;
}

PlanOptions tuned(PlanOptions options, const std::string& signature, const Candidate& candidate) {
  options.tuned = [earlier = options.tuned, signature,
                   id = id_of(candidate)](const std::string& asked) -> std::optional<TunedChoice> {
    if (asked == signature) return TunedChoice{id, "under test"};
    return earlier ? earlier(asked) : std::nullopt;
  };
  return options;
}

bool takes_tuned(const Plan& plan, const std::string& signature) {
  return llvm::any_of(plan.buckets.front().kernels, [&](const KernelPlan& kernel) {
    return kernel.signature == signature && !kernel.tuned.empty();
  });
}

std::vector<Candidate> select_candidates(llvm::ArrayRef<Candidate> candidates, int best,
                                         int spread) {
  const std::vector<Candidate> all = ranked(candidates);
  if (best == 0) return all;
  std::vector<Candidate> selected;
  std::vector<Candidate> rest;
  std::map<std::string, int> of_family;
  for (const Candidate& candidate : all) {
    const bool taken = candidate.chosen || of_family[candidate.family] < best;
    // The chosen one counts among the best of its family.
    ++of_family[candidate.family];
    (taken ? selected : rest).push_back(candidate);
  }
  const size_t more = std::min(rest.size(), static_cast<size_t>(std::max(spread, 0)));
  for (size_t i = 0; i < more; ++i) {
    selected.push_back(rest[i * rest.size() / more]);
  }
  return selected;
}

std::vector<Candidate> fastest_candidates(llvm::ArrayRef<Candidate> candidates, int best) {
  std::vector<Candidate> all = ranked(candidates);
  all.resize(std::min(all.size(), static_cast<size_t>(best) + 1));
  return all;
}

}  // namespace catenary::tuner
