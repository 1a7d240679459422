// SPDX-License-Identifier: Apache-2.0
// What a kernel of `skinny` does, counted for the cost model.
#include "compiler/families/skinny/cost.h"

#include <algorithm>
#include <cmath>

#include "compiler/families/roofline.h"

namespace catenary {
namespace {

// Latencies for the parts of X, one after the other, for the sums of warps with more K (RESULTS
// model-17) and for those of the squares of X (RESULTS skinny-126).
double stream_waits(const SkinnyConfig& c) {
  constexpr double kPart = 0.08, kHalfOfWarps = 0.1;
  constexpr double kSquares = 0.75, kSquaresOfTile = 0.55;  // of the first column tile, of others
  constexpr double kMostWarps = 16;
  const double squares = kSquares + kSquaresOfTile * (c.tile.columns / 8.0 - 1);
  return kPart * (c.loads.x_chunks - 1) + (c.row_squares ? squares : 0) +
         kHalfOfWarps * std::max(std::log2(kMostWarps / c.tile.warps_k), 0.0);
}

// The time that a norm or a gain adds to each round of CTAs. A warp forms, scales or squares its
// rows of X after their load and before the MMAs. No other warp hides its instructions. A pass over
// the rows also costs latencies (RESULTS skinny-123). An MMA squares four elements of each lane, in
// whole column tiles: kSquared instructions for each of them. The CTAs of a cluster wait for each
// other's sums of squares (RESULTS skinny-126).
double norm_us(const SkinnyProblem& problem, const SkinnyConfig& c, const Target& target) {
  constexpr double kClocks = 2.3;  // of an instruction
  constexpr double kPass = 0.54;
  constexpr double kSquared = 0.33;  // instructions for an element
  constexpr double kSquaresOfCluster = 0.33;
  const double per_row = static_cast<double>(c.most_slice_blocks()) * 128 /
                         c.space.element_bytes() / (32 * c.tile.warps_k);
  const double ops = problem.row_ops * static_cast<double>(problem.m) +
                     (c.squares_by_mma() ? kSquared * c.tile.columns : 0);
  const double latencies =
      (c.formed.used ? kPass * (1 + problem.passes) : 0) +
      (c.row_squares ? kSquaresOfCluster * std::log2(c.schedule.cluster_k) : 0);
  return ops * per_row * kClocks / (target.clock_ghz * 1e3) +
         latencies * rates_of(target).latency_us;
}

}  // namespace

Prediction predict_skinny(const SkinnyProblem& problem, const Target& target, const SkinnyConfig& c,
                          int resident) {
  // A gain is as many bytes as a row of X. Rows that are not held are loaded for each pass.
  const bool held = c.loads.x_chunks == 1 && c.loads.x_columns == c.tile.columns;
  const double loads = (held ? 1 : 1 + problem.passes) * c.x_words() / 4.0;
  const double rows = static_cast<double>(problem.m) * loads + (c.gain.used ? 1 : 0);
  const double k_blocks = static_cast<double>(c.most_slice_blocks());
  constexpr double kHiddenStart = 0.57;  // its weights are requested early (RESULTS model-17)
  Counts counts;
  counts.streams = true;
  counts.units = static_cast<double>(problem.batch * c.n_tiles() * c.k_slices());
  counts.busiest_share = busiest_share(c, problem.batch, target.sm_count);
  // Clusters that do not fit the GPCs leave places empty.
  counts.resident =
      static_cast<double>(target.ctas_at_once(c.schedule.cluster_k, resident)) / target.sm_count;
  counts.early_weights = c.loads.w_is_weight && target.compute_capability() >= 90;
  const double even = counts.units / target.sm_count;
  counts.units_per_sm = counts.early_weights ? std::max(even, 1.0) : std::ceil(even);
  counts.k_tiles = counts.stages = k_blocks;
  counts.stream_waits = stream_waits(c);
  counts.round_us = norm_us(problem, c, target);
  counts.hidden_start = counts.early_weights ? kHiddenStart : 0;
  counts.splits_lines = c.k_step() == 1;
  counts.l2_bytes =
      (c.rows() * c.num_accumulators() * line_share(c.w.stride_row * c.space.element_bytes()) +
       rows) *
      128;
  // No limit of fewer rows.
  if (c.tile.columns > kSkinnyRows) {
    const Rates rates = rates_of(target);
    const double flop = 2.0 * c.rows() * c.num_accumulators() * c.tile.columns * k_blocks * 128 /
                        c.space.element_bytes();
    counts.stream_clocks = flop / (rates.mma * rates.mma_sync) * target.clock_ghz * 1e3;
  }
  counts.register_bytes = c.tile.warps_n * rows * k_blocks * 128;
  if (c.schedule.cluster_k > 1) {
    counts.exchange_bytes = static_cast<double>(c.tile.columns) * c.rows() * c.num_accumulators() *
                            4 * (c.schedule.cluster_k - 1) / c.schedule.cluster_k;
  }
  if (c.schedule.split_k > 1) {
    counts.partial_bytes = 8.0 * c.schedule.split_k * c.num_accumulators() * problem.batch *
                           problem.m * c.space.n.size;
  }
  const double tflops = math_tflops(target, c.space.math);
  const double flops =
      2.0 * problem.batch * problem.m * c.space.n.size * c.space.k.size * c.num_accumulators() +
      problem.epilogue_flops;
  return predict(counts, target, problem.weight_bytes + problem.epilogue_bytes, flops, tflops,
                 problem.epilogue_flops);
}

}  // namespace catenary
