// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a contraction (or a gated pair) of few rows -> `skinny` kernels, where the
// layout allows it and the cost model prefers it to `gemm_sm80`.
#include <algorithm>

#include "compiler/families/contraction_axes.h"
#include "compiler/families/skinny/candidates.h"
#include "compiler/families/split_k.h"

namespace catenary {
namespace {

bool exact(const Extents& extents) {
  return llvm::all_of(extents.at, [](const Extent& extent) { return extent.scale == 0; });
}

// 16-byte copies along K, from any row.
bool streams(const MatrixOperand& operand) {
  return operand.k_major && operand.stride_k == 1 && operand.copy_bytes == 16;
}

// Rows of X that a CTA meets: all, or the mean of the ragged groups.
i64 rows_of_x(const GroupContext& context, const GemmSm80Config& c) {
  const i64 m = largest(c.m, context.symbol_hi);
  return c.ragged == Ragged::kNone ? m : ceil_div(m, c.num_groups);
}

// Batch entries that read the same W: a kernel for few rows reads it again for each. What merges
// into M elsewhere is a batch where M is ragged.
i64 readers(const GemmSm80Config& c) {
  i64 count = 1;
  if (c.ragged == Ragged::kNone) return count;
  for (int d = 0; d < kMaxDims; ++d) {
    if (c.b.stride_batch.at[d] == 0) count *= c.batch.at[d].size;
  }
  return count;
}

// Ragged groups that may have rows.
i64 occupied_groups(const GroupContext& context, const GemmSm80Config& c) {
  return c.ragged == Ragged::kNone ? 1 : std::min(largest(c.m, context.symbol_hi), c.num_groups);
}

i64 most_rows(const GemmSm80Config& c) {
  return c.ragged == Ragged::kNone ? kSkinnyRows : kSkinnyRaggedRows;
}

bool suits(const GroupContext& context, const GemmSm80Config& c) {
  if (c.ragged == Ragged::kKGrouped || (c.ragged == Ragged::kMGrouped && c.num_groups <= 0))
    return false;
  const i64 block = 128 / c.element_bytes();
  const bool kind = c.ragged == Ragged::kNone || context.target.compute_capability() == 90;
  return context.target.compute_capability() >= 80 && kind && c.math != MathMode::kF32 &&
         c.k_outer == 1 && c.k.scale == 0 && c.k.size > 0 && c.k.size % block == 0 &&
         c.n.scale == 0 && c.n.size > 0 && exact(c.batch) &&
         rows_of_x(context, c) * readers(c) <= most_rows(c) && streams(c.a) && streams(c.b) &&
         (!c.dual || streams(c.b2));
}

bool is_weight(const GroupContext& context, const MatrixOperand& operand) {
  return context.tensors.places[operand.slot].weight;
}

SkinnyProblem make_problem(const GroupContext& context, const GemmAxes& axes) {
  const GemmSm80Config& c = axes.config;
  SkinnyProblem problem;
  SkinnyConfig& base = problem.base;
  base.math = c.math;
  base.batch = c.batch;
  base.batch_rank = c.batch_rank;
  base.m = c.m;
  base.n = c.n;
  base.k_blocks = c.k.size * c.element_bytes() / 128;
  base.x = c.a;
  base.w = c.b;
  base.w2 = c.b2;
  base.dual = c.dual;
  base.ragged = c.ragged;
  base.group_ends_slot = c.group_ends_slot;
  base.num_groups = c.num_groups;
  base.w_is_weight =
      c.ragged == Ragged::kNone && is_weight(context, c.b) && (!c.dual || is_weight(context, c.b2));
  for (const Extent& extent : c.batch.at) problem.batch *= extent.size;
  problem.batch *= occupied_groups(context, c);
  problem.m = rows_of_x(context, c);
  problem.weight_bytes = context.tensors.places[c.b.slot].binding.bytes;
  if (c.dual) problem.weight_bytes += context.tensors.places[c.b2.slot].binding.bytes;
  for (const MemoryLocation& place : context.tensors.places) {
    problem.epilogue_bytes += place.binding.bytes;
  }
  problem.epilogue_bytes -= problem.weight_bytes;
  // W of a group without rows is not read.
  if (c.ragged == Ragged::kMGrouped) {
    problem.weight_bytes = problem.weight_bytes / c.num_groups * occupied_groups(context, c);
  }
  problem.epilogue_flops = program_flops(axes.program, problem.batch * problem.m * c.n.size);
  return problem;
}

std::string candidate_text(const SkinnyCandidate& candidate) {
  const SkinnyConfig& c = candidate.config;
  return fmt::format(
      "{} rows of W, {} x {} warps, of K {} bytes per warp shared and {} in registers, {} KiB "
      "shared{}, {} CTAs per SM{}{}{}",
      c.rows(), c.warps_k, c.warps_n, c.shared_blocks * 128, c.register_blocks * 128,
      c.smem_bytes() / 1024, c.bulk ? "" : " by cp.async", candidate.min_ctas,
      c.split_k > 1 ? fmt::format(", K split in {}", c.split_k) : "",
      c.cluster_k > 1 ? fmt::format(", K shared by clusters of {}", c.cluster_k) : "",
      c.ragged != Ragged::kNone ? fmt::format(", {} ragged rows at a time", c.columns) : "");
}

// A ragged launch has CTAs for as many groups as may have rows, those behind the last end among
// them: no more than rows, which are few where groups are many.
GridRule grid_rule(const SkinnyConfig& c) {
  GridRule grid;
  grid.fixed = c.k_slices() * ceil_div(c.n.size, c.rows());
  for (const Extent& extent : c.batch.at) grid.fixed *= extent.size;
  grid.size = c.m.size;
  grid.scale = c.m.scale;
  grid.block = c.columns;
  if (c.ragged == Ragged::kMGrouped) {
    grid.block = 1;
    grid.limit = grid.fixed * (c.num_groups + 1);
  }
  return grid;
}

KernelPlan make_kernel(const GroupContext& context, const GemmAxes& axes,
                       const SkinnyCandidate& candidate) {
  const SkinnyConfig& c = candidate.config;
  KernelPlan kernel;
  kernel.family = Family::kSkinny;
  kernel.config = c;
  kernel.program = c.ragged == Ragged::kNone ? with_early_weights(axes.program) : axes.program;
  kernel.slots = bind_slots(context.tensors);
  kernel.scalars = context.tensors.scalars;
  kernel.grid = grid_rule(c);
  kernel.cluster = c.cluster_k;
  kernel.threads = c.threads();
  kernel.smem_bytes = c.smem_bytes();
  kernel.min_ctas = candidate.min_ctas;
  kernel.symbol = fmt::format("{}_skinny_w{}x{}", context.name, c.warps_k, c.warps_n);
  kernel.config_text = candidate_text(candidate);
  kernel.predicted = candidate.predicted;
  return kernel;
}

}  // namespace

Expected<bool> plan_skinny(const GroupContext& context, const KernelPlan* rival,
                           std::vector<KernelPlan>& kernels, std::vector<TileOption>& tiles) {
  Expected<GemmAxes> axes = make_gemm_axes(context);
  if (!axes) return axes.takeError();
  if (!suits(context, axes->config)) return false;
  const auto ranked =
      rank_skinny_candidates(make_problem(context, *axes), context.target, context.options);
  for (const SkinnyCandidate& candidate : ranked) {
    tiles.push_back(
        {tile_name(candidate.config), candidate.config.split_k, candidate.predicted.us, ""});
  }
  const auto chosen = llvm::find_if(ranked, [&](const SkinnyCandidate& candidate) {
    return !llvm::is_contained(context.options.rejected, candidate_text(candidate));
  });
  if (chosen == ranked.end() || (rival != nullptr && chosen->predicted.us > rival->predicted.us)) {
    return false;
  }
  tiles[static_cast<size_t>(chosen - ranked.begin())].chosen = true;
  KernelPlan kernel = make_kernel(context, *axes, *chosen);
  for (const SkinnyCandidate& other : ranked) {
    if (&other == &*chosen || kernel.runner_ups.size() == 2) continue;
    kernel.runner_ups.push_back({candidate_text(other), other.predicted.us, ""});
  }
  if (rival != nullptr) {
    kernel.runner_ups.push_back(
        {fmt::format("{}: {}", family_text(rival->family), rival->config_text), rival->predicted.us,
         ""});
  }
  const SkinnyConfig& c = chosen->config;
  finish_split(context, axes->program,
               {c.batch, c.batch_rank, c.m, c.n, c.split_k, c.num_accumulators()},
               std::move(kernel), kernels);
  return true;
}

}  // namespace catenary
