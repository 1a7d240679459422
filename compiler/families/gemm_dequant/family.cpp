// SPDX-License-Identifier: Apache-2.0
// `gemm_dequant` as a family: contractions of any M with a packed quantised weight, on wgmma.
#include <algorithm>

#include "compiler/emit/emit_program.h"
#include "compiler/families/dequant_operand.h"
#include "compiler/families/gemm_dequant/candidates.h"

namespace catenary {
namespace {

// TMA coordinates are signed 32-bit, and the last tile may end past the matrix.
constexpr i64 kMaxRows = (i64{1} << 31) - 1024;

// The tensor map of X but for the rows of its box, and X as it is addressed; the map's limit where
// the hardware takes none.
struct PlacedX {
  Sm90Operand operand;
  MapBinding map;
  std::string limit;
};

PlacedX place_x(const ContractionProblem& p) {
  const ContractionOperand& given = p.a[0];
  const MatrixOperand& o = given.memory;
  PlacedX placed;
  placed.operand.weight = given.weight;
  MapBinding& map = placed.map;
  map.slot = o.slot;
  map.dtype = given.dtype;
  map.swizzle = Swizzle::k128;
  const i64 bytes = dtype_bytes(given.dtype);
  map.dims.push_back({p.space.k, bytes, static_cast<i32>(128 / bytes)});
  // A dimension of one element has no stride to respect, and a map wants one.
  const i64 pitch = p.space.m == Extent(1) ? p.space.k.size : o.stride_row;
  map.dims.push_back({p.space.m, pitch * bytes, 8});
  i32* coordinates[] = {&placed.operand.coord2, &placed.operand.coord3, &placed.operand.coord4};
  for (i32 d = kMaxDims - p.space.batch_rank; d < kMaxDims; ++d) {
    if (o.stride_batch.at[d] == 0) continue;
    if (map.dims.size() < 5) *coordinates[map.dims.size() - 2] = d;
    map.dims.push_back({p.space.batch.at[d], o.stride_batch.at[d] * bytes, 1});
  }
  placed.limit = map_limit(map, p.slots[o.slot]);
  return placed;
}

GemmDequantConfig make_config(const ContractionProblem& p) {
  GemmDequantConfig c;
  c.space = p.space;
  c.x = place_x(p).operand;
  c.w = dequant_operand(p.b[0]);
  c.dual = p.is_dual();
  if (c.dual) c.w2 = dequant_operand(p.b[1]);
  c.ragged = p.ragged;
  c.loads.w_is_weight =
      !c.has_groups() && llvm::all_of(p.b, [](const auto& b) { return b.weight; });
  return c;
}

GemmDequantProblem make_problem(const ContractionProblem& p) {
  GemmDequantProblem problem;
  problem.base = make_config(p);
  problem.batch = std::max<i64>(problem.base.batch(), 1);
  problem.m = p.size.m;
  for (const ContractionOperand& b : p.b) problem.weight_bytes += b.bytes;
  problem.other_bytes = p.bytes() - problem.weight_bytes;
  // W of a group without rows is not read.
  if (problem.base.has_groups()) {
    const i64 groups = std::max<i64>(p.ragged.num_groups, 1);
    problem.weight_bytes = problem.weight_bytes / groups * std::min(p.size.m, groups);
  }
  problem.epilogue_flops = program_flops(p.program, problem.batch * problem.m * p.space.n.size);
  return problem;
}

Fields fields_of(const GemmDequantTile& t) {
  Fields fields;
  return fields.add("row_tiles", t.row_tiles).add("columns", t.columns);
}

Fields fields_of(const GemmDequantLoads& l) {
  Fields fields;
  fields.add_unless_default("w_is_weight", l.w_is_weight, GemmDequantLoads().w_is_weight);
  return fields.add("stages", l.stages).add("stage_blocks", l.stage_blocks);
}

Fields fields_of(const GemmDequantSchedule& s) {
  Fields fields;
  fields.add("warpgroups", s.warpgroups).add("cluster_k", s.cluster_k);
  return fields.add("n_slices", s.n_slices).add("ctas_per_sm", s.ctas_per_sm);
}

std::string config_text(const GemmDequantConfig& c) {
  Fields fields;
  fields.line().add("space", fields_of(c.space));
  fields.line().add("x", fields_of(c.x));
  fields.line().add("w", fields_of(c.w));
  if (c.dual) fields.line().add("w2", fields_of(c.w2)).add("dual", true);
  fields.line().add("tile", fields_of(c.tile));
  fields.line().add("loads", fields_of(c.loads));
  fields.line().add("schedule", fields_of(c.schedule)).add("vec", c.vec);
  if (c.has_groups()) fields.line().add("ragged", fields_of(c.ragged));
  return fields.str();
}

class GemmDequantFamily final : public ContractionFamily {
 public:
  std::string_view name() const override { return "gemm_dequant"; }

  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<GemmDequantConfig>();
    const ProgramText program{"Epilogue", c.vec, has_partial_vector(c.space.n, c.vec),
                              c.num_accumulators()};
    return {"kernels/gemm_dequant.cuh", "GemmDequantConfig", config_text(c),
            emit_store_program(kernel.program, program), "gemm_dequant<kConfig, Epilogue>"};
  }

  // TMA loads of X are addressed by its map.
  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    GemmDequantConfig c = config.get<GemmDequantConfig>();
    renumber_slots(c.w, renumber);
    if (c.dual) renumber_slots(c.w2, renumber);
    if (c.has_groups()) c.ragged.group_ends_slot = renumber(c.ragged.group_ends_slot);
    return c;
  }

  KernelConfig with_maps(const KernelConfig& config,
                         llvm::function_ref<i32(i32)> renumber) const override {
    GemmDequantConfig c = config.get<GemmDequantConfig>();
    c.x.map = renumber(c.x.map);
    return c;
  }

  Support supports(const ContractionProblem& p, const Target& target) const override {
    if (Support support = supports_dequant(p); !support) return support;
    if (p.row_squares) return {"it has no sums of squares of X", true};
    if (p.gain) return {"it multiplies X by no gain", true};
    if (target.arch != "sm_90a")
      return {fmt::format("it needs sm_90a, and {} is {}", target.name, target.arch)};
    // A CTA has two k-tiles of two K blocks or more.
    constexpr i64 kLeastColumns = 2 * kPackedColumns + 1;
    if (p.space.k.size < kLeastColumns)
      return {fmt::format("K is {}: it takes {} columns or more", p.space.k.size, kLeastColumns)};
    if (p.space.m.size <= 0 || p.space.m.size > kMaxRows)
      return {fmt::format("M is {}: it takes 1 to {} rows", p.space.m.size, kMaxRows)};
    const MatrixOperand& x = p.a[0].memory;
    if (!x.k_major || x.stride_k != 1)
      return {"the summed label of the activations is not their innermost one: store them so"};
    if (const std::string limit = place_x(p).limit; !limit.empty())
      return {
          fmt::format("TMA does not load activations with {}: align them and their rows to 16 "
                      "bytes",
                      limit)};
    return {};
  }

  std::vector<Candidate> candidates(const ContractionProblem& problem, const Target& target,
                                    const TileRequest& request) const override {
    return gemm_dequant_candidates(make_problem(problem), target, request);
  }

  std::optional<Candidate> beside(const ContractionProblem& problem, const Target& target,
                                  const Candidate& candidate) const override {
    if (problem.ragged.kind != Ragged::kNone) return std::nullopt;
    return gemm_dequant_candidate_like(make_problem(problem), target,
                                       candidate.config.get<GemmDequantConfig>());
  }

  KernelPlan kernel(const ContractionProblem& problem, const Target&,
                    const Candidate& candidate) const override {
    const auto& c = candidate.config.get<GemmDequantConfig>();
    KernelPlan kernel;
    kernel.config = c;
    kernel.program = problem.program;
    kernel.slots = problem.slots;
    kernel.maps.push_back(place_x(problem).map);
    kernel.maps[0].dims[1].box = c.tile.columns;
    kernel.scalars = problem.scalars;
    kernel.grid = tile_grid(c.space, c.tile.columns, std::max<i64>(c.space.n.size, 1),
                            c.k_slices() * c.schedule.n_slices,
                            c.has_groups() ? c.ragged.num_groups + 1 : 0, problem.size.symbol);
    kernel.cluster = c.schedule.cluster_k;
    kernel.threads = c.threads();
    kernel.smem_bytes = c.smem_bytes();
    kernel.symbol = fmt::format("gemm_dequant_{}t{}x{}", c.has_groups() ? "g" : "",
                                c.tile.row_tiles, c.tile.columns);
    return kernel;
  }
};

}  // namespace

const ContractionFamily& gemm_dequant_family() {
  static const GemmDequantFamily family;
  return family;
}

}  // namespace catenary
