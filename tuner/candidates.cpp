// SPDX-License-Identifier: Apache-2.0
#include "tuner/candidates.h"

#include <algorithm>
#include <map>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

namespace catenary::tuner {
namespace {

// TileOption does not name its family, but a tile's name tells: "skinny16x1s3r1g2p2",
// "128x256x64g2s4" or "64x128x64p2s4" (gemm_sm90), "128x128x32w2x2s3" (gemm_sm80).
Family tile_family(llvm::StringRef tile) {
  if (tile.startswith("skinny")) return Family::kSkinny;
  return tile.find_first_of("gp") == llvm::StringRef::npos ? Family::kGemmSm80 : Family::kGemmSm90;
}

bool same(const Candidate& a, const Candidate& b) {
  return a.tile == b.tile && a.split_k == b.split_k;
}

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
    if (!kernel.tiles.empty()) return &kernel;
  }
  return nullptr;
}

std::vector<Candidate> list_candidates(const KernelPlan& kernel) {
  std::vector<Candidate> candidates;
  for (const TileOption& tile : kernel.tiles) {
    Candidate candidate;
    candidate.family = family_text(tile_family(tile.name));
    candidate.tile = tile.name;
    candidate.split_k = tile.split_k;
    candidate.predicted_us = tile.us;
    candidate.rejected = tile.rejected;
    candidate.chosen = tile.chosen;
    // gemm_sm90 lists its rivals of gemm_sm80 again.
    const auto known =
        llvm::find_if(candidates, [&](const Candidate& other) { return same(other, candidate); });
    if (known == candidates.end()) {
      candidates.push_back(std::move(candidate));
    } else {
      known->chosen = known->chosen || candidate.chosen;
    }
  }
  return candidates;
}

PlanOptions forced(PlanOptions options, const Candidate& candidate) {
  options.force_tile = candidate.tile;
  options.split_k = candidate.split_k;
  return options;
}

PlanOptions tuned(PlanOptions options, const std::string& problem, const Candidate& candidate) {
  options.tuned.push_back({problem, candidate.tile, candidate.split_k, "under test"});
  return options;
}

bool takes_tuned(const Plan& plan, const std::string& problem) {
  return llvm::any_of(plan.buckets.front().kernels, [&](const KernelPlan& kernel) {
    return kernel.problem == problem && !kernel.tuned.empty();
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
