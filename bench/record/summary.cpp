// SPDX-License-Identifier: Apache-2.0
#include "bench/record/summary.h"

#include <algorithm>
#include <cmath>

namespace catenary::bench {
namespace {

constexpr size_t kNamed = 5;

std::optional<double> ratio(const LayerRow& row, const std::optional<double>& us) {
  if (!row.peer_us || !us || *us <= 0) return std::nullopt;
  return *row.peer_us / *us;
}

KindSummary summary_of(llvm::ArrayRef<LayerRow> rows, const std::string& kind, bool all) {
  KindSummary summary;
  summary.kind = kind;
  std::vector<double> no_pdl;
  std::vector<double> best;
  std::vector<std::pair<double, size_t>> ranked;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!all && rows[i].kind != kind) continue;
    ++summary.layers;
    const auto ours = no_pdl_ratio(rows[i]);
    const auto ours_best = best_ratio(rows[i]);
    if (!ours || !ours_best) continue;
    ++summary.timed;
    no_pdl.push_back(*ours);
    best.push_back(*ours_best);
    ranked.push_back({*ours_best, i});
  }
  summary.no_pdl = ratio_spread(no_pdl);
  summary.best = ratio_spread(best);
  std::sort(ranked.begin(), ranked.end());
  for (size_t i = 0; i < std::min(ranked.size(), kNamed); ++i) {
    summary.worst.push_back(ranked[i].second);
  }
  return summary;
}

}  // namespace

std::optional<double> candidate_us(const CandidateRow& candidate) {
  return candidate.pdl_us ? candidate.pdl_us : candidate.us;
}

std::optional<double> no_pdl_ratio(const LayerRow& row) {
  return row.candidates.empty() ? std::nullopt : ratio(row, row.candidates[0].us);
}

std::optional<double> best_ratio(const LayerRow& row) {
  return row.candidates.empty() ? std::nullopt : ratio(row, candidate_us(row.candidates[0]));
}

RatioSpread ratio_spread(const std::vector<double>& ratios) {
  if (ratios.empty()) return {};
  double logs = 0;
  for (const double one : ratios) logs += std::log(one);
  return {std::exp(logs / static_cast<double>(ratios.size())), quantile(ratios, 0.1),
          quantile(ratios, 0)};
}

std::vector<KindSummary> summarize(llvm::ArrayRef<LayerRow> rows) {
  std::vector<std::string> kinds;
  for (const LayerRow& row : rows) {
    if (std::find(kinds.begin(), kinds.end(), row.kind) == kinds.end()) kinds.push_back(row.kind);
  }
  std::vector<KindSummary> summaries;
  for (const std::string& kind : kinds) summaries.push_back(summary_of(rows, kind, false));
  if (kinds.size() > 1) summaries.push_back(summary_of(rows, "all", true));
  return summaries;
}

std::string summary_table(llvm::ArrayRef<LayerRow> rows) {
  std::string text =
      fmt::format("\n{:<8} {:>6} {:>6} {:>8} {:>7} {:>7}   {:>8} {:>7} {:>7}\n", "kind", "layers",
                  "timed", "geomean", "p10", "worst", "no PDL", "p10", "worst");
  const std::vector<KindSummary> summaries = summarize(rows);
  for (const KindSummary& s : summaries) {
    text +=
        fmt::format("{:<8} {:>6} {:>6} {:>8.3f} {:>7.3f} {:>7.3f}   {:>8.3f} {:>7.3f} {:>7.3f}\n",
                    s.kind, s.layers, s.timed, s.best.geomean, s.best.p10, s.best.worst,
                    s.no_pdl.geomean, s.no_pdl.p10, s.no_pdl.worst);
  }
  for (const KindSummary& s : summaries) {
    if (s.kind == "all") continue;
    text += fmt::format("\nworst of {}:\n", s.kind);
    for (const size_t row : s.worst) text += "  " + layer_line(rows[row]);
  }
  return text;
}

}  // namespace catenary::bench
