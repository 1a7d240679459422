// SPDX-License-Identifier: Apache-2.0
// Plan options under which a chain's contractions are computed by one family, by its best candidate
// for each: for tests of a family that the cost model may not choose.
#pragma once

#include <map>
#include <memory>

#include "compiler/plan.h"

namespace catenary::testing {

// `options` where the family has no candidate or a tile is forced.
inline PlanOptions prefer_family(const VerifiedChain& chain, const Target& target,
                                 const std::string& family, PlanOptions options) {
  if (!options.force_tile.empty() || options.split_k != 0) return options;
  const auto choices = std::make_shared<std::map<std::string, CandidateId>>();
  options.tuned = [choices](const std::string& signature) -> std::optional<TunedChoice> {
    const auto found = choices->find(signature);
    if (found == choices->end()) return std::nullopt;
    return TunedChoice{found->second, "preferred by a test"};
  };
  // Buckets of the symbol that had one kernel may come apart by a choice: until nothing is new.
  for (bool grew = true; grew;) {
    const size_t known = choices->size();
    Expected<Plan> plan = make_plan(chain, target, options);
    if (!plan) {
      llvm::consumeError(plan.takeError());
      return options;
    }
    for (const PlanBucket& bucket : plan->buckets) {
      for (const KernelPlan& kernel : bucket.kernels) {
        for (const CandidateSummary& candidate : kernel.candidates) {
          if (candidate.id.family != family || !candidate.rejected.empty()) continue;
          choices->try_emplace(kernel.signature, candidate.id);
          break;
        }
      }
    }
    grew = choices->size() > known;
  }
  return options;
}

}  // namespace catenary::testing
