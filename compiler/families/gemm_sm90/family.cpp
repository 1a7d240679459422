// SPDX-License-Identifier: Apache-2.0
// `gemm_sm90` as a family: TMA or cp.async loads, wgmma, warp-specialised, on sm_90a.
#include "compiler/emit/emit_program.h"
#include "compiler/emit/fields.h"
#include "compiler/families/gemm_sm90/block_scales.h"
#include "compiler/families/gemm_sm90/candidates.h"
#include "compiler/families/gemm_sm90/layout.h"

namespace catenary {
namespace {

GridRule grid_rule(const GemmSm90Config& c, const Target& target, i64 symbol) {
  const i64 extra = c.ragged.kind == Ragged::kMGrouped ? c.ragged.num_groups + 1 : 0;
  GridRule grid = tile_grid(c.space, c.cluster_tile_m(), c.cluster_tile_n(),
                            c.schedule.split_k * c.cluster_ctas(), extra, symbol);
  if (c.schedule.cluster_k == 0) grid.limit = target.ctas_at_once(c.cluster_ctas(), 1);
  return grid;
}

Fields fields_of(const GemmSm90Tile& t) {
  Fields fields;
  fields.add("block_m", t.block_m).add("block_n", t.block_n).add("stages", t.stages);
  fields.add_unless_default("a_rows", t.a_rows, GemmSm90Tile().a_rows);
  return fields;
}

Fields fields_of(const GemmSm90Schedule& s) {
  const GemmSm90Schedule d;
  Fields fields;
  fields.add_unless_default("ping_pong", s.ping_pong, d.ping_pong).add("consumers", s.consumers);
  fields.add_unless_default("cluster_m", s.cluster_m, d.cluster_m);
  fields.add_unless_default("cluster_n", s.cluster_n, d.cluster_n);
  fields.add_unless_default("cluster_k", s.cluster_k, d.cluster_k);
  fields.add_unless_default("ctas_per_sm", s.ctas_per_sm, d.ctas_per_sm);
  fields.add_unless_default("sum_slices", s.sum_slices, d.sum_slices);
  fields.add("split_k", s.split_k).add("tile_swizzle", s.tile_swizzle);
  return fields;
}

Fields fields_of(const GemmSm90Epilogue& e) {
  Fields fields;
  fields.add_unless_default("in_registers", e.in_registers, false).add("vec", e.vec);
  fields.add_unless_default("column_sums", e.column_sums, 0);
  fields.add_unless_default("matrices", e.matrices, 0);
  fields.add_unless_default("reduced_columns", e.reduced_columns, 1);
  return fields;
}

Fields fields_of(const BlockScales& s) {
  Fields fields;
  fields.add("slot", s.slot).add("rows", s.rows).add("columns", s.columns);
  fields.add("stride_row", s.stride_row).add("stride_column", s.stride_column);
  return fields.add_unless_default("stride_group", s.stride_group, BlockScales().stride_group);
}

std::string config_text(const GemmSm90Config& c) {
  Fields fields = contraction_fields(c);
  if (c.block_scaled) {
    fields.line().add("block_scaled", true).add("scale_a", fields_of(c.scale_a));
    fields.line().add("scale_b", fields_of(c.scale_b));
    if (c.dual) fields.line().add("scale_b2", fields_of(c.scale_b2));
  }
  if (c.row_squares) fields.line().add("row_squares", true);
  fields.line().add("tile", fields_of(c.tile));
  fields.line().add("schedule", fields_of(c.schedule));
  fields.line().add("epilogue", fields_of(c.epilogue));
  if (c.ragged.kind != Ragged::kNone) fields.line().add("ragged", fields_of(c.ragged));
  return fields.str();
}

// CTAs of split-K that start one by one ask L2 at unlike times for the lines that they share. Long
// kernels lose more by that than an early start saves; clusters keep their CTAs together (RESULTS
// sm90-152).
bool gains_by_pdl(const GemmSm90Config& c, const Prediction& predicted) {
  constexpr double kLongUs = 12;
  return c.schedule.split_k == 1 || c.cluster_ctas() > 1 || predicted.us < kLongUs;
}

class GemmSm90Family final : public ContractionFamily {
 public:
  std::string_view name() const override { return "gemm_sm90"; }

  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<GemmSm90Config>();
    // A thread's accumulators are pairs of columns.
    const int vec = c.epilogue.in_registers ? 2 : c.epilogue.vec;
    ProgramText program{"Epilogue", vec, has_partial_vector(c.space.n, vec),
                        c.num_accumulators() + (c.row_squares ? 1 : 0)};
    program.register_epilogue = c.epilogue.in_registers;
    program.column_sums = c.epilogue.column_sums;
    return {"kernels/gemm_sm90.cuh", "GemmSm90Config", config_text(c),
            c.epilogue.in_registers ? emit_register_program(kernel.program, program)
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
    if (c.block_scaled) {
      c.scale_a.slot = renumber(c.scale_a.slot);
      c.scale_b.slot = renumber(c.scale_b.slot);
      if (c.dual) c.scale_b2.slot = renumber(c.scale_b2.slot);
    }
    if (c.ragged.kind != Ragged::kNone)
      c.ragged.group_ends_slot = renumber(c.ragged.group_ends_slot);
    return c;
  }

  KernelConfig with_maps(const KernelConfig& config,
                         llvm::function_ref<i32(i32)> renumber) const override {
    GemmSm90Config c = config.get<GemmSm90Config>();
    for (Sm90Operand* operand : {&c.a, &c.b, &c.b2}) {
      if (operand == &c.b2 && !c.dual) continue;
      if (!operand->by_cp_async) operand->map = renumber(operand->map);
    }
    return c;
  }

  Support supports(const ContractionProblem& problem, const Target& target) const override {
    const bool scaled = problem.is_block_scaled();
    if (target.arch != "sm_90a") return {"it needs sm_90a", !scaled};
    if (problem.formed) return {"it forms no A from what is in memory", true};
    if (problem.gain) return {"it multiplies A by no gain as it loads it", true};
    if (!problem.has_plain_products() && !problem.is_sum() && !scaled)
      return {"it computes one product, two over one A, or a sum of products", true};
    std::string refusal = scaled ? block_scales_refusal(problem) : "";
    if (refusal.empty()) refusal = sm90_layout_refusal(problem);
    if (refusal.empty()) refusal = sm90_map_refusal(problem);
    if (!refusal.empty()) return {std::move(refusal)};
    const auto layout = sm90_layout(problem);
    if (!layout)
      return {"an operand has no contiguous dimension, or no elements",
              !is_fp8(problem.a[0].dtype)};
    if (problem.transposed && !layout->config.epilogue.in_registers)
      return {"only the register epilogue stores columns"};
    if (std::string rows = sm90_row_reduction_refusal(problem, layout->config); !rows.empty())
      return {std::move(rows)};
    if (std::string squares = sm90_squares_refusal(problem, layout->config); !squares.empty())
      return {std::move(squares), true};
    switch (problem.space.math) {
      case MathMode::kBF16:
      case MathMode::kF16:
      case MathMode::kTF32:
      case MathMode::kE4M3:
      case MathMode::kE4M3Fast:
      case MathMode::kE5M2:
      case MathMode::kE5M2Fast:
        return {};
      case MathMode::kF32:
        break;
    }
    return {"it multiplies bf16, f16, tf32 and fp8"};
  }

  bool takes_transposed() const override { return true; }
  bool reduces_rows() const override { return true; }

  std::vector<Candidate> candidates(const ContractionProblem& problem, const Target& target,
                                    const TileRequest& request) const override {
    return gemm_sm90_candidates(sm90_layout(problem)->config, problem, target, request);
  }

  // Persistent CTAs keep the part's own epilogue and stages: a CTA has tiles of one part.
  std::optional<Candidate> beside(const ContractionProblem& problem, const Target& target,
                                  const Candidate& candidate) const override {
    const auto& shared = candidate.config.get<GemmSm90Config>();
    GemmSm90Config config = sm90_layout(problem)->config;
    if (shared.schedule.split_k != 1 || config.num_accumulators() < shared.num_accumulators())
      return std::nullopt;
    config.tile = shared.tile;
    // As many rows of B, in two matrices.
    if (config.dual && !shared.dual) config.tile.block_n /= 2;
    config.schedule = shared.schedule;
    if (shared.schedule.cluster_k != 0) {
      if (problem.reduced_columns > 1) return std::nullopt;
      config.epilogue = shared.epilogue;
    } else {
      fit_persistent(config, target);
    }
    return gemm_sm90_candidate(config, problem, target);
  }

  KernelPlan kernel(const ContractionProblem& problem, const Target& target,
                    const Candidate& candidate) const override {
    const auto& c = candidate.config.get<GemmSm90Config>();
    KernelPlan kernel;
    kernel.config = c;
    // A cluster split-K reads its epilogue's weights before the mainloop.
    kernel.program =
        c.schedule.cluster_k != 0 ? with_early_weights(problem.program) : problem.program;
    kernel.slots = problem.slots;
    kernel.maps = sm90_layout(problem)->maps;
    set_operand_boxes(c, kernel.maps);
    kernel.scalars = problem.scalars;
    map_outputs(kernel);
    kernel.grid = grid_rule(c, target, problem.size.symbol);
    kernel.cluster = c.cluster_ctas();
    kernel.threads = c.threads();
    kernel.smem_bytes = c.smem_bytes();
    kernel.gains_by_pdl = gains_by_pdl(c, candidate.predicted);
    kernel.symbol = fmt::format("gemm_{}m{}n{}k{}", problem.transposed ? "t" : "", c.tile.block_m,
                                c.tile.block_n, c.block_k());
    return kernel;
  }
};

}  // namespace

const ContractionFamily& gemm_sm90_family() {
  static const GemmSm90Family family;
  return family;
}

}  // namespace catenary
