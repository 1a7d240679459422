// SPDX-License-Identifier: Apache-2.0
// Chains of `gemm_sm90` in the simulator with a tile by the front of its name.
#pragma once

#include <string>
#include <vector>

#include "compiler/kernel_family.h"
#include "ir/text/text.h"
#include "shared/gemm_sm90_config.h"
#include "tests/support/sim_cases.h"

namespace catenary::testing {

struct SimTileCase {
  std::string name;
  std::string chain;
  std::string tile;  // the front of a candidate's name, or a name; empty: the planner's choice
  FillKind fill = FillKind::kExactInteger;
  i64 symbol = 0;
  int partial_sets = -1;  // that the config must have; -1: any
  int split_k = 0;
  std::vector<i32> ends = {};  // empty: random
  int sm_count = 2;            // 0: the target's
};

// The first candidate whose name begins with the case's tile; else that tile, as a whole name.
inline std::string find_tile(const SimTileCase& from) {
  if (from.tile.empty()) return "";
  auto chain = verify(llvm::cantFail(parse(from.chain)));
  if (!chain) return take_report(chain.takeError()).message;
  auto plan = make_plan(*chain, llvm::cantFail(find_target("h200")));
  if (!plan) return take_report(plan.takeError()).message;
  for (const CandidateSummary& tile : plan->buckets.back().kernels[0].candidates) {
    if (tile.rejected.empty() && llvm::StringRef(tile.id.tile).startswith(from.tile))
      return tile.id.tile;
  }
  return from.tile;
}

inline std::string run_tile(const SimTileCase& from, const HostCompiler& compiler) {
  SimulatedChainOptions options;
  options.plan.force_tile = find_tile(from);
  options.plan.split_k = from.split_k;
  options.symbol = from.symbol;
  options.ends = from.ends;
  options.sm_count = from.sm_count;
  options.fill = from.fill;
  options.compiler = &compiler;
  auto chain = SimulatedChain::make(from.chain, options);
  if (!chain) return from.name + ": " + take_report(chain.takeError()).message;
  const auto& kernels = chain->plan().buckets[find_bucket(chain->plan(), from.symbol)].kernels;
  if (family_name(kernels[0]) != "gemm_sm90") return from.name + ": another family";
  const auto& config = kernels[0].config.get<GemmSm90Config>();
  if (from.partial_sets >= 0 && config.partial_sets() != from.partial_sets)
    return fmt::format("{}: {} sets of partial sums", from.name, config.partial_sets());
  return first_failure(*chain, from.name, 2);
}

inline void run_tiles(const std::vector<SimTileCase>& cases) {
  run_cases(cases, [](const SimTileCase& from, i64, const HostCompiler& compiler) {
    return run_tile(from, compiler);
  });
}

}  // namespace catenary::testing
