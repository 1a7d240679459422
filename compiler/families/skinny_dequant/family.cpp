// SPDX-License-Identifier: Apache-2.0
// `skinny_dequant` as a family: contractions with small M and a packed quantised weight, whose time
// is that of reading the weight.
#include "compiler/emit/emit_program.h"
#include "compiler/emit/fields.h"
#include "compiler/families/skinny_dequant/candidates.h"

namespace catenary {
namespace {

BlockNumbers numbers(const BlockOperand& o) {
  return {o.slot, o.dtype, o.stride_row, o.stride_column};
}

SkinnyDequantConfig make_config(const ContractionProblem& p) {
  SkinnyDequantConfig c;
  const ContractionOperand& w = p.b[0];
  c.space = p.space;
  c.x = p.a[0].memory;
  c.w.slot = w.memory.slot;
  c.w.dtype = w.dtype;
  c.w.block_columns = w.dequant->block.columns;
  c.w.scale = numbers(w.dequant->scale);
  c.w.has_zero = w.dequant->zero.has_value();
  if (c.w.has_zero) c.w.zero = numbers(*w.dequant->zero);
  c.loads.w_is_weight = w.weight;
  return c;
}

SkinnyDequantProblem make_problem(const ContractionProblem& p) {
  SkinnyDequantProblem problem;
  problem.base = make_config(p);
  problem.m = p.size.m;
  problem.weight_bytes = p.b[0].bytes;
  problem.other_bytes = p.bytes() - problem.weight_bytes;
  problem.epilogue_flops = p.size.epilogue_flops;
  return problem;
}

Fields fields_of(const BlockNumbers& n) {
  Fields fields;
  fields.add("slot", n.slot).add("dtype", n.dtype).add("stride_row", n.stride_row);
  return fields.add("stride_block", n.stride_block);
}

Fields fields_of(const DequantOperand& w) {
  Fields fields;
  fields.add("slot", w.slot).add("dtype", w.dtype).add("block_columns", w.block_columns);
  fields.add("scale", fields_of(w.scale));
  if (w.has_zero) fields.add("has_zero", true).add("zero", fields_of(w.zero));
  return fields;
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
  fields.line().add("tile", fields_of(c.tile));
  fields.line().add("loads", fields_of(c.loads));
  Fields schedule;
  schedule.add("cluster_k", c.schedule.cluster_k).add("n_slices", c.schedule.n_slices);
  fields.line().add("schedule", schedule).add("vec", c.vec);
  return fields.str();
}

// What of the dequantised operand the kernel does not read; empty: it reads all.
std::string weight_refusal(const ContractionProblem& p) {
  const ContractionOperand& w = p.b[0];
  const DequantisedOperand& dequant = *w.dequant;
  const std::string& q = p.slots[w.memory.slot].name;
  if (!dequant.packed) {
    return fmt::format(
        "'{}' is not in the packed layout: declare it packed, and pass what "
        "ctn_repack makes of it",
        q);
  }
  if (!dequant.rows_by_k) {
    return fmt::format(
        "the columns of '{}' are not the summed label, or it is more than a matrix: "
        "contract it as \"mk,nk->mn\"",
        q);
  }
  if (p.slots[w.memory.slot].align < 16) {
    return fmt::format("'{}' is aligned to {} bytes: align it to 16", q,
                       p.slots[w.memory.slot].align);
  }
  if (w.dtype != DType::kI8 && w.dtype != DType::kI4 && w.dtype != DType::kU4) {
    return fmt::format("'{}' is {}: it reads i8, i4 and u4", q, dtype_text(w.dtype));
  }
  if (dequant.block.rows != 1) {
    return fmt::format("{} rows of '{}' share a scale: give every row its own", dequant.block.rows,
                       q);
  }
  if (dequant.block.columns % 32 != 0 && dequant.block.columns < p.size.k) {
    return fmt::format("{} columns of '{}' share a scale: make that a multiple of 32",
                       dequant.block.columns, q);
  }
  if (dequant.zero && dequant.zero->dtype != DType::kI8) {
    return fmt::format("the zeros of '{}' are {}: pass them as i8", q,
                       dtype_text(dequant.zero->dtype));
  }
  return "";
}

class SkinnyDequantFamily final : public ContractionFamily {
 public:
  std::string_view name() const override { return "skinny_dequant"; }

  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<SkinnyDequantConfig>();
    const ProgramText program{"Epilogue", c.vec, has_partial_vector(c.space.n, c.vec), 1};
    return {"kernels/skinny_dequant.cuh", "SkinnyDequantConfig", config_text(c),
            emit_store_program(kernel.program, program), "skinny_dequant<kConfig, Epilogue>"};
  }

  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    SkinnyDequantConfig c = config.get<SkinnyDequantConfig>();
    c.x.slot = renumber(c.x.slot);
    c.w.slot = renumber(c.w.slot);
    c.w.scale.slot = renumber(c.w.scale.slot);
    if (c.w.has_zero) c.w.zero.slot = renumber(c.w.zero.slot);
    return c;
  }

  Support supports(const ContractionProblem& p, const Target& target) const override {
    const bool one = p.a.size() == 1 && p.b.size() == 1 && p.products.size() == 1 &&
                     p.num_accumulators() == 1 && p.b[0].dequant && !p.a[0].dequant;
    if (!one) return {"it computes one product with a dequantised weight", true};
    if (target.compute_capability() != 90)
      return {fmt::format("it needs sm_90, and {} is {}", target.name, target.arch)};
    if (p.space.math != MathMode::kBF16 && p.space.math != MathMode::kF16)
      return {"it multiplies quantised weights by bf16 and f16"};
    if (p.num_column_sums() > 0) return {"it has no tiles whose rows it could sum", true};
    if (p.ragged.kind != Ragged::kNone || p.row_squares || p.size.batch != 1)
      return {"it takes one weight: write a contraction for each group or batch entry"};
    const bool exact = p.space.k_outer == 1 && p.space.k.scale == 0 && p.space.n.scale == 0 &&
                       p.space.n.size > 0 && p.space.k.size > 0 && p.space.k.size % 32 == 0;
    if (!exact) return {"it takes exact sizes, and K in whole multiples of 32"};
    if (p.size.m > kSkinnyDequantRows) {
      return {fmt::format("M is {}: it takes at most {} rows", p.size.m, kSkinnyDequantRows)};
    }
    if (p.space.k.size > kSkinnyDequantColumns) {
      return {fmt::format("K is {}: it takes at most {} columns", p.space.k.size,
                          kSkinnyDequantColumns)};
    }
    const MatrixOperand& x = p.a[0].memory;
    if (!x.k_major || x.stride_k != 1 || x.copy_bytes != 16)
      return {"it reads rows of the activations in 16-byte vectors along K"};
    return {weight_refusal(p)};
  }

  std::vector<Candidate> candidates(const ContractionProblem& problem, const Target& target,
                                    const TileRequest& request) const override {
    return skinny_dequant_candidates(make_problem(problem), target, request);
  }

  KernelPlan kernel(const ContractionProblem& problem, const Target&,
                    const Candidate& candidate) const override {
    const auto& c = candidate.config.get<SkinnyDequantConfig>();
    KernelPlan kernel;
    kernel.config = c;
    kernel.program = with_early_weights(problem.program);
    kernel.slots = problem.slots;
    kernel.scalars = problem.scalars;
    kernel.grid.fixed = c.k_slices() * c.schedule.n_slices;
    kernel.grid.size = c.space.m.size;
    kernel.grid.scale = c.space.m.scale;
    kernel.grid.block = c.tile.columns;
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
