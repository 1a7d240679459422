// SPDX-License-Identifier: Apache-2.0
// `skinny_dequant` as a family: contractions with small M and a packed quantised weight, whose time
// is that of reading the weight.
#include <algorithm>

#include "compiler/emit/emit_program.h"
#include "compiler/emit/fields.h"
#include "compiler/families/dequant_operand.h"
#include "compiler/families/skinny_dequant/candidates.h"

namespace catenary {
namespace {

bool has_groups(const ContractionProblem& p) { return p.ragged.kind != Ragged::kNone; }

// Rows of X that meet one W: all, or the mean of the ragged groups.
i64 rows_of_x(const ContractionProblem& p) {
  return has_groups(p) ? ceil_div(p.size.m, p.ragged.num_groups) : p.size.m;
}

// Ragged groups that may have rows.
i64 occupied_groups(const ContractionProblem& p) {
  return has_groups(p) ? std::min(p.size.m, p.ragged.num_groups) : 1;
}

SkinnyDequantConfig make_config(const ContractionProblem& p) {
  SkinnyDequantConfig c;
  c.space = p.space;
  c.x = p.a[0].memory;
  c.w = dequant_operand(p.b[0]);
  c.dual = p.is_dual();
  if (c.dual) c.w2 = dequant_operand(p.b[1]);
  c.row_squares = p.row_squares;
  if (p.gain) c.gain = {true, p.gain->memory.slot, p.gain->weight};
  c.ragged = p.ragged;
  c.loads.w_is_weight = !has_groups(p) && llvm::all_of(p.b, [](const auto& b) { return b.weight; });
  return c;
}

SkinnyDequantProblem make_problem(const ContractionProblem& p) {
  SkinnyDequantProblem problem;
  problem.base = make_config(p);
  problem.batch = std::max<i64>(problem.base.batch() * occupied_groups(p), 1);
  problem.m = rows_of_x(p);
  for (const ContractionOperand& b : p.b) problem.weight_bytes += b.bytes;
  problem.other_bytes = p.bytes() - problem.weight_bytes;
  // W of a group without rows is not read.
  if (has_groups(p))
    problem.weight_bytes = problem.weight_bytes / p.ragged.num_groups * occupied_groups(p);
  problem.epilogue_flops = program_flops(p.program, problem.batch * problem.m * p.space.n.size);
  return problem;
}

GridRule grid_rule(const SkinnyDequantConfig& c, i64 symbol) {
  const i64 fixed = c.k_slices() * c.schedule.n_slices;
  if (c.has_groups()) return group_grid(c.space, c.ragged.num_groups, fixed, symbol);
  return tile_grid(c.space, c.tile.columns, std::max<i64>(c.space.n.size, 1), fixed, 0, symbol);
}

Fields fields_of(const SkinnyDequantTile& t) {
  Fields fields;
  return fields.add("warps", t.warps).add("row_tiles", t.row_tiles).add("columns", t.columns);
}

Fields fields_of(const SkinnyDequantLoads& l) {
  Fields fields;
  fields.add_unless_default("w_is_weight", l.w_is_weight, SkinnyDequantLoads().w_is_weight);
  return fields.add("stages", l.stages)
      .add("stage_chunks", l.stage_chunks)
      .add("x_stages", l.x_stages)
      .add("x_chunks", l.x_chunks);
}

std::string config_text(const SkinnyDequantConfig& c) {
  Fields fields;
  fields.line().add("space", fields_of(c.space));
  fields.line().add("x", fields_of(c.x));
  fields.line().add("w", fields_of(c.w));
  if (c.dual) fields.line().add("w2", fields_of(c.w2)).add("dual", true);
  if (c.row_squares) fields.line().add("row_squares", true);
  if (c.gain.used) fields.line().add("gain", fields_of(c.gain));
  fields.line().add("tile", fields_of(c.tile));
  fields.line().add("loads", fields_of(c.loads));
  Fields schedule;
  schedule.add("cluster_k", c.schedule.cluster_k).add("n_slices", c.schedule.n_slices);
  fields.line().add("schedule", schedule).add("vec", c.vec);
  if (c.has_groups()) fields.line().add("ragged", fields_of(c.ragged));
  return fields.str();
}

// The sizes that the kernel takes.
std::string size_refusal(const ContractionProblem& p) {
  if (rows_of_x(p) > kSkinnyDequantRows) {
    if (!has_groups(p))
      return fmt::format("M is {}: it takes at most {} rows", p.size.m, kSkinnyDequantRows);
    return fmt::format("M is {} in {} groups: it takes at most {} rows of a group in the mean",
                       p.size.m, p.ragged.num_groups, kSkinnyDequantRows);
  }
  return "";
}

class SkinnyDequantFamily final : public ContractionFamily {
 public:
  std::string_view name() const override { return "skinny_dequant"; }

  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<SkinnyDequantConfig>();
    const ProgramText program{"Epilogue", c.vec, has_partial_vector(c.space.n, c.vec),
                              c.num_accumulators() + (c.row_squares ? 1 : 0)};
    const std::string name = c.has_groups() ? "skinny_dequant_m_grouped" : "skinny_dequant";
    return {fmt::format("kernels/{}.cuh", name), "SkinnyDequantConfig", config_text(c),
            emit_store_program(kernel.program, program), name + "<kConfig, Epilogue>"};
  }

  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    SkinnyDequantConfig c = config.get<SkinnyDequantConfig>();
    c.x.slot = renumber(c.x.slot);
    renumber_slots(c.w, renumber);
    if (c.dual) renumber_slots(c.w2, renumber);
    if (c.gain.used) c.gain.slot = renumber(c.gain.slot);
    if (c.has_groups()) c.ragged.group_ends_slot = renumber(c.ragged.group_ends_slot);
    return c;
  }

  Support supports(const ContractionProblem& p, const Target& target) const override {
    if (Support support = supports_dequant(p); !support) return support;
    if (target.compute_capability() != 90)
      return {fmt::format("it needs sm_90, and {} is {}", target.name, target.arch)};
    if (std::string refusal = size_refusal(p); !refusal.empty()) return {refusal};
    if (has_groups(p) && p.row_squares) return {"it sums squares of rows of one X", true};
    if (std::string refusal = gain_refusal(p); !refusal.empty()) return {std::move(refusal), true};
    const MatrixOperand& x = p.a[0].memory;
    if (!x.k_major || x.stride_k != 1 || x.copy_bytes != 16)
      return {"it reads rows of the activations in 16-byte vectors along K"};
    return {};
  }

  std::vector<Candidate> candidates(const ContractionProblem& problem, const Target& target,
                                    const TileRequest& request) const override {
    return skinny_dequant_candidates(make_problem(problem), target, request);
  }

  std::optional<Candidate> beside(const ContractionProblem& problem, const Target& target,
                                  const Candidate& candidate) const override {
    if (has_groups(problem)) return std::nullopt;
    return skinny_dequant_candidate_like(make_problem(problem), target,
                                         candidate.config.get<SkinnyDequantConfig>());
  }

  KernelPlan kernel(const ContractionProblem& problem, const Target&,
                    const Candidate& candidate) const override {
    const auto& c = candidate.config.get<SkinnyDequantConfig>();
    KernelPlan kernel;
    kernel.config = c;
    kernel.program = c.has_groups() ? problem.program : with_early_weights(problem.program);
    kernel.slots = problem.slots;
    kernel.scalars = problem.scalars;
    kernel.grid = grid_rule(c, problem.size.symbol);
    kernel.cluster = c.schedule.cluster_k;
    kernel.threads = c.threads();
    kernel.smem_bytes = c.smem_bytes();
    kernel.symbol = fmt::format("skinny_dequant_w{}t{}", c.tile.warps, c.tile.row_tiles);
    return kernel;
  }
};

}  // namespace

const ContractionFamily& skinny_dequant_family() {
  static const SkinnyDequantFamily family;
  return family;
}

}  // namespace catenary
