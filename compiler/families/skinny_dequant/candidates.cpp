// SPDX-License-Identifier: Apache-2.0
// The candidate list, what each needs of a target, and its counts for the cost model.
#include "compiler/families/skinny_dequant/candidates.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <optional>

#include "compiler/families/roofline.h"

namespace catenary {
namespace {

// Shared memory that a CTA takes beside its own.
constexpr i64 kReservedSmem = 1024;

constexpr int kWarps[] = {8, 16, 4};
constexpr int kRowTiles[] = {1, 2, 4};
constexpr int kClusters[] = {1, 2, 4, 8};
constexpr int kStageBlocks[] = {1, 2, 4, 8};
constexpr int kStages = 4;

// Addresses, counters and the epilogue's operands take about 32 registers; the rest are sums, a
// half of a K block of X, and a fragment of q with its offsets.
int estimated_registers(const SkinnyDequantConfig& c) {
  const int columns = c.tile.columns / 8;
  return 32 + c.tile.row_tiles * columns * 8 + columns * 4 + 12;
}

// CTAs per SM, at least two so that one streams while another ends; 0: the config does not fit.
int resident_ctas(const Target& target, const SkinnyDequantConfig& c) {
  const i64 by_smem = target.smem_per_sm / (c.smem_bytes() + kReservedSmem);
  const i64 by_registers = 65536 / (i64{c.threads()} * estimated_registers(c));
  const i64 ctas = std::min({by_smem, by_registers, i64{2048} / c.threads(), i64{4}});
  return ctas >= 2 && c.smem_bytes() <= target.smem_per_cta ? static_cast<int>(ctas) : 0;
}

// A vector of D for each thread.
void fit_vectors(SkinnyDequantConfig& c) {
  while (c.vectors() > c.threads() && c.vec < 8) c.vec *= 2;
}

// Every warp has a K block, and every vector of D a thread.
bool holds(const SkinnyDequantConfig& c) {
  return c.k_blocks() / c.k_slices() >= c.tile.warps && c.vectors() <= c.threads() &&
         c.tile.columns % c.schedule.cluster_k == 0 && c.threads() <= 1024;
}

Prediction predict_dequant(const SkinnyDequantProblem& problem, const Target& target,
                           const SkinnyDequantConfig& c, int resident) {
  const double rows = static_cast<double>(problem.m);
  const double k_blocks = static_cast<double>(ceil_div(c.k_blocks(), c.k_slices()));
  Counts counts;
  counts.streams = true;
  counts.units = static_cast<double>(ceil_div(c.space.n.size, c.rows()) * c.k_slices());
  counts.resident = resident;
  counts.early_weights = c.loads.w_is_weight;
  const double even = counts.units / target.sm_count;
  counts.units_per_sm = counts.early_weights ? std::max(even, 1.0) : std::ceil(even);
  counts.k_tiles = counts.stages = k_blocks;
  counts.l2_bytes = c.tile.row_tiles * c.tile_bytes() + rows * 128;
  counts.register_bytes = rows * k_blocks * 128;
  if (c.schedule.cluster_k > 1) {
    counts.exchange_bytes = static_cast<double>(c.tile.columns) * c.rows() * 4 *
                            (c.schedule.cluster_k - 1) / c.schedule.cluster_k;
  }
  const double flops = 2.0 * problem.m * c.space.n.size * c.space.k.size + problem.epilogue_flops;
  return predict(counts, target, problem.weight_bytes + problem.other_bytes, flops,
                 math_tflops(target, c.space.math), problem.epilogue_flops);
}

// "t2", "s4" and so on, each once and in this order; the cluster where there is one.
bool read_name(const std::string& name, SkinnyDequantConfig& c) {
  int length = 0;
  const int read = std::sscanf(name.c_str(), "dequant%dt%ds%db%d%n", &c.tile.warps,
                               &c.tile.row_tiles, &c.loads.stages, &c.loads.stage_blocks, &length);
  if (read != 4) return false;
  const std::string rest = name.substr(static_cast<size_t>(length));
  if (!rest.empty() && std::sscanf(rest.c_str(), "c%d", &c.schedule.cluster_k) != 1) return false;
  const auto within = [](int value, int hi) { return value >= 1 && value <= hi; };
  return within(c.tile.warps, 32) && within(c.tile.row_tiles, 8) && within(c.loads.stages, 32) &&
         within(c.loads.stage_blocks, 64) && within(c.schedule.cluster_k, 8) &&
         std::has_single_bit(static_cast<u32>(c.schedule.cluster_k)) && tile_name(c) == name;
}

std::string describe(const SkinnyDequantConfig& c, int ctas) {
  return fmt::format(
      "{} rows of W, {} warps, {} stages of {} K blocks each, {} KiB shared, {} CTAs "
      "per SM{}",
      c.rows(), c.tile.warps, c.loads.stages, c.loads.stage_blocks, c.smem_bytes() / 1024, ctas,
      c.schedule.cluster_k > 1 ? fmt::format(", cluster split-K {}", c.schedule.cluster_k) : "");
}

// Nothing: the config does not hold the problem, or the target not the config.
std::optional<Candidate> as_candidate(const SkinnyDequantProblem& problem, const Target& target,
                                      SkinnyDequantConfig c) {
  fit_vectors(c);
  if (!holds(c)) return std::nullopt;
  const int ctas = resident_ctas(target, c);
  if (ctas == 0) return std::nullopt;
  return Candidate{{"skinny_dequant", tile_name(c), 1},
                   c,
                   ctas,
                   predict_dequant(problem, target, c, ctas),
                   describe(c, ctas),
                   "",
                   SumOrder::kOther};
}

// The largest stages with room for rings of kStages, so that a warp waits seldom. A ring is no
// deeper than the warp's slice of K.
std::optional<Candidate> deepest(const SkinnyDequantProblem& problem, const Target& target,
                                 SkinnyDequantConfig c) {
  std::optional<Candidate> best;
  for (const int blocks : kStageBlocks) {
    if (best && blocks * 2 > c.warp_blocks()) break;
    c.loads.stage_blocks = blocks;
    c.loads.stages = static_cast<i32>(std::min<i64>(ceil_div(c.warp_blocks(), blocks), kStages));
    if (auto candidate = as_candidate(problem, target, c)) best = std::move(candidate);
  }
  return best;
}

}  // namespace

std::string tile_name(const SkinnyDequantConfig& c) {
  return fmt::format("dequant{}t{}s{}b{}{}", c.tile.warps, c.tile.row_tiles, c.loads.stages,
                     c.loads.stage_blocks,
                     c.schedule.cluster_k > 1 ? fmt::format("c{}", c.schedule.cluster_k) : "");
}

std::vector<Candidate> skinny_dequant_candidates(const SkinnyDequantProblem& problem,
                                                 const Target& target, const TileRequest& request) {
  std::vector<Candidate> candidates;
  if (request.split_k > 1) return candidates;
  SkinnyDequantConfig base = problem.base;
  base.tile.columns = static_cast<i32>(std::max<i64>(ceil_div(problem.m, 8), 1) * 8);
  if (!request.tile.empty()) {
    if (read_name(request.tile, base)) {
      if (auto candidate = as_candidate(problem, target, base)) candidates.push_back(*candidate);
    }
    return candidates;
  }
  for (const int warps : kWarps) {
    for (const int row_tiles : kRowTiles) {
      for (const int cluster : kClusters) {
        SkinnyDequantConfig c = base;
        c.tile.warps = warps;
        c.tile.row_tiles = row_tiles;
        c.schedule.cluster_k = cluster;
        if (auto candidate = deepest(problem, target, c)) candidates.push_back(*candidate);
      }
    }
  }
  // K of few blocks: fewer warps.
  for (const int warps : {2, 1}) {
    if (!candidates.empty()) break;
    SkinnyDequantConfig c = base;
    c.tile.warps = warps;
    if (auto candidate = deepest(problem, target, c)) candidates.push_back(*candidate);
  }
  return candidates;
}

}  // namespace catenary
