// SPDX-License-Identifier: Apache-2.0
// `skinny` as a family: contractions with small M, whose time is that of reading the weights.
#include <algorithm>

#include "compiler/emit/emit_program.h"
#include "compiler/emit/fields.h"
#include "compiler/families/skinny/candidates.h"

namespace catenary {
namespace {

bool exact(const Extents& extents) {
  return llvm::all_of(extents.at, [](const Extent& extent) { return extent.scale == 0; });
}

// 16-byte loads along K, from any row.
bool streams(const ContractionOperand& operand) {
  const MatrixOperand& o = operand.memory;
  return o.k_major && o.stride_k == 1 && o.copy_bytes == 16;
}

// Rows of X that meet one W: all, or the mean of the ragged groups.
i64 rows_of_x(const ContractionProblem& p) {
  return p.ragged.kind == Ragged::kNone ? p.size.m : ceil_div(p.size.m, p.ragged.num_groups);
}

// Batch entries that read the same W: the kernel reads it again for each. What merges into M
// elsewhere is a batch where M is ragged.
i64 readers(const ContractionProblem& p) {
  i64 count = 1;
  if (p.ragged.kind == Ragged::kNone) return count;
  for (int d = 0; d < kMaxDims; ++d) {
    if (p.b[0].memory.stride_batch.at[d] == 0) count *= p.space.batch.at[d].size;
  }
  return count;
}

// Ragged groups that may have rows.
i64 occupied_groups(const ContractionProblem& p) {
  return p.ragged.kind == Ragged::kNone ? 1 : std::min(p.size.m, p.ragged.num_groups);
}

// Why X cannot be formed; empty: it can, or it is in memory.
std::string formed_refusal(const ContractionProblem& p) {
  if (!p.formed) return "";
  if (p.ragged.kind != Ragged::kNone) return "it forms rows of one X";
  if (!is_16bit(p.space.math)) return "it forms X of bf16 or f16";
  if (dtype_bytes(p.a[0].dtype) < 2) return "it forms X from rows of 16 or 32 bits";
  return "";
}

i64 most_rows(const ContractionProblem& p) {
  if (p.ragged.kind != Ragged::kNone) return kSkinnyRaggedRows;
  return p.forms_a() ? kSkinnyNormRows : kSkinnyRows;
}

SkinnyConfig make_config(const ContractionProblem& p) {
  SkinnyConfig c;
  c.space = p.space;
  c.x = p.a[0].memory;
  c.w = p.b[0].memory;
  c.dual = p.is_dual();
  if (c.dual) c.w2 = p.b[1].memory;
  c.ragged = p.ragged;
  c.row_squares = p.row_squares;
  if (p.gain) c.gain = {true, p.gain->memory.slot, p.gain->weight};
  if (p.formed) {
    c.formed.used = true;
    c.formed.data = p.a[0].dtype;
    for (const FormedPrograms::Pass& pass : p.formed->passes) {
      c.formed.sums += static_cast<i32>(pass.sums.size());
      c.formed.rows += static_cast<i32>(pass.results.size());
    }
  }
  c.loads.w_is_weight =
      p.ragged.kind == Ragged::kNone && llvm::all_of(p.b, [](const auto& b) { return b.weight; });
  return c;
}

// Instructions for one element: the program's, and three that widen it, round it or add it to a
// sum.
double element_ops(const Program& program) { return program_flops(program, 1) + 3; }

SkinnyProblem make_problem(const ContractionProblem& p) {
  SkinnyProblem problem;
  problem.base = make_config(p);
  for (const Extent& extent : p.space.batch.at) problem.batch *= extent.size;
  problem.batch *= occupied_groups(p);
  problem.parts = p.num_parts();
  problem.m = rows_of_x(p);
  constexpr double kMultiplied = 3;  // an element is widened, multiplied, and added or rounded
  if (p.row_squares && !problem.base.squares_by_mma()) problem.row_ops += kMultiplied;
  if (p.gain) problem.row_ops += kMultiplied;
  if (p.formed) {
    problem.passes = static_cast<int>(p.formed->passes.size());
    problem.row_ops = element_ops(p.formed->values);
    for (const FormedPrograms::Pass& pass : p.formed->passes)
      problem.row_ops += element_ops(pass.terms);
  }
  for (const ContractionOperand& b : p.b) problem.weight_bytes += b.bytes;
  problem.epilogue_bytes = p.bytes() - problem.weight_bytes;
  // W of a group without rows is not read.
  if (p.ragged.kind == Ragged::kMGrouped) {
    problem.weight_bytes = problem.weight_bytes / p.ragged.num_groups * occupied_groups(p);
  }
  problem.epilogue_flops = program_flops(p.program, problem.batch * problem.m * p.space.n.size);
  return problem;
}

GridRule grid_rule(const SkinnyConfig& c, i64 symbol) {
  const i64 fixed = c.k_slices() * c.n_tiles();
  if (c.ragged.kind == Ragged::kMGrouped)
    return group_grid(c.space, c.ragged.num_groups, fixed, symbol);
  return tile_grid(c.space, c.tile.columns, std::max<i64>(c.space.n.size, 1), fixed, 0, symbol);
}

Fields fields_of(const SkinnyTile& t) {
  Fields fields;
  fields.add("warps_k", t.warps_k).add("warps_n", t.warps_n);
  fields.add_unless_default("row_tiles", t.row_tiles, SkinnyTile().row_tiles)
      .add("columns", t.columns);
  return fields;
}

Fields fields_of(const SkinnyLoads& l) {
  const SkinnyLoads d;
  Fields fields;
  fields.add_unless_default("w_is_weight", l.w_is_weight, d.w_is_weight);
  fields.add_unless_default("bulk", l.bulk, d.bulk).add("shared_blocks", l.shared_blocks);
  fields.add("register_blocks", l.register_blocks).add("copy_groups", l.copy_groups);
  fields.add("x_chunks", l.x_chunks).add("x_columns", l.x_columns);
  return fields;
}

Fields fields_of(const SkinnyFormed& f) {
  Fields fields;
  fields.add("used", f.used).add("data", f.data).add("sums", f.sums).add("rows", f.rows);
  return fields;
}

Fields fields_of(const SkinnySchedule& s) {
  Fields fields;
  fields.add("split_k", s.split_k);
  fields.add_unless_default("cluster_k", s.cluster_k, SkinnySchedule().cluster_k);
  fields.add_unless_default("n_slices", s.n_slices, SkinnySchedule().n_slices);
  return fields;
}

std::string config_text(const SkinnyConfig& c) {
  Fields fields;
  fields.line().add("space", fields_of(c.space));
  fields.line().add("x", fields_of(c.x));
  fields.line().add("w", fields_of(c.w));
  if (c.dual) fields.line().add("w2", fields_of(c.w2)).add("dual", true);
  if (c.row_squares) fields.line().add("row_squares", true);
  if (c.gain.used) fields.line().add("gain", fields_of(c.gain));
  if (c.formed.used) fields.line().add("formed", fields_of(c.formed));
  fields.line().add("tile", fields_of(c.tile));
  fields.line().add("loads", fields_of(c.loads));
  fields.line().add("schedule", fields_of(c.schedule)).add("vec", c.vec);
  if (c.ragged.kind != Ragged::kNone) fields.line().add("ragged", fields_of(c.ragged));
  return fields.str();
}

// The structs of a formed X, and the template argument that names them.
struct FormedText {
  std::string programs;
  std::string argument;
};

FormedText formed_text(const FormedPrograms& formed, int vec) {
  FormedText text;
  const auto add = [&](const std::string& name, const Program& program, llvm::ArrayRef<int> results,
                       int width) {
    text.programs +=
        emit_value_program(program, results, {.name = name, .vec = width, .array = true});
  };
  for (size_t i = 0; i < formed.passes.size(); ++i) {
    const FormedPrograms::Pass& pass = formed.passes[i];
    add(fmt::format("Terms{}", i), pass.terms, pass.sums, vec);
    add(fmt::format("Rows{}", i), pass.rows, pass.results, 1);
    text.argument += fmt::format(", RowPass<Terms{0}, {1}, Rows{0}, {2}>", i, pass.sums.size(),
                                 pass.results.size());
  }
  add("Formed", formed.values, {formed.result}, vec);
  text.argument = fmt::format("FormedX<Formed{}>", text.argument);
  return text;
}

class SkinnyFamily final : public ContractionFamily {
 public:
  std::string_view name() const override { return "skinny"; }

  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<SkinnyConfig>();
    const ProgramText program{"Epilogue", c.vec, has_partial_vector(c.space.n, c.vec),
                              c.num_accumulators() + (c.row_squares ? 1 : 0)};
    const std::string name = c.ragged.kind == Ragged::kNone ? "skinny" : "skinny_m_grouped";
    KernelText text{fmt::format("kernels/{}.cuh", name), "SkinnyConfig", config_text(c),
                    emit_store_program(kernel.program, program), name + "<kConfig, Epilogue>"};
    if (!c.formed.used) return text;
    const FormedText formed = formed_text(*kernel.formed, 16 / c.space.element_bytes());
    text.programs += formed.programs;
    text.call = fmt::format("{}<kConfig, Epilogue, {}>", name, formed.argument);
    return text;
  }

  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    SkinnyConfig c = config.get<SkinnyConfig>();
    c.x.slot = renumber(c.x.slot);
    c.w.slot = renumber(c.w.slot);
    if (c.dual) c.w2.slot = renumber(c.w2.slot);
    if (c.gain.used) c.gain.slot = renumber(c.gain.slot);
    if (c.ragged.kind != Ragged::kNone)
      c.ragged.group_ends_slot = renumber(c.ragged.group_ends_slot);
    return c;
  }

  // No other family forms X of a plain product: there the refusal is the reason that a norm keeps
  // its kernels.
  Support supports(const ContractionProblem& p, const Target& target) const override {
    Support support = refusal(p, target);
    support.silent = support.silent && (!p.forms_a() || p.is_dequantised());
    return support;
  }

 private:
  static Support refusal(const ContractionProblem& p, const Target& target) {
    if (target.compute_capability() < 80) return {"it needs sm_80 or newer", true};
    if (!p.has_plain_products()) return {"it computes one product, or two over one A", true};
    if (p.num_column_sums() > 0) return {"it has no tiles whose rows it could sum", true};
    const bool ragged = p.ragged.kind != Ragged::kNone;
    if (ragged && p.row_squares) return {"it sums squares of rows of one X", true};
    if (std::string refusal = gain_refusal(p); !refusal.empty()) return {std::move(refusal), true};
    if (std::string refusal = formed_refusal(p); !refusal.empty())
      return {std::move(refusal), true};
    if (ragged && (p.ragged.kind != Ragged::kMGrouped || p.ragged.num_groups <= 0 ||
                   target.compute_capability() != 90)) {
      return {"it takes ragged rows only, on sm_90", true};
    }
    switch (p.space.math) {
      case MathMode::kBF16:
      case MathMode::kF16:
      case MathMode::kTF32:
        break;
      default:
        return {"it multiplies bf16, f16 and tf32", true};
    }
    const i64 chunk = 16 / p.space.element_bytes();
    const bool fits = p.space.k_outer == 1 && p.space.k.scale == 0 && p.space.k.size > 0 &&
                      p.space.k.size % chunk == 0 && p.space.n.scale == 0 && p.space.n.size > 0 &&
                      exact(p.space.batch);
    if (!fits) return {"it takes exact sizes, and K in whole vectors of 16 bytes", true};
    if (rows_of_x(p) * readers(p) > most_rows(p))
      return {fmt::format("it takes up to {} rows", most_rows(p)), true};
    if (!streams(p.a[0]) || !llvm::all_of(p.b, streams)) {
      return {"it reads rows of 16-byte vectors along K", true};
    }
    return {};
  }

  std::vector<Candidate> candidates(const ContractionProblem& problem, const Target& target,
                                    const TileRequest& request) const override {
    return skinny_candidates(make_problem(problem), target, request);
  }

  std::optional<Candidate> beside(const ContractionProblem& problem, const Target& target,
                                  const Candidate& candidate) const override {
    const auto& shared = candidate.config.get<SkinnyConfig>();
    if (problem.ragged.kind != Ragged::kNone || shared.schedule.split_k != 1) return std::nullopt;
    return skinny_candidate_like(make_problem(problem), target, shared);
  }

  KernelPlan kernel(const ContractionProblem& problem, const Target&,
                    const Candidate& candidate) const override {
    const auto& c = candidate.config.get<SkinnyConfig>();
    KernelPlan kernel;
    kernel.config = c;
    kernel.program =
        c.ragged.kind == Ragged::kNone ? with_early_weights(problem.program) : problem.program;
    kernel.formed = problem.formed;
    kernel.slots = problem.slots;
    kernel.scalars = problem.scalars;
    kernel.grid = grid_rule(c, problem.size.symbol);
    kernel.cluster = c.schedule.cluster_k;
    kernel.threads = c.threads();
    kernel.smem_bytes = c.smem_bytes();
    kernel.symbol = fmt::format("skinny_w{}x{}", c.tile.warps_k, c.tile.warps_n);
    return kernel;
  }
};

}  // namespace

const ContractionFamily& skinny_family() {
  static const SkinnyFamily family;
  return family;
}

}  // namespace catenary
