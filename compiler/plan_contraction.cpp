// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a contraction (or a gated pair): which family computes them.
#include "compiler/plan_family.h"

namespace catenary {

Error plan_contraction(const GroupContext& context, std::vector<KernelPlan>& kernels) {
  const size_t first = kernels.size();
  std::vector<TileOption> tiles;
  Expected<bool> taken = plan_gemm_sm90(context, kernels, tiles);
  if (!taken) return taken.takeError();
  if (!*taken) {
    if (Error error = plan_gemm_sm80(context, kernels)) return error;
  }
  std::vector<TileOption>& all = kernels[first].tiles;
  all.insert(all.end(), tiles.begin(), tiles.end());
  return Error::success();
}

}  // namespace catenary
