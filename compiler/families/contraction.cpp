// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a contraction (or a gated pair): which family computes them. `gemm_sm80`
// always can; the others compete by predicted time where they fit. A measured choice comes first.
#include "compiler/emit/writer.h"
#include "compiler/families/contraction_axes.h"

namespace catenary {
namespace {

// The large families: gemm_sm90 where it fits and is faster, else gemm_sm80.
Error plan_gemm(const GroupContext& context, std::vector<KernelPlan>& kernels) {
  std::vector<TileOption> tiles;
  Expected<bool> taken = plan_gemm_sm90(context, kernels, tiles);
  if (!taken) return taken.takeError();
  if (!*taken) {
    if (Error error = plan_gemm_sm80(context, kernels)) return error;
    const std::string problem = gemm_sm90_problem(context);
    if (!problem.empty()) kernels.front().runner_ups.push_back({"gemm_sm90", 0, problem});
  }
  std::vector<TileOption>& all = kernels.front().tiles;
  all.insert(all.end(), tiles.begin(), tiles.end());
  return Error::success();
}

// The families by predicted time, or those that have the tile that is forced.
Error plan_families(const GroupContext& context, std::vector<KernelPlan>& kernels) {
  const i64 workspace_before = context.workspace_bytes;
  std::vector<KernelPlan> gemm;
  Error gemm_error = plan_gemm(context, gemm);
  const i64 workspace_after = context.workspace_bytes;
  context.workspace_bytes = workspace_before;
  std::vector<TileOption> tiles;
  const size_t first = kernels.size();
  Expected<bool> taken = plan_skinny(context, gemm_error ? nullptr : &gemm.front(), kernels, tiles);
  if (!taken) return llvm::joinErrors(std::move(gemm_error), taken.takeError());
  if (*taken) {
    // A name that forces a skinny tile is no tile of the others.
    llvm::consumeError(std::move(gemm_error));
    kernels[first].tiles = std::move(tiles);
    if (gemm.empty()) return Error::success();
    for (TileOption tile : gemm.front().tiles) {
      tile.chosen = false;
      kernels[first].tiles.push_back(std::move(tile));
    }
    return Error::success();
  }
  if (gemm_error) return gemm_error;
  context.workspace_bytes = workspace_after;
  std::vector<TileOption>& all = gemm.front().tiles;
  all.insert(all.end(), tiles.begin(), tiles.end());
  for (KernelPlan& kernel : gemm) kernels.push_back(std::move(kernel));
  return Error::success();
}

std::string line_text(const ProgramLine& line) {
  std::string text =
      fmt::format("{}:{}:{}", static_cast<int>(line.kind), op_info(line.op).text, line.index);
  for (const int arg : line.args) text += fmt::format(" {}", arg);
  for (const double attribute : line.attributes) text += fmt::format(" {:a}", attribute);
  return text + fmt::format(" {} {}", cpp_text(line.dtype), cpp_text(line.operand));
}

// Everything about the contraction and its epilogue that a kernel's time depends on, and none of
// the planner's choices and the chain's names: the same contraction in another chain has the same.
std::string problem_text(const GroupContext& context, const GemmAxes& axes) {
  std::string text = fmt::format("{} up to {}\n", cpp_text(axes.config), context.symbol_hi);
  for (const ProgramLine& line : axes.program) text += line_text(line) + "\n";
  return text;
}

// Plans by the measured choice. False, and no kernel: there is none, or it cannot run.
bool plan_tuned(const GroupContext& context, const std::string& problem,
                std::vector<KernelPlan>& kernels) {
  const PlanOptions& options = context.options;
  if (!options.force_tile.empty() || options.split_k != 0) return false;
  const auto choice = llvm::find_if(
      options.tuned, [&](const TunedChoice& tuned) { return tuned.problem == problem; });
  if (choice == options.tuned.end()) return false;
  PlanOptions forced = options;
  forced.force_tile = choice->tile;
  forced.split_k = choice->split_k;
  const i64 workspace_before = context.workspace_bytes;
  const GroupContext tuned{context.chain,           context.target,  forced,
                           context.group,           context.tensors, context.symbol_hi,
                           context.workspace_bytes, context.name};
  std::vector<KernelPlan> planned;
  if (Error error = plan_families(tuned, planned)) {
    llvm::consumeError(std::move(error));
    context.workspace_bytes = workspace_before;
    return false;
  }
  planned.front().tuned = choice->note;
  for (KernelPlan& kernel : planned) kernels.push_back(std::move(kernel));
  return true;
}

}  // namespace

Error plan_contraction(const GroupContext& context, std::vector<KernelPlan>& kernels) {
  Expected<GemmAxes> axes = make_gemm_axes(context);
  if (!axes) return axes.takeError();
  std::string problem = problem_text(context, *axes);
  const size_t first = kernels.size();
  if (!plan_tuned(context, problem, kernels)) {
    if (Error error = plan_families(context, kernels)) return error;
  }
  kernels[first].problem = std::move(problem);
  return Error::success();
}

}  // namespace catenary
