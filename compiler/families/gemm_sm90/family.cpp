// SPDX-License-Identifier: Apache-2.0
// `gemm_sm90` as a family: TMA or cp.async loads, wgmma, warp-specialised, on sm_90a.
#include "compiler/emit/emit_program.h"
#include "compiler/emit/writer.h"
#include "compiler/families/gemm_sm90/candidates.h"
#include "compiler/families/gemm_sm90/layout.h"

namespace catenary {
namespace {

GridRule grid_rule(const GemmSm90Config& c, const Target& target) {
  GridRule grid;
  grid.fixed = c.split_k * c.cluster_ctas() * ceil_div(c.n.size, c.cluster_tile_n());
  for (const Extent& extent : c.batch.at) grid.fixed *= extent.size;
  grid.size = c.m.size;
  grid.scale = c.m.scale;
  grid.block = c.cluster_tile_m();
  if (c.ragged == Ragged::kMGrouped) grid.extra = c.num_groups + 1;
  if (c.cluster_k == 0) grid.limit = target.sm_count / c.cluster_ctas() * c.cluster_ctas();
  return grid;
}

class GemmSm90Family final : public ContractionFamily {
 public:
  std::string_view name() const override { return "gemm_sm90"; }

  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<GemmSm90Config>();
    // A thread's accumulators are pairs of columns.
    const int vec = c.register_epilogue ? 2 : c.vec;
    ProgramText program{"Epilogue", vec, has_partial_vector(c.n, vec), c.num_accumulators()};
    program.register_epilogue = c.register_epilogue;
    return {"kernels/gemm_sm90.cuh", "GemmSm90Config", cpp_text(c),
            c.register_epilogue ? emit_register_program(kernel.program, program)
                                : emit_store_program(kernel.program, program),
            "gemm_sm90<kConfig, Epilogue>"};
  }

  // Operands that TMA loads are addressed by their maps.
  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    GemmSm90Config c = config.get<GemmSm90Config>();
    for (Sm90Operand* operand : {&c.a, &c.b, &c.b2}) {
      if (operand->by_cp_async) operand->memory.slot = renumber(operand->memory.slot);
    }
    if (c.ragged != Ragged::kNone) c.group_ends_slot = renumber(c.group_ends_slot);
    return c;
  }

  Support supports(const ContractionProblem& problem, const Target& target) const override {
    if (target.arch != "sm_90a") return {"it needs sm_90a", true};
    if (!problem.is_single_or_dual()) return {"it computes one product, or two over one A", true};
    std::string refusal = sm90_layout_refusal(problem);
    if (!refusal.empty()) return {std::move(refusal)};
    if (!sm90_layout(problem))
      return {"an operand has no contiguous dimension, or no elements", true};
    switch (problem.math) {
      case MathMode::kBF16:
      case MathMode::kF16:
      case MathMode::kTF32:
        return {};
      case MathMode::kF32:
        break;
    }
    return {"it multiplies bf16, f16 and tf32"};
  }

  std::vector<Candidate> candidates(const ContractionProblem& problem, const Target& target,
                                    const TileRequest& request) const override {
    return gemm_sm90_candidates(sm90_layout(problem)->config, problem, target, request);
  }

  KernelPlan kernel(const ContractionProblem& problem, const Target& target,
                    const Candidate& candidate) const override {
    const auto& c = candidate.config.get<GemmSm90Config>();
    KernelPlan kernel;
    kernel.config = c;
    // A cluster split-K reads its epilogue's weights before the mainloop.
    kernel.program = c.cluster_k != 0 ? with_early_weights(problem.program) : problem.program;
    kernel.slots = problem.slots;
    kernel.maps = sm90_layout(problem)->maps;
    set_operand_boxes(c, kernel.maps);
    kernel.scalars = problem.scalars;
    map_outputs(kernel);
    kernel.grid = grid_rule(c, target);
    kernel.cluster = c.cluster_ctas();
    kernel.threads = c.threads();
    kernel.smem_bytes = c.smem_bytes();
    kernel.symbol = fmt::format("gemm_m{}n{}k{}", c.block_m, c.block_n, c.block_k());
    return kernel;
  }
};

}  // namespace

const ContractionFamily& gemm_sm90_family() {
  static const GemmSm90Family family;
  return family;
}

}  // namespace catenary
