// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/gemm_dequant/cost.h"

#include <algorithm>
#include <cmath>

#include "compiler/families/roofline.h"

namespace catenary {

// Addresses, counters and descriptors take about 28 registers, A of a step 16: that of the next one
// fits beside them until the sums are scaled. A scale or zero takes one for this k-tile and one for
// the next.
int estimated_registers(const GemmDequantConfig& c) {
  const int sums = (c.fragments() + c.open_sums()) * c.tile.columns / 2;
  const int numbers = c.fragments() * c.scaled_parts() * 2 * (c.w.has_zero ? 2 : 1);
  return 28 + 16 + sums + numbers * (c.has_row_scales() ? 1 : 2);
}

namespace {

// Clocks of a warp for a k-tile while its MMAs do not run, and instructions of a k-tile: unpacking,
// scales, and the additions of what was open.
struct WarpClocks {
  double waits = 0;
  double issued = 0;
};

WarpClocks warp_clocks(const GemmDequantConfig& c) {
  const double unpack = c.w.dtype == DType::kI8 ? 16 : 13;  // of A of one MMA
  const double steps = c.fragments() * c.loads.stage_blocks;
  const double parts = c.has_row_scales() ? 0 : c.fragments() * c.scaled_parts();
  WarpClocks clocks;
  clocks.issued = 60 + steps * (4 * unpack + 30) + parts * (c.tile.columns + 20);
  clocks.waits = 60 + parts * (c.tile.columns + 90);
  return clocks;
}

}  // namespace

Prediction predict_gemm_dequant(const GemmDequantProblem& problem, const Target& target,
                                const GemmDequantConfig& c, int resident) {
  const double column_tiles = static_cast<double>(ceil_div(problem.m, i64{c.tile.columns}));
  Counts counts;
  counts.units =
      static_cast<double>(problem.batch * c.schedule.n_slices * c.k_slices()) * column_tiles;
  counts.resident =
      static_cast<double>(target.ctas_at_once(c.schedule.cluster_k, resident)) / target.sm_count;
  counts.units_per_sm = std::ceil(counts.units / target.sm_count);
  counts.early_weights = c.loads.w_is_weight;
  counts.k_tiles = static_cast<double>(ceil_div(c.k_tiles(), c.k_slices()));
  counts.stages = c.loads.stages;
  const double rows = 64.0 * c.fragments() * c.schedule.warpgroups;
  counts.mma_flop = 2 * rows * c.tile.columns * c.stage_columns();
  const WarpClocks clocks = warp_clocks(c);
  const double held = std::min<double>(resident, counts.units_per_sm);
  // Of a k-tile of one CTA, while `held` CTAs share the SM's schedulers.
  const double mma = counts.mma_flop / held / 4096;
  counts.issue_clocks = std::max(clocks.issued * c.schedule.warpgroups,
                                 (std::max(mma, clocks.issued) + clocks.waits) / held);
  counts.l2_bytes = c.x_bytes() + c.runs() * c.run_bytes();
  counts.accumulators = 16.0 * c.runs() * c.tile.columns;
  counts.epilogue_waits = 1;
  if (c.schedule.cluster_k > 1) {
    counts.exchange_bytes = static_cast<double>(c.tile.columns) * c.sum_bytes() *
                            (c.schedule.cluster_k - 1) / c.schedule.cluster_k;
  }
  const double flops =
      2.0 * problem.batch * problem.m * c.space.n.size * c.space.k.size * c.num_accumulators() +
      problem.epilogue_flops;
  return predict(counts, target, problem.weight_bytes + problem.other_bytes, flops,
                 math_tflops(target, c.space.math), problem.epilogue_flops);
}

}  // namespace catenary
