// SPDX-License-Identifier: Apache-2.0
// `gemm_sm80` as a family: any contraction, any stride and alignment, from sm_80 on.
#include "compiler/emit/emit_program.h"
#include "compiler/emit/writer.h"
#include "compiler/families/gemm_sm80/candidates.h"

namespace catenary {
namespace {

class GemmSm80Family final : public ContractionFamily {
 public:
  std::string_view name() const override { return "gemm_sm80"; }

  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<GemmSm80Config>();
    const ProgramText program{"Epilogue", c.vec, has_partial_vector(c.n, c.vec),
                              c.num_accumulators()};
    return {"kernels/gemm_sm80.cuh", "GemmSm80Config", cpp_text(c),
            emit_store_program(kernel.program, program), "gemm_sm80<kConfig, Epilogue>"};
  }

  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    GemmSm80Config c = config.get<GemmSm80Config>();
    c.a.slot = renumber(c.a.slot);
    c.b.slot = renumber(c.b.slot);
    if (c.dual) c.b2.slot = renumber(c.b2.slot);
    if (c.ragged != Ragged::kNone) c.group_ends_slot = renumber(c.group_ends_slot);
    return c;
  }

  Support supports(const ContractionProblem& problem, const Target& target) const override {
    if (target.compute_capability() < 80) return {"it needs sm_80 or newer", true};
    if (!problem.is_single_or_dual()) return {"it computes one product, or two over one A", true};
    switch (problem.math) {
      case MathMode::kBF16:
      case MathMode::kF16:
      case MathMode::kTF32:
      case MathMode::kF32:
        return {};
    }
    return {"it multiplies bf16, f16, tf32 and f32"};
  }

  std::vector<Candidate> candidates(const ContractionProblem& problem, const Target& target,
                                    const TileRequest& request) const override {
    return gemm_sm80_candidates(problem, target, request);
  }

  KernelPlan kernel(const ContractionProblem& problem, const Target&,
                    const Candidate& candidate) const override {
    const auto& c = candidate.config.get<GemmSm80Config>();
    KernelPlan kernel;
    kernel.config = c;
    kernel.program = problem.program;
    kernel.slots = problem.slots;
    kernel.scalars = problem.scalars;
    kernel.grid = gemm_sm80_grid(c);
    kernel.threads = c.threads();
    kernel.smem_bytes = c.smem_bytes();
    kernel.symbol = fmt::format("gemm_m{}n{}k{}", c.block_m, c.block_n, c.block_k);
    return kernel;
  }
};

}  // namespace

const ContractionFamily& gemm_sm80_family() {
  static const GemmSm80Family family;
  return family;
}

}  // namespace catenary
