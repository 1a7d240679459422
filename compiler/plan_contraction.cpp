// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a contraction (or a gated pair): which family computes them. `gemm_sm80`
// always can; the others compete by predicted time where they fit.
#include "compiler/plan_family.h"

namespace catenary {
namespace {

// The large families: gemm_sm90 where it fits and is faster, else gemm_sm80.
Error plan_gemm(const GroupContext& context, std::vector<KernelPlan>& kernels) {
  std::vector<TileOption> tiles;
  Expected<bool> taken = plan_gemm_sm90(context, kernels, tiles);
  if (!taken) return taken.takeError();
  if (!*taken) {
    if (Error error = plan_gemm_sm80(context, kernels)) return error;
  }
  std::vector<TileOption>& all = kernels.front().tiles;
  all.insert(all.end(), tiles.begin(), tiles.end());
  return Error::success();
}

}  // namespace

Error plan_contraction(const GroupContext& context, std::vector<KernelPlan>& kernels) {
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

}  // namespace catenary
