// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a contraction (or a gated pair) -> `gemm_sm80` kernels, plus a `reduce` kernel
// that adds the parts of a K split and runs the epilogue.
#include <algorithm>
#include <cmath>

#include "compiler/gemm_axes.h"
#include "compiler/gemm_tiles.h"

namespace catenary {
namespace {

std::string candidate_text(const GemmCandidate& candidate) {
  const GemmConfig& c = candidate.config;
  return fmt::format("tile {}, {} x {} warps, {} stages, {} KiB shared, {} CTAs per SM{}",
                     fmt::format("{}x{}x{}", c.block_m, c.block_n, c.block_k), c.warps_m, c.warps_n,
                     c.stages, c.smem_bytes() / 1024, candidate.min_ctas,
                     c.split_k > 1 ? fmt::format(", K split in {}", c.split_k) : "");
}

GridRule grid_rule(const GemmConfig& c) {
  GridRule grid;
  grid.fixed = c.split_k * ceil_div(c.n.size, c.block_n);
  for (const Extent& extent : c.batch.at) grid.fixed *= extent.size;
  grid.size = c.m.size;
  grid.scale = c.m.scale;
  grid.block = c.block_m;
  if (c.ragged == Ragged::kRows) grid.extra = c.groups + 1;
  return grid;
}

// The split kernel's own program: accumulators to f32 partial sums [split][sum][batch..][M][N].
Program partial_stores(const GemmConfig& c, int first_slot, const Dims& step) {
  Program program;
  for (int s = 0; s < c.sums(); ++s) {
    ProgramLine accumulator;
    accumulator.kind = ProgramLine::Kind::kAccumulator;
    accumulator.index = s;
    accumulator.name = fmt::format("sum{}", s);
    accumulator.comment = "sum over this split's part of K";
    program.push_back(accumulator);
  }
  for (int s = 0; s < c.sums(); ++s) {
    ProgramLine store;
    store.kind = ProgramLine::Kind::kStore;
    store.args = {s};
    store.name = fmt::format("sum{}", s);
    store.comment = "to the workspace";
    store.operand.slot = first_slot + s;
    store.operand.vec = 4;
    store.operand.stride = step;
    const i64 n = c.n.size;
    while (n % store.operand.vec != 0) store.operand.vec /= 2;
    program.push_back(store);
  }
  return program;
}

struct PartialLayout {
  Dims step;          // split at index kMaxDims - 3 - batch_rank
  i64 sum_bytes = 0;  // one sum of all splits
};

PartialLayout partial_layout(const GemmConfig& c) {
  PartialLayout layout;
  i64 step = 1;
  layout.step.at[kMaxDims - 1] = step;
  step *= c.n.size;
  layout.step.at[kMaxDims - 2] = step;
  step *= c.m.size;
  for (int b = 0; b < c.batch_rank; ++b) {
    layout.step.at[kMaxDims - 3 - b] = step;
    step *= c.batch.at[kMaxDims - 1 - b].size;
  }
  layout.step.at[kMaxDims - 3 - c.batch_rank] = step;
  // Empty sums have places of their own too.
  layout.sum_bytes = ceil_div(std::max<i64>(step * c.split_k * 4, 1), 256) * 256;
  return layout;
}

KernelPlan fix_up_kernel(const GroupContext& context, const GemmAxes& axes, const GemmConfig& c,
                         const PartialLayout& layout, i64 offset) {
  KernelPlan kernel;
  kernel.family = Family::kReduce;
  kernel.program = axes.program;
  kernel.slots = bind_slots(context.tensors);
  kernel.scalars = context.tensors.scalars;
  ReduceConfig config;
  config.term_rank = 1;
  config.sums = c.sums();
  config.size.at[0] = Extent(c.split_k);
  config.size.at[kMaxDims - 1] = c.n;
  config.size.at[kMaxDims - 2] = c.m;
  for (int b = 0; b < c.batch_rank; ++b) {
    config.size.at[kMaxDims - 3 - b] = c.batch.at[kMaxDims - 1 - b];
  }
  for (int s = 0; s < c.sums(); ++s) {
    SlotBinding slot;
    slot.kind = SlotBinding::Kind::kWorkspace;
    slot.workspace_offset = offset + s * layout.sum_bytes;
    slot.name = "partial sums";
    slot.align = 256;
    slot.bytes = layout.sum_bytes;
    ProgramLine load;
    load.kind = ProgramLine::Kind::kLoad;
    load.name = fmt::format("part{}", s);
    load.comment = "one split's sum";
    load.index = s;
    load.operand.slot = static_cast<int>(kernel.slots.size());
    load.operand.stride = layout.step;
    const int split_dim = kMaxDims - 3 - c.batch_rank;
    std::swap(load.operand.stride.at[0], load.operand.stride.at[split_dim]);
    load.operand.vec = 4;
    while (c.n.size % load.operand.vec != 0) load.operand.vec /= 2;
    kernel.slots.push_back(slot);
    kernel.prologue.push_back(load);
    kernel.prologue_results.push_back(s);
  }
  config.vec = std::min(vector_width(kernel.program, 8), 4);
  config.lanes = 256;
  config.slices = 1;
  kernel.config = config;
  kernel.threads = config.lanes;
  i64 rest = ceil_div(c.n.size, config.vec);
  for (const Extent& extent : c.batch.at) rest *= extent.size;
  kernel.grid.size = c.m.size * rest;
  kernel.grid.scale = c.m.scale * rest;
  kernel.grid.block = config.lanes;
  kernel.symbol = fmt::format("{}_fixup_s{}", context.name, c.split_k);
  kernel.config_text = fmt::format("adds {} parts in ascending order", c.split_k);
  return kernel;
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
    return make_error(ErrorCode::kInvalidArgument,
                      "no gemm_sm80 candidate of '{}' is named '{}' with split {}: `catenary "
                      "explain` lists the candidates",
                      name, context.options.force_tile, context.options.split_k);
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
  const GemmConfig& c = axes.config;
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
  if (c.ragged == Ragged::kTerms) problem.k = ceil_div(problem.k, std::max<i64>(c.groups, 1));
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
  const GemmConfig& c = best.config;

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
  if (c.split_k == 1) {
    kernels.push_back(std::move(kernel));
    return Error::success();
  }
  const PartialLayout layout = partial_layout(c);
  const i64 offset = ceil_div(context.workspace_bytes, 256) * 256;
  context.workspace_bytes = offset + layout.sum_bytes * c.sums();
  KernelPlan fix_up = fix_up_kernel(context, *axes, c, layout, offset);
  const int first_slot = static_cast<int>(context.tensors.places.size());
  kernel.program = partial_stores(c, first_slot, layout.step);
  kernel.slots = fix_up.slots;
  kernel.scalars.clear();
  keep_addressed_slots(kernel);
  keep_addressed_slots(fix_up);
  kernels.push_back(std::move(kernel));
  kernels.push_back(std::move(fix_up));
  return Error::success();
}

}  // namespace catenary
