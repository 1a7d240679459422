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
  // Spills, or MMAs that ptxas serialises, of what counts fewer (RESULTS nvrtc-107): more where
  // sums end within a k-tile, with many steps between them, and with the words of 8 bits.
  const int parts = c.scaled_parts() > 1 ? 24 : c.w.has_zero ? 8 : 4;
  const int words = c.w.dtype == DType::kI8 ? 12 : 0;
  const int open = c.fragments() > 1 ? 32 : c.loads.stage_blocks > 2 ? 24 : 10;
  if (c.has_row_scales()) return 28 + 16 + sums + numbers + parts + open;
  return 28 + 16 + sums + 2 * numbers + parts + words;
}

double GemmDequantProblem::column_tiles(i32 columns) const {
  if (base.has_groups()) {
    return grouped_row_tiles(static_cast<double>(m), static_cast<double>(base.ragged.num_groups),
                             columns);
  }
  return static_cast<double>(ceil_div(m, i64{columns}));
}

namespace {

// Clocks in which an SM does a k-tile of `warpgroups` warpgroups, those of all its CTAs. A step, a
// K block of a fragment, has its MMAs on the tensor cores and its instructions on the schedulers,
// both shared; a warpgroup by itself has them one after the other (RESULTS dequant-8, dequant-17).
double k_tile_clocks(const GemmDequantConfig& c, double warpgroups) {
  const double kInstructions =
      c.w.dtype == DType::kI8 ? 140 : 82;  // of a step: unpacking, descriptors, addresses
  constexpr double kScales = 64;           // of a part, beside its additions
  constexpr double kShare = 0.9;           // of the instructions that MMAs do not overlap
  constexpr double kBoth = 0.7;            // of the shorter of both, where warpgroups share
  constexpr double kLeastMma = 60;         // until its result
  constexpr double kBarriers = 300;        // of a k-tile
  constexpr double kNorm = 2.2;
  constexpr double kThree = 1.08;  // of three warpgroups in a CTA
  const double parts =
      c.has_row_scales() ? 0 : c.scaled_parts() / static_cast<double>(c.loads.stage_blocks);
  const double pipe = 1.2 * c.tile.columns;  // 1 is the rate of the tensor cores
  const double issued = kInstructions + parts * (c.tile.columns / 2.0 + kScales);
  const double shared = warpgroups * (std::max(pipe, issued) + kBoth * std::min(pipe, issued));
  const double alone = std::max(pipe, kLeastMma) + kShare * issued;
  const double three = c.schedule.warpgroups == 3 ? kThree : 1;
  const double step = three * std::pow(std::pow(shared, kNorm) + std::pow(alone, kNorm), 1 / kNorm);
  return c.fragments() * c.loads.stage_blocks * step + kBarriers;
}

// Full rounds of CTAs; CTAs of the busiest SM in each of them, and in the round after them.
struct Rounds {
  double full = 0, held = 0, last = 0;
};

// Where places stay free, some SMs take as many CTAs as fit while others take none: those of a
// cluster, and those of the next kernel. The mean of that and of an even spread is taken (RESULTS
// dequant-10); after a full round places become free one by one. `resident`: CTAs of an SM in the
// mean; `most`: of one SM.
Rounds rounds_of(double units, double resident, int sms, int most) {
  Rounds rounds;
  rounds.full = std::floor(units / (resident * sms));
  rounds.held = rounds.full > 0 ? most : 0;
  const double rest = units - rounds.full * resident * sms;
  const double even = std::ceil(rest / sms);
  rounds.last = rounds.full > 0 ? even : (even + std::min<double>(most, rest)) / 2;
  return rounds;
}

}  // namespace

Prediction predict_gemm_dequant(const GemmDequantProblem& problem, const Target& target,
                                const GemmDequantConfig& c, int resident) {
  const double column_tiles = problem.column_tiles(c.tile.columns);
  Counts counts;
  counts.units =
      static_cast<double>(problem.batch * c.schedule.n_slices * c.k_slices()) * column_tiles;
  counts.resident =
      static_cast<double>(target.ctas_at_once(c.schedule.cluster_k, resident)) / target.sm_count;
  const Rounds rounds = rounds_of(counts.units, counts.resident, target.sm_count, resident);
  counts.units_per_sm = std::max(rounds.full * rounds.held + rounds.last, 1.0);
  counts.early_weights = c.loads.w_is_weight;
  counts.k_tiles = static_cast<double>(ceil_div(c.k_tiles(), c.k_slices()));
  counts.stages = c.loads.stages;
  const double rows = 64.0 * c.fragments() * c.schedule.warpgroups;
  counts.mma_flop = 2 * rows * c.tile.columns * c.stage_columns();
  const auto round_clocks = [&](double ctas) {
    return ctas > 0 ? k_tile_clocks(c, ctas * c.schedule.warpgroups) : 0;
  };
  counts.issue_clocks =
      (rounds.full * round_clocks(rounds.held) + round_clocks(rounds.last)) / counts.units_per_sm;
  counts.l2_bytes = c.x_bytes() + c.runs() * c.run_bytes();
  // Sums go through shared memory.
  counts.accumulators = 2 * 16.0 * c.runs() * c.tile.columns;
  if (c.schedule.cluster_k > 1) {
    counts.exchange_bytes = static_cast<double>(c.tile.columns) * c.sum_bytes() *
                            (c.schedule.cluster_k - 1) / c.schedule.cluster_k;
    counts.exchange_waits = 0.1 + 0.2 * std::log2(c.schedule.cluster_k);  // RESULTS dequant-17
  }
  const double flops =
      2.0 * problem.batch * problem.m * c.space.n.size * c.space.k.size * c.num_accumulators() +
      problem.epilogue_flops;
  return predict(counts, target, problem.weight_bytes + problem.other_bytes, flops,
                 math_tflops(target, c.space.math), problem.epilogue_flops);
}

}  // namespace catenary
