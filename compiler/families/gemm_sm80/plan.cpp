// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a contraction (or a gated pair) -> `gemm_sm80` kernels.
#include <algorithm>
#include <cmath>

#include "compiler/families/contraction_axes.h"
#include "compiler/families/gemm_sm80/candidates.h"
#include "compiler/families/split_k.h"

namespace catenary {
namespace {

// Should the next kernel start with this one? Of 99 shapes of few rows on an H200, launched early
// and late, 53 of the 55 whole sums were faster late, by up to 1.5 times; of the 44 K splits 23
// were faster early, by up to 1.27: those over about all SMs whose fix-up has something to do (more
// than four rows) but no more than a CTA per SM.
bool launches_early(const GemmProblem& problem, const Target& target, const GemmSm80Config& c,
                    i64 ctas) {
  const i64 outputs = problem.batch * problem.m * problem.n;
  return c.split_k > 1 && problem.m > 4 && 10 * ctas >= 9 * target.sm_count &&
         outputs <= i64{1024} * target.sm_count;
}

std::string candidate_text(const GemmCandidate& candidate) {
  const GemmSm80Config& c = candidate.config;
  return fmt::format("tile {}, {} x {} warps, {} stages, {} KiB shared, {} CTAs per SM{}",
                     fmt::format("{}x{}x{}", c.block_m, c.block_n, c.block_k), c.warps_m, c.warps_n,
                     c.stages, c.smem_bytes() / 1024, candidate.min_ctas,
                     c.split_k > 1 ? fmt::format(", K split in {}", c.split_k) : "");
}

GridRule grid_rule(const GemmSm80Config& c) {
  GridRule grid;
  grid.fixed = c.split_k * ceil_div(c.n.size, c.block_n);
  for (const Extent& extent : c.batch.at) grid.fixed *= extent.size;
  grid.size = c.m.size;
  grid.scale = c.m.scale;
  grid.block = c.block_m;
  if (c.ragged == Ragged::kMGrouped) grid.extra = c.num_groups + 1;
  return grid;
}

void note_runner_ups(const std::vector<GemmCandidate>& ranked, size_t chosen, KernelPlan& kernel) {
  for (size_t i = 0; i < ranked.size() && kernel.runner_ups.size() < 3; ++i) {
    if (i == chosen) continue;
    kernel.runner_ups.push_back(
        {candidate_text(ranked[i]), ranked[i].predicted.us, ranked[i].rejected});
  }
  for (size_t i = 0; i < ranked.size(); ++i) {
    const GemmCandidate& tile = ranked[i];
    kernel.tiles.push_back({tile_name(tile.config), tile.config.split_k, tile.predicted.us,
                            tile.rejected, i == chosen});
  }
}

// The first candidate that fits and was not refused before, or the reason why there is none.
Expected<size_t> choose(const GroupContext& context, const std::vector<GemmCandidate>& ranked) {
  const auto& refused = context.options.rejected;
  for (size_t i = 0; i < ranked.size(); ++i) {
    if (!ranked[i].rejected.empty()) break;
    if (!llvm::is_contained(refused, candidate_text(ranked[i]))) return i;
  }
  const std::string& name = context.chain.value(context.group.anchors[0]).name;
  if (ranked.empty()) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "no tile for '{}' that fits {} is named '{}'{}: `catenary bench --tiles all` names "
        "those that do",
        name, context.target.name, context.options.force_tile,
        context.options.split_k > 0 ? fmt::format(" with K split in {}", context.options.split_k)
                                    : "");
  }
  return make_error(
      ErrorCode::kResourceLimit, "no gemm_sm80 tile for '{}' fits {}: the smallest {}", name,
      context.target.name,
      ranked.back().rejected.empty() ? "was refused by ptxas" : ranked.back().rejected);
}

}  // namespace

GemmProblem make_gemm_problem(const GroupContext& context, const GemmAxes& axes) {
  GemmProblem problem;
  problem.base = axes.config;
  const GemmSm80Config& c = axes.config;
  for (const Extent& extent : c.batch.at) problem.batch *= largest(extent, context.symbol_hi);
  problem.m = largest(c.m, context.symbol_hi);
  problem.n = largest(c.n, context.symbol_hi);
  problem.k = largest(c.k, context.symbol_hi) * c.k_outer;
  for (size_t i = 0; i < context.tensors.places.size(); ++i) {
    const bool matrix = llvm::is_contained(context.tensors.matrices, static_cast<int>(i));
    (matrix ? problem.matrix_bytes : problem.epilogue_bytes) +=
        context.tensors.places[i].binding.bytes;
  }
  // A ragged reduction splits its terms over the groups.
  if (c.ragged == Ragged::kKGrouped)
    problem.k = ceil_div(problem.k, std::max<i64>(c.num_groups, 1));
  problem.epilogue_flops = program_flops(axes.program, problem.batch * problem.m * problem.n);
  return problem;
}

Error plan_gemm_sm80(const GroupContext& context, std::vector<KernelPlan>& kernels) {
  Expected<GemmAxes> axes = make_gemm_axes(context);
  if (!axes) return axes.takeError();
  const GemmProblem problem = make_gemm_problem(context, *axes);
  const auto ranked = rank_gemm_candidates(problem, context.target, context.options);
  Expected<size_t> chosen = choose(context, ranked);
  if (!chosen) return chosen.takeError();
  const GemmCandidate& best = ranked[*chosen];
  GemmSm80Config c = best.config;
  c.trigger_early =
      launches_early(problem, context.target, c, grid_rule(c).ctas(context.symbol_hi));

  KernelPlan kernel;
  kernel.family = Family::kGemmSm80;
  kernel.config = c;
  kernel.program = axes->program;
  kernel.slots = bind_slots(context.tensors);
  kernel.scalars = context.tensors.scalars;
  kernel.grid = grid_rule(c);
  kernel.threads = c.threads();
  kernel.smem_bytes = c.smem_bytes();
  kernel.min_ctas = best.min_ctas;
  kernel.symbol = fmt::format("{}_gemm_m{}n{}k{}", context.name, c.block_m, c.block_n, c.block_k);
  kernel.config_text = candidate_text(best);
  kernel.predicted = best.predicted;
  note_runner_ups(ranked, *chosen, kernel);
  finish_split(context, axes->program,
               {c.batch, c.batch_rank, c.m, c.n, c.split_k, c.num_accumulators()},
               std::move(kernel), kernels);
  return Error::success();
}

}  // namespace catenary
