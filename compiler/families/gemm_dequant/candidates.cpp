// SPDX-License-Identifier: Apache-2.0
// The candidate list, and what each needs of a target.
#include "compiler/families/gemm_dequant/candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <optional>

#include "compiler/families/dequant_operand.h"
#include "compiler/families/gemm_dequant/cost.h"
#include "ir/counted.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

namespace catenary {
namespace {

// Shared memory that a CTA takes beside its own.
constexpr i64 kReservedSmem = 1024;
constexpr int kClusters[] = {1, 2, 4, 8};
constexpr i32 kMostColumns = 128;
constexpr int kMostStages = 8;

// With fewer registers at launch ptxas serialises MMAs (C7512) or finds none for one (C7602),
// though setmaxnreg gives the warp more.
i32 least_launch_registers(const GemmDequantConfig& c) {
  return std::max(64, c.tile.columns / 2 + 40);
}

// CTAs per SM whose sums fit the registers that they share; 0: the config does not fit.
int resident_ctas(const Target& target, GemmDequantConfig c) {
  if (c.smem_bytes() > target.smem_per_cta) return 0;
  const i64 by_smem = target.smem_per_sm / (c.smem_bytes() + kReservedSmem);
  for (int ctas = static_cast<int>(std::min({by_smem, i64{2048} / c.threads(), i64{4}})); ctas > 0;
       --ctas) {
    c.schedule.ctas_per_sm = ctas;
    if (c.launch_registers() < least_launch_registers(c)) continue;
    if (c.mma_registers() >= estimated_registers(c)) return ctas;
  }
  return 0;
}

// Every CTA has a row tile, two stages and two k-tiles of two K blocks. A stage is released after
// the next one has arrived. ptxas unrolls a loop over one k-tile, or two short ones, and then
// serialises its MMAs (C7512, C7513).
bool holds(const GemmDequantConfig& c) {
  return c.loads.stages > 1 && c.loads.stage_blocks > 1 && c.k_tiles() / c.k_slices() > 1 &&
         c.runs() <= 32 && c.tile.columns <= 256 &&
         c.schedule.warpgroups % c.num_accumulators() == 0 &&
         c.fragments() * c.loads.stage_blocks % 2 == 0 && c.schedule.n_slices <= c.n_tiles() &&
         c.tile.row_tiles == ceil_div(c.n_tiles(), c.schedule.n_slices);
}

std::string describe(const GemmDequantConfig& c, int ctas) {
  return fmt::format(
      "{} rows of W{} x {} of X, {}, {} of {} columns, {} KiB shared, {} per SM{}", c.rows(),
      c.dual ? " and of W2" : "", c.tile.columns, counted(c.schedule.warpgroups, "warpgroup"),
      counted(c.loads.stages, "stage"), c.stage_columns(), c.smem_bytes() / 1024,
      counted(ctas, "CTA"),
      c.schedule.cluster_k > 1 ? fmt::format(", cluster split-K {}", c.schedule.cluster_k) : "");
}

// Nothing: the config does not hold the problem, or the target not `least_ctas` of its CTAs per SM.
std::optional<Candidate> as_candidate(const GemmDequantProblem& problem, const Target& target,
                                      GemmDequantConfig c, int least_ctas) {
  if (!holds(c)) return std::nullopt;
  const int ctas = resident_ctas(target, c);
  if (ctas < least_ctas) return std::nullopt;
  c.schedule.ctas_per_sm = ctas;
  return Candidate{{"gemm_dequant", tile_name(c), 1},
                   c,
                   ctas,
                   predict_gemm_dequant(problem, target, c, ctas),
                   describe(c, ctas),
                   "",
                   SumOrder()};
}

// A CTA's row tiles follow from slices of N, where the name has them, and else the slices from
// them.
bool read_name(const std::string& name, GemmDequantConfig& c) {
  int length = 0;
  const int read =
      std::sscanf(name.c_str(), "packed%dt%dx%ds%db%d%n", &c.schedule.warpgroups, &c.tile.row_tiles,
                  &c.tile.columns, &c.loads.stages, &c.loads.stage_blocks, &length);
  if (read != 5) return false;
  llvm::StringRef rest = llvm::StringRef(name).drop_front(static_cast<size_t>(length));
  const auto within = [](i64 value, i64 hi) { return value >= 1 && value <= hi; };
  if (!within(c.tile.row_tiles, 32) || !within(c.schedule.warpgroups, 4)) return false;
  c.schedule.n_slices = ceil_div(c.n_tiles(), c.tile.row_tiles);
  if (rest.consume_front("c") && rest.consumeInteger(10, c.schedule.cluster_k)) return false;
  if (rest.consume_front("n") && rest.consumeInteger(10, c.schedule.n_slices)) return false;
  return within(c.tile.columns, 256) && c.tile.columns % 8 == 0 && within(c.loads.stages, 16) &&
         within(c.loads.stage_blocks, 8) && within(c.schedule.cluster_k, 8) &&
         within(c.schedule.n_slices, c.n_tiles()) &&
         std::has_single_bit(static_cast<u32>(c.schedule.cluster_k)) && tile_name(c) == name;
}

// The deepest pipeline with which `ctas` CTAs fit an SM: at least three stages, or the whole
// k-slice.
std::optional<Candidate> deepest(const GemmDequantProblem& problem, const Target& target,
                                 GemmDequantConfig c, int ctas) {
  const i64 k_tiles = ceil_div(c.k_tiles(), c.k_slices());
  const i64 most = std::min<i64>(k_tiles, kMostStages);
  for (i64 stages = most; stages >= std::min<i64>(most, 3); --stages) {
    c.loads.stages = static_cast<i32>(stages);
    if (auto candidate = as_candidate(problem, target, c, ctas)) return candidate;
  }
  return std::nullopt;
}

// Rows of X of a CTA: all, or equal parts of at most kMostColumns, and of half as many. Ragged
// groups have the mean of a group, and twice as many: half of the groups have more than the mean.
std::vector<i32> column_counts(const GemmDequantProblem& problem) {
  std::vector<i32> counts;
  const auto add = [&](i64 rows, i64 most) {
    const i64 tiles = ceil_div(rows, most);
    const i32 columns = static_cast<i32>(ceil_div(ceil_div(rows, tiles), i64{8}) * 8);
    if (!llvm::is_contained(counts, columns)) counts.push_back(columns);
  };
  i64 rows = std::max<i64>(problem.m, 1);
  if (problem.base.has_groups()) {
    rows = ceil_div(rows, problem.base.ragged.num_groups);
    add(2 * rows, kMostColumns);
  }
  for (const i64 most : {kMostColumns, kMostColumns / 2}) add(rows, most);
  return counts;
}

// Numbers of slices of N to try. Some give each SM a whole number of CTAs, up to kMostPerSm. The
// others give each CTA whole fragments.
std::vector<i64> slice_counts(const GemmDequantProblem& problem, const Target& target,
                              const GemmDequantConfig& c, i64 most_row_tiles) {
  constexpr i64 kMostPerSm = 4;
  const i64 shares = problem.batch * c.schedule.cluster_k *
                     std::max<i64>(std::llround(problem.column_tiles(c.tile.columns)), 1);
  std::vector<i64> counts;
  const auto add = [&](i64 slices) {
    const i64 tiles = ceil_div(c.n_tiles(), std::clamp<i64>(slices, 1, c.n_tiles()));
    // As many as these row tiles need: equal slices where N divides.
    const i64 equal = ceil_div(c.n_tiles(), tiles);
    const i64 kept = equal * 8 < slices * 7 && slices <= c.n_tiles() ? slices : equal;
    if (tiles <= most_row_tiles && !llvm::is_contained(counts, kept)) counts.push_back(kept);
  };
  for (i64 per_sm = 1; per_sm <= kMostPerSm; ++per_sm)
    add(std::max<i64>(per_sm * target.sm_count / shares, 1));
  const i64 fragment = 4 * c.weight_warpgroups();
  for (i64 tiles = fragment; tiles <= most_row_tiles; tiles += fragment)
    add(ceil_div(c.n_tiles(), tiles));
  return counts;
}

}  // namespace

std::string tile_name(const GemmDequantConfig& c) {
  std::string name = fmt::format("packed{}t{}x{}s{}b{}", c.schedule.warpgroups, c.tile.row_tiles,
                                 c.tile.columns, c.loads.stages, c.loads.stage_blocks);
  if (c.schedule.cluster_k > 1) name += fmt::format("c{}", c.schedule.cluster_k);
  if (c.schedule.n_slices != ceil_div(c.n_tiles(), c.tile.row_tiles))
    name += fmt::format("n{}", c.schedule.n_slices);
  return name;
}

std::vector<Candidate> gemm_dequant_candidates(const GemmDequantProblem& problem,
                                               const Target& target, const TileRequest& request) {
  std::vector<Candidate> candidates;
  if (request.split_k > 1) return candidates;
  GemmDequantConfig base = problem.base;
  if (!request.tile.empty()) {
    if (read_name(request.tile, base)) {
      if (auto candidate = as_candidate(problem, target, base, 1)) candidates.push_back(*candidate);
    }
    return candidates;
  }
  llvm::StringSet<> names;
  const auto add = [&](GemmDequantConfig c, i64 most_row_tiles, int ctas) {
    for (const i64 slices : slice_counts(problem, target, c, most_row_tiles)) {
      c.schedule.n_slices = slices;
      c.tile.row_tiles = static_cast<i32>(ceil_div(c.n_tiles(), slices));
      auto candidate = deepest(problem, target, c, ctas);
      if (candidate && names.insert(candidate->id.tile).second)
        candidates.push_back(std::move(*candidate));
    }
  };
  const int warpgroups[] = {2, 1, 3, 4};
  for (const i32 columns : column_counts(problem)) {
    for (const int groups : warpgroups) {
      if (groups % base.num_accumulators() != 0) continue;
      for (const int cluster : kClusters) {
        for (const int blocks : {2, 4}) {
          GemmDequantConfig c = base;
          c.tile.columns = columns;
          c.schedule.warpgroups = groups;
          c.schedule.cluster_k = cluster;
          c.loads.stage_blocks = blocks;
          const i64 most =
              std::min<i64>(i64{4} * c.weight_warpgroups() * 4, 32 / base.num_accumulators());
          for (const int ctas : {1, 2, 3}) add(c, most, ctas);
        }
      }
    }
  }
  return candidates;
}

std::optional<Candidate> gemm_dequant_candidate_like(const GemmDequantProblem& problem,
                                                     const Target& target,
                                                     const GemmDequantConfig& shared) {
  GemmDequantConfig c = problem.base;
  if (shared.runs() % c.num_accumulators() != 0) return std::nullopt;
  const bool w_is_weight = c.loads.w_is_weight;
  c.tile = shared.tile;
  c.loads = shared.loads;
  c.loads.w_is_weight = w_is_weight;
  c.schedule = shared.schedule;
  share_slices(c, shared);
  return as_candidate(problem, target, c, 1);
}

}  // namespace catenary
