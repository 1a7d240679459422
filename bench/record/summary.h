// SPDX-License-Identifier: Apache-2.0
// Sweeps in a few numbers per kind of layer: how much faster than the peer.
#pragma once

#include "bench/record/record.h"

namespace catenary::bench {

// A candidate's time with PDL if that was measured, else without.
std::optional<double> candidate_us(const CandidateRow& candidate);

// The peer's time over the first candidate's, without PDL or by candidate_us(): above 1 ours is
// faster. Nothing unless both are known.
std::optional<double> no_pdl_ratio(const LayerRow& row);
std::optional<double> best_ratio(const LayerRow& row);

// 0 without ratios.
struct RatioSpread {
  double geomean = 0;
  double p10 = 0;  // the tenth percentile: nine of ten layers are better
  double worst = 0;
};
RatioSpread ratio_spread(const std::vector<double>& ratios);

struct KindSummary {
  std::string kind;
  int layers = 0;
  int timed = 0;  // those with a ratio
  RatioSpread no_pdl, best;
  std::vector<size_t> worst;  // the rows of the five smallest best ratios, the smallest first
};

// The kinds in the order of their first rows, then "all" if there are several.
std::vector<KindSummary> summarize(llvm::ArrayRef<LayerRow> rows);

std::string summary_table(llvm::ArrayRef<LayerRow> rows);

}  // namespace catenary::bench
