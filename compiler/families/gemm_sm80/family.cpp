// SPDX-License-Identifier: Apache-2.0
// `gemm_sm80` as a family: any contraction, any stride and alignment, from sm_80 on.
#include "compiler/emit/emit_program.h"
#include "compiler/emit/fields.h"
#include "compiler/families/gemm_sm80/candidates.h"

namespace catenary {
namespace {

Fields fields_of(const GemmSm80Tile& t) {
  Fields fields;
  fields.add("block_m", t.block_m).add("block_n", t.block_n).add("block_k", t.block_k);
  fields.add("warps_m", t.warps_m).add("warps_n", t.warps_n).add("stages", t.stages);
  return fields;
}

Fields fields_of(const GemmSm80Schedule& s) {
  Fields fields;
  fields.add_unless_default("trigger_early", s.trigger_early, false);
  fields.add("split_k", s.split_k).add("tile_swizzle", s.tile_swizzle);
  return fields;
}

std::string config_text(const GemmSm80Config& c) {
  Fields fields = contraction_fields(c);
  fields.line().add("tile", fields_of(c.tile));
  fields.line().add("schedule", fields_of(c.schedule)).add("vec", c.vec);
  fields.add_unless_default("column_sums", c.column_sums, 0);
  if (c.ragged.kind != Ragged::kNone) fields.line().add("ragged", fields_of(c.ragged));
  return fields.str();
}

class GemmSm80Family final : public ContractionFamily {
 public:
  std::string_view name() const override { return "gemm_sm80"; }

  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<GemmSm80Config>();
    ProgramText program{"Epilogue", c.vec, has_partial_vector(c.space.n, c.vec),
                        c.num_accumulators()};
    program.column_sums = c.column_sums;
    return {"kernels/gemm_sm80.cuh", "GemmSm80Config", config_text(c),
            emit_store_program(kernel.program, program), "gemm_sm80<kConfig, Epilogue>"};
  }

  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    GemmSm80Config c = config.get<GemmSm80Config>();
    c.a.slot = renumber(c.a.slot);
    c.b.slot = renumber(c.b.slot);
    if (c.dual) c.b2.slot = renumber(c.b2.slot);
    for (i32 i = 0; i + 1 < c.segments; ++i) {
      c.more[i].a.slot = renumber(c.more[i].a.slot);
      c.more[i].b.slot = renumber(c.more[i].b.slot);
    }
    if (c.ragged.kind != Ragged::kNone)
      c.ragged.group_ends_slot = renumber(c.ragged.group_ends_slot);
    return c;
  }

  Support supports(const ContractionProblem& problem, const Target& target) const override {
    if (target.compute_capability() < 80) return {"it needs sm_80 or newer", true};
    if (problem.formed) return {"it forms no A from what is in memory", true};
    if (problem.gain) return {"it multiplies A by no gain as it loads it", true};
    if (!problem.is_single_or_dual() && !problem.is_sum())
      return {"it computes one product, two over one A, or a sum of products", true};
    switch (problem.space.math) {
      case MathMode::kBF16:
      case MathMode::kF16:
      case MathMode::kTF32:
      case MathMode::kF32:
        return {};
      case MathMode::kE4M3:
      case MathMode::kE4M3Fast:
      case MathMode::kE5M2:
      case MathMode::kE5M2Fast:
        break;
    }
    return {"it multiplies bf16, f16, tf32 and f32"};
  }

  std::vector<Candidate> candidates(const ContractionProblem& problem, const Target& target,
                                    const TileRequest& request) const override {
    return gemm_sm80_candidates(problem, target, request);
  }

  std::optional<Candidate> beside(const ContractionProblem& problem, const Target& target,
                                  const Candidate& candidate) const override {
    const auto& shared = candidate.config.get<GemmSm80Config>();
    GemmSm80Config config = gemm_sm80_config(problem);
    config.tile = shared.tile;
    // As many rows of B, in two matrices.
    if (config.dual && !shared.dual) config.tile.block_n /= 2;
    const bool fits = config.tile.block_n % (16 * config.tile.warps_n) == 0;
    if (shared.schedule.split_k != 1 || config.num_accumulators() < shared.num_accumulators() ||
        !fits) {
      return std::nullopt;
    }
    config.schedule = shared.schedule;
    return gemm_sm80_candidate(config, problem, target);
  }

  KernelPlan kernel(const ContractionProblem& problem, const Target&,
                    const Candidate& candidate) const override {
    const auto& c = candidate.config.get<GemmSm80Config>();
    KernelPlan kernel;
    kernel.config = c;
    kernel.program = problem.program;
    kernel.slots = problem.slots;
    kernel.scalars = problem.scalars;
    kernel.grid = gemm_sm80_grid(c, problem.size.symbol);
    kernel.threads = c.threads();
    kernel.smem_bytes = c.smem_bytes();
    kernel.symbol = fmt::format("gemm_m{}n{}k{}", c.tile.block_m, c.tile.block_n, c.tile.block_k);
    return kernel;
  }
};

}  // namespace

const ContractionFamily& gemm_sm80_family() {
  static const GemmSm80Family family;
  return family;
}

}  // namespace catenary
