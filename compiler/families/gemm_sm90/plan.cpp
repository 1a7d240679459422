// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a contraction (or a gated pair) -> a `gemm_sm90` kernel, where its operands
// lie as wgmma and its copies want them and it is predicted to be faster than gemm_sm80. Operands
// that tensor maps cannot describe are copied by threads.
#include <algorithm>
#include <cmath>

#include "compiler/families/contraction_axes.h"
#include "compiler/families/gemm_sm90/candidates.h"
#include "compiler/families/split_k.h"
#include "shared/params.h"

namespace catenary {
namespace {

// Coordinates of copies are signed 32-bit, and a tile reaches over the end.
constexpr i64 kMaxSize = (i64{1} << 31) - 1024;

// A contraction's operand, with its map but for the box along the free dimension; none if threads
// copy it.
struct Mapped {
  Sm90Operand matrix;
  std::optional<MapBinding> map;
};

i64 at_least_16(i64 bytes) { return std::max<i64>(ceil_div(bytes, 16) * 16, 16); }

class Mapper {
 public:
  Mapper(const GroupContext& context, const GemmSm80Config& c) : context_(context), c_(c) {}

  // Nothing: the operand's elements do not lie side by side. `grouped`: the ragged group is one of
  // its dimensions. `starts_anywhere`: so do tiles along the innermost one.
  std::optional<Mapped> place(const MatrixOperand& o, const Extent& row, bool grouped,
                              bool starts_anywhere) const {
    const MemoryLocation& place = context_.tensors.places[o.slot];
    const i64 inner_step = o.k_major ? o.stride_k : o.stride_row;
    if (inner_step != 1 && !((o.k_major ? c_.k : row) == Extent(1))) return std::nullopt;
    Mapped mapped;
    mapped.matrix.k_major = o.k_major;
    mapped.matrix.weight = place.weight;
    if (!starts_anywhere && map(o, row, grouped, mapped)) return mapped;
    Sm90Operand copied;
    copied.k_major = o.k_major;
    copied.weight = place.weight;
    copied.by_cp_async = true;
    copied.memory = o;
    return Mapped{copied, std::nullopt};
  }

 private:
  // False: no tensor map describes the operand, or it has too many dimensions.
  bool map(const MatrixOperand& o, const Extent& row, bool grouped, Mapped& mapped) const {
    const MemoryLocation& place = context_.tensors.places[o.slot];
    MapBinding map;
    map.slot = o.slot;
    map.dtype = place.dtype;
    map.swizzle = Swizzle::k128;
    map.as_tf32 = c_.math == MathMode::kTF32;
    const i64 bytes = dtype_bytes(place.dtype);
    const Extent& inner = o.k_major ? c_.k : row;
    const Extent& outer = o.k_major ? row : c_.k;
    const i64 outer_step = o.k_major ? o.stride_row : o.stride_k;
    const i32 span = static_cast<i32>(128 / bytes);
    map.dims.push_back({inner, bytes, span});
    // A dimension of one step has no stride to respect, and a map wants one.
    const i64 stride = outer == Extent(1) ? at_least_16(inner.size * bytes) : outer_step * bytes;
    map.dims.push_back({outer, stride, span});
    const auto add = [&](const Extent& size, i64 step, i32 walk) {
      Sm90Operand& m = mapped.matrix;
      (m.coord2 == kCoordNone ? m.coord2 : m.coord3 == kCoordNone ? m.coord3 : m.coord4) = walk;
      map.dims.push_back({size, step * bytes, 1});
    };
    if (c_.k_outer > 1 && o.stride_outer != 0)
      add(Extent(c_.k_outer), o.stride_outer, kCoordOuterK);
    if (grouped) add(Extent(c_.num_groups), o.stride_group, kCoordGroup);
    for (i32 d = kMaxDims - c_.batch_rank; d < kMaxDims; ++d) {
      if (o.stride_batch.at[d] != 0) add(c_.batch.at[d], o.stride_batch.at[d], d);
    }
    if (map.dims.size() > 5 || !map_problem(map, place.binding).empty()) return false;
    mapped.map = std::move(map);
    return true;
  }

  const GroupContext& context_;
  const GemmSm80Config& c_;
};

struct Problem {
  GemmSm90Config config;  // no tile yet
  std::vector<MapBinding> maps;
};

// Why the operands' layout does not suit wgmma; empty: it does. wgmma has products of 16-bit
// elements either way, and of tf32 along K (PTX ISA 9.7.15.5). Rows or terms of a ragged group
// start anywhere; terms behind its end are cleared in lines of one term (pipeline/k_tail.cuh).
std::string layout_problem(const GemmSm80Config& c) {
  const bool along_k = c.a.k_major && c.b.k_major && (!c.dual || c.b2.k_major);
  if (c.math == MathMode::kF32) {
    return "wgmma has no products of whole f32; without f32 behind its labels a contraction is "
           "tf32";
  }
  if (c.math == MathMode::kTF32 && !along_k) {
    return "wgmma takes tf32 operands whose summed label is innermost; store them so, or as bf16";
  }
  if (c.ragged == Ragged::kKGrouped && (c.a.k_major || c.b.k_major)) {
    return "ragged terms are an operand's innermost label, where wgmma kernels need them further "
           "out";
  }
  return "";
}

bool has_kernel(const GroupContext& context, const GemmSm80Config& c) {
  if (context.target.arch != "sm_90a" || !layout_problem(c).empty()) return false;
  if (c.ragged != Ragged::kNone && c.num_groups <= 0) return false;
  for (const Extent& extent : {c.m, c.n, c.k}) {
    if (extent.size <= 0 || extent.size > kMaxSize) return false;
  }
  return llvm::none_of(c.batch.at, [](const Extent& extent) { return extent.size <= 0; }) &&
         c.k_outer > 0;
}

// Tiles have 32-bit numbers, with room for one more round of CTAs.
bool is_countable(const GemmSm80Config& c) {
  double tiles = (std::ceil(c.m.size / 64.0) + c.num_groups + 1) * std::ceil(c.n.size / 32.0);
  for (const Extent& extent : c.batch.at) tiles *= static_cast<double>(extent.size);
  return tiles < (i64{1} << 31);
}

// Can the epilogue run on the accumulators where they lie? No operand may vary along both M and N
// (its pieces of 16 bytes would be read in quarters), and outputs must be rows of 16-byte pieces,
// or of f32 pairs.
bool fits_registers(const GemmSm90Config& c, const Program& program) {
  constexpr int kM = kMaxDims - 2;
  constexpr int kN = kMaxDims - 1;
  if (c.n.scale != 0 || c.n.size % 8 != 0) return false;
  return llvm::all_of(program, [](const ProgramLine& line) {
    const Operand& o = line.operand;
    if (line.kind == ProgramLine::Kind::kLoad) return o.stride.at[kM] == 0 || o.stride.at[kN] == 0;
    if (line.kind != ProgramLine::Kind::kStore) return true;
    return o.stride.at[kN] == 1 && o.vec >= (o.dtype == DType::kF32 ? 2 : 8);
  });
}

std::optional<Problem> make_problem(const GroupContext& context, const GemmAxes& axes) {
  const GemmSm80Config& c = axes.config;
  if (!has_kernel(context, c) || !is_countable(c)) return std::nullopt;
  const Mapper mapper(context, c);
  const bool rows = c.ragged == Ragged::kMGrouped;
  // A tensor copy's corner lies on 16 bytes along the innermost dimension ("Facts learned on an
  // H200" in ARCHITECTURE.md).
  auto a = mapper.place(c.a, c.m, false, rows && !c.a.k_major);
  auto b = mapper.place(c.b, c.n, rows, false);
  auto b2 = c.dual ? mapper.place(c.b2, c.n, rows, false) : b;
  if (!a || !b || !b2 || b2->matrix.k_major != b->matrix.k_major) return std::nullopt;
  Problem problem;
  GemmSm90Config& config = problem.config;
  config.math = c.math;
  config.batch = c.batch;
  config.batch_rank = c.batch_rank;
  config.m = c.m;
  config.n = c.n;
  config.k = c.k;
  config.k_outer = c.k_outer;
  config.dual = c.dual;
  config.vec = c.vec;
  config.tile_swizzle = c.tile_swizzle;
  config.ragged = c.ragged;
  config.group_ends_slot = c.group_ends_slot;
  config.num_groups = c.num_groups;
  const auto take = [&](Mapped& mapped) {
    if (mapped.map) {
      mapped.matrix.map = static_cast<i32>(problem.maps.size());
      problem.maps.push_back(*mapped.map);
    }
    return mapped.matrix;
  };
  config.a = take(*a);
  config.b = take(*b);
  if (c.dual) config.b2 = take(*b2);
  config.register_epilogue = fits_registers(config, axes.program);
  return problem;
}

// A box holds a line of every row that one copy moves; lines along the free dimension hold 64
// elements, and a box as many lines as a step of K has.
void set_boxes(const GemmSm90Config& c, std::vector<MapBinding>& maps) {
  const auto set = [&](const Sm90Operand& matrix, i32 rows) {
    if (!matrix.by_cp_async) maps[matrix.map].dims[1].box = matrix.k_major ? rows : c.block_k();
  };
  set(c.a, c.a_box_rows());
  set(c.b, c.block_n / c.cluster_m);
  if (c.dual) set(c.b2, c.block_n / c.cluster_m);
}

// The output of a store as a tensor whose boxes are the epilogue's pieces: columns, rows, then the
// dimensions along which it has a stride, as epilogue/registers.cuh counts them.
MapBinding output_map(const GemmSm90Config& c, const Operand& o) {
  const i64 bytes = dtype_bytes(o.dtype);
  MapBinding map;
  map.slot = o.slot;
  map.dtype = o.dtype;
  map.swizzle = c.subtile_n() == 64 ? Swizzle::k128 : Swizzle::k64;
  map.dims.push_back({c.n, bytes, c.subtile_n()});
  const i64 row = o.stride.at[kMaxDims - 2] * bytes;
  map.dims.push_back({c.m, c.m == Extent(1) ? at_least_16(c.n.size * bytes) : row, 16});
  for (int d = kMaxDims - 3; d >= 0; --d) {
    if (o.stride.at[d] == 0) continue;
    // An operand's dimensions begin two behind those of a batch: rows and columns are its last.
    map.dims.push_back({c.batch.at[d + 2], o.stride.at[d] * bytes, 1});
  }
  return map;
}

// A kernel's parameters before CUDA 12.1 (CUDA C++ Programming Guide, function parameters).
constexpr i64 kMaxParamBytes = 4096;

// Outputs of 16 bits leave by tensor copies, where the hardware takes their layout and the kernel's
// parameters have room for the map.
void map_outputs(KernelPlan& kernel) {
  const auto& c = std::get<GemmSm90Config>(kernel.config);
  if (!c.register_epilogue || c.cluster_k != 0 || c.split_k != 1) return;
  const auto slots = static_cast<i64>(kernel.slots.size());
  const auto scalars = static_cast<i64>(kernel.scalars.size());
  for (ProgramLine& line : kernel.program) {
    if (line.kind != ProgramLine::Kind::kStore || dtype_bytes(line.operand.dtype) != 2) continue;
    const auto maps = static_cast<i64>(kernel.maps.size());
    if (params_bytes(slots, scalars, maps + 1) > kMaxParamBytes) return;
    MapBinding map = output_map(c, line.operand);
    if (!map_problem(map, kernel.slots[line.operand.slot]).empty()) continue;
    line.operand.map = static_cast<i32>(kernel.maps.size());
    kernel.maps.push_back(std::move(map));
  }
}

GridRule grid_rule(const GemmSm90Config& c, const Target& target) {
  GridRule grid;
  grid.fixed = c.split_k * c.cluster_ctas() * ceil_div(c.n.size, c.block_n);
  for (const Extent& extent : c.batch.at) grid.fixed *= extent.size;
  grid.size = c.m.size;
  grid.scale = c.m.scale;
  grid.block = c.cluster_tile_m();
  if (c.ragged == Ragged::kMGrouped) grid.extra = c.num_groups + 1;
  if (c.cluster_k == 0) grid.limit = target.sm_count / c.cluster_m * c.cluster_m;
  return grid;
}

// Which operands threads copy, in pieces of how many bytes.
std::string copies_text(const GemmSm90Config& c) {
  std::string text;
  const auto add = [&](const char* name, const Sm90Operand& matrix) {
    if (matrix.by_cp_async)
      text += fmt::format(", {} copied by {}", name, matrix.memory.copy_bytes);
  };
  add("A", c.a);
  add("B", c.b);
  if (c.dual) add("B2", c.b2);
  return text.empty() ? "" : text + " bytes";
}

std::string candidate_text(const GemmSm90Candidate& candidate) {
  const GemmSm90Config& c = candidate.config;
  std::string clusters = c.cluster_m > 1 ? fmt::format(", clusters of {}", c.cluster_m) : "";
  if (c.cluster_k > 1) clusters += fmt::format(", K shared by clusters of {}", c.cluster_k);
  if (c.cluster_k > 0) clusters += c.ctas_per_sm > 1 ? ", 2 CTAs per SM" : ", 1 CTA per SM";
  return fmt::format("tile {}x{}x{}, {} {} warpgroups, {} stages{}, {} KiB shared{}{}", c.block_m,
                     c.block_n, c.block_k(), c.consumers, c.ping_pong ? "ping-pong" : "cooperative",
                     c.stages, clusters, c.smem_bytes() / 1024,
                     c.split_k > 1 ? fmt::format(", K split in {}", c.split_k) : "",
                     copies_text(c));
}

// What gemm_sm80 is predicted to take.
std::vector<GemmCandidate> rivals(const GroupContext& context, const GemmProblem& problem) {
  auto ranked = rank_gemm_candidates(problem, context.target, context.options);
  std::erase_if(ranked, [](const GemmCandidate& c) { return !c.rejected.empty(); });
  return ranked;
}

// How much longer gemm_sm80 takes than predicted, against this family (H200). Over the 273 tiles of
// `bench --sweep gemm` 14%. With few rows, and the next kernel's weights on their way meanwhile
// (`bench --sweep small`), this family is ahead from 17 rows on, and gemm_sm80 with fewer; its
// tiles of 64 rows take longest: 8.7 us for 8192x1024 weights and 64 rows, 8.4 for 14336x512.
// Streams of wide tiles are ahead with fewer rows too: 28672x8192, 16 rows, 112.5 us by gemm_sm80,
// 110.4 with 17; what a long K takes gemm_sm80 is known. So is what short sums take tiles of 16
// rows: 512x512 weights, 64 rows, 2.6 us where this family takes 3.3 plain and 2.4 overlapped,
// 1024x1024 3.8 (4.4 and 3.6), 128 rows of 512x1024 3.75 (4.3).
double rivals_error(const GemmProblem& problem, const GemmSm90Config& best,
                    const GemmSm80Config& rival) {
  constexpr int kWideStream = 200;
  constexpr i64 kShortSum = 1024;
  const bool wide = best.cluster_k == 1 && !best.dual && best.block_n > kWideStream;
  if (problem.m <= 16) return !wide ? 0.8 : problem.k < 2 * kLongStream ? 1.2 : 1.0;
  if (problem.m <= 32) return 1.3;
  if (rival.block_m == 16 && problem.k <= kShortSum) return 0.87;
  return problem.m <= 64 ? 1.9 : 1.14;
}

// The same where threads copy for either: 4096x4096x4100, by 8 bytes, takes gemm_sm80 571 us in
// place of 415 (H200). Elements of 2 bytes its prediction knows; few rows go by the predictions.
double rivals_copy_error(const GemmProblem& problem, const GemmSm90Config& best) {
  constexpr double kPiecesCost = 1.3;
  return problem.m <= 64 || narrowest_copy(best) == 2 ? 1.0 : kPiecesCost;
}

// Is gemm_sm80 expected to be faster?
bool loses(const GemmProblem& problem, const GemmSm90Candidate& best,
           const std::vector<GemmCandidate>& others) {
  if (others.empty()) return false;
  const double us = others[0].predicted.us;
  const double error = best.config.uses_cp_async()
                           ? rivals_copy_error(problem, best.config)
                           : rivals_error(problem, best.config, others[0].config);
  return us * error < best.predicted.us;
}

KernelPlan make_kernel(const GroupContext& context, const GemmAxes& axes,
                       const GemmSm90Candidate& best, std::vector<MapBinding> maps) {
  const GemmSm90Config& c = best.config;
  KernelPlan kernel;
  kernel.family = Family::kGemmSm90;
  kernel.config = c;
  // CTAs with one tile each read them before its products (ClusterEpilogue of
  // epilogue/cluster_split_k.cuh).
  kernel.program = c.cluster_k != 0 ? with_early_weights(axes.program) : axes.program;
  kernel.slots = bind_slots(context.tensors);
  set_boxes(c, maps);
  kernel.maps = std::move(maps);
  kernel.scalars = context.tensors.scalars;
  map_outputs(kernel);
  kernel.grid = grid_rule(c, context.target);
  kernel.cluster = c.cluster_ctas();
  kernel.min_ctas = c.ctas_per_sm;
  kernel.threads = c.threads();
  kernel.smem_bytes = c.smem_bytes();
  kernel.symbol = fmt::format("{}_gemm_m{}n{}k{}", context.name, c.block_m, c.block_n, c.block_k());
  kernel.config_text = candidate_text(best);
  kernel.predicted = best.predicted;
  return kernel;
}

}  // namespace

std::string gemm_sm90_problem(const GroupContext& context) {
  if (context.target.arch != "sm_90a") return "";
  Expected<GemmAxes> axes = make_gemm_axes(context);
  if (!axes) {
    llvm::consumeError(axes.takeError());
    return "";
  }
  return layout_problem(axes->config);
}

Expected<bool> plan_gemm_sm90(const GroupContext& context, std::vector<KernelPlan>& kernels,
                              std::vector<TileOption>& tiles) {
  Expected<GemmAxes> axes = make_gemm_axes(context);
  if (!axes) return axes.takeError();
  std::optional<Problem> problem = make_problem(context, *axes);
  if (!problem) return false;
  const GemmProblem sizes = make_gemm_problem(context, *axes);
  const auto ranked =
      rank_gemm_sm90_candidates(problem->config, sizes, context.target, context.options);
  const GemmSm90Candidate* best = nullptr;
  for (const GemmSm90Candidate& candidate : ranked) {
    tiles.push_back({tile_name(candidate.config), candidate.config.split_k, candidate.predicted.us,
                     candidate.rejected});
    const bool refused = llvm::is_contained(context.options.rejected, candidate_text(candidate));
    if (best == nullptr && candidate.rejected.empty() && !refused) best = &candidate;
  }
  const auto others = rivals(context, sizes);
  if (best == nullptr || loses(sizes, *best, others)) return false;
  KernelPlan kernel = make_kernel(context, *axes, *best, std::move(problem->maps));
  for (const GemmSm90Candidate& candidate : ranked) {
    if (&candidate == best || kernel.runner_ups.size() == 3) continue;
    kernel.runner_ups.push_back(
        {candidate_text(candidate), candidate.predicted.us, candidate.rejected});
  }
  tiles[static_cast<size_t>(best - ranked.data())].chosen = true;
  for (const GemmCandidate& other : others) {
    tiles.push_back({tile_name(other.config), other.config.split_k, other.predicted.us, ""});
  }
  const GemmSm90Config& c = best->config;
  finish_split(context, axes->program,
               {c.batch, c.batch_rank, c.m, c.n, c.split_k, c.num_accumulators()},
               std::move(kernel), kernels);
  return true;
}

}  // namespace catenary
