// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a reduction -> `reduce` kernels.
#include <algorithm>
#include <cmath>

#include "compiler/emit/emit_program.h"
#include "compiler/emit/fields.h"
#include "compiler/families/family.h"
#include "compiler/families/reduce/registers.h"
#include "compiler/families/reduce/space.h"
#include "compiler/families/roofline.h"
#include "ir/counted.h"

namespace catenary {
namespace {

i64 power_of_two_at_least(i64 n) {
  i64 p = 1;
  while (p < n) p *= 2;
  return p;
}

// Left-aligns the first `terms` axes of a right-aligned program.
template <class Array>
void split_terms(Array& values, int axes, int terms,
                 const typename std::remove_reference_t<decltype(values[0])>& none) {
  for (int i = 0; i < terms; ++i) {
    const int from = kMaxDims - axes + i;
    if (from == i) continue;
    values[i] = values[from];
    values[from] = none;
  }
}

void place_terms(Program& program, int axes, int terms) {
  for (ProgramLine& line : program) split_terms(line.operand.stride.at, axes, terms, i64{0});
}

std::string config_text(const ReduceConfig& c) {
  Fields fields;
  fields.line()
      .add_unless_default("size", c.size, ReduceConfig().size)
      .add("term_rank", c.term_rank);
  fields.line().add("sums", c.sums).add("vec", c.vec).add("lanes", c.lanes);
  fields.add("slices", c.slices)
      .add_unless_default("along_terms", c.along_terms, ReduceConfig().along_terms)
      .add_unless_default("op", c.op, ReduceConfig().op)
      .add_unless_default("unroll", c.unroll, ReduceConfig().unroll);
  fields.add_unless_default("rows", c.rows, ReduceConfig().rows)
      .add_unless_default("parts", c.parts, ReduceConfig().parts)
      .add_unless_default("part_dim", c.part_dim, ReduceConfig().part_dim);
  if (c.skewed()) fields.line().add("skew", c.skew);
  if (c.ends.num_groups > 0) fields.line().add("ends", fields_of(c.ends));
  return fields.str();
}

class ReduceFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "reduce"; }
  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<ReduceConfig>();
    const bool partial = has_partial_vector(c.size.at[kMaxDims - 1], c.vec);
    const bool guarded = c.along_terms ? c.partial_vectors() : partial;
    const ProgramText terms{"Prologue", c.vec, guarded, 0};
    const ProgramText program{"Epilogue", c.result_vec(), !c.along_terms && partial, c.sums};
    return {"kernels/reduce.cuh", "ReduceConfig", config_text(c),
            emit_value_program(kernel.prologue, kernel.prologue_results, terms) +
                emit_store_program(kernel.program, program),
            "reduce<kConfig, Prologue, Epilogue>"};
  }
  // Its other slots are those of the programs.
  KernelConfig with_slots(const KernelConfig& config,
                          llvm::function_ref<i32(i32)> renumber) const override {
    auto c = config.get<ReduceConfig>();
    if (c.ends.num_groups > 0) c.ends.slot = renumber(c.ends.slot);
    return c;
  }
};

// A reduction on its axes, before it has lanes and slices.
struct Reduction {
  const GroupContext& context;
  ReduceSpace reduce;
  ReduceConfig config;  // size, term_rank, op, rows
  Program prologue, program;
  i64 terms = 1;
  i64 outputs = 1;
  int free_axes = 1;
  i64 inner = 1;
  Dims row_steps =
      {};  // along terms: steps of the operand whose rows are read from aligned addresses
};

// By what factor accesses of fewer than 16 bytes take longer than the rate of DRAM: too few bytes
// are requested. The factor of 2 bytes follows from a measurement (RESULTS reduce-3), the others
// are guesses.
double narrow_accesses(const Program& terms, int vec) {
  int widest = 1;
  for (const ProgramLine& line : terms) {
    if (line.kind != ProgramLine::Kind::kLoad) continue;
    // A vector with one element for all is one access of it.
    const bool shared = line.operand.stride.at[kMaxDims - 1] == 0;
    const int elements = shared ? 1 : std::min<int>(vec, line.operand.vec);
    widest = std::max(widest, elements * dtype_bytes(line.operand.dtype));
  }
  return widest >= 16 ? 1 : widest >= 8 ? 1.1 : widest >= 4 ? 1.9 : 3.6;
}

// The same for the config's vectors. At the ends of a row, elements are read one by one: a vector
// less one element of them in the mean of all skews.
double slow_accesses(const Program& terms, const ReduceConfig& config, i64 symbol_hi) {
  const double whole = narrow_accesses(terms, config.vec);
  if (!config.partial_vectors()) return whole;
  const auto inner = static_cast<double>(largest(config.size.at[kMaxDims - 1], symbol_hi));
  const double single = std::min((config.vec - 1) / std::max(inner, 1.0), 1.0);
  return whole + single * (narrow_accesses(terms, 1) - whole);
}

// The widest vectors of terms, with a skew where this gains more than it costs: the shift of a row
// and a select for each element.
void choose_vectors_of_terms(const Reduction& r, const Program& prologue, ReduceConfig& config) {
  constexpr double kSkewGain = 0.8;
  const i64 symbol_hi = r.context.symbol_hi;
  const i64 inner = largest(config.size.at[kMaxDims - 1], symbol_hi);
  const int widest = widest_in_registers(prologue, r.program, vector_width(prologue, 8));
  config.vec = 1;
  for (ReduceConfig wider = config; wider.vec <= widest && wider.vec <= inner; wider.vec *= 2) {
    for (int d = 0; d < kMaxDims; ++d) wider.skew.at[d] = r.row_steps.at[d] % wider.vec;
    const bool first_partial = wider.partial_vectors() && !config.partial_vectors();
    if (slow_accesses(prologue, wider, symbol_hi) <=
        (first_partial ? kSkewGain : 1) * slow_accesses(prologue, config, symbol_hi)) {
      config = wider;
    }
  }
}

// The shape of a sum along its terms: neighbouring threads read neighbouring vectors, and each
// thread has four if there are enough to fill the SMs.
void choose_shape_along_terms(const Reduction& r, const Program& prologue, i64 terms, i64 outputs,
                              ReduceConfig& config) {
  constexpr i64 kThreads = 256, kMostThreads = 512, kVectors = 4;
  choose_vectors_of_terms(r, prologue, config);
  i64 threads = power_of_two_at_least(std::max<i64>(terms / (kVectors * config.vec), 1));
  const i64 filled = kMostThreads * r.context.target.sm_count;
  while (threads * outputs < filled && 2 * threads * config.vec <= terms) threads *= 2;
  config.slices = static_cast<i32>(std::min(threads, kMostThreads));
  config.lanes = static_cast<i32>(std::max<i64>(kThreads / config.slices, 1));
  keep_in_registers(prologue, r.program, config);
}

// CTAs for each SM with which small ones fill it and overlap.
constexpr i64 kManyCtas = 8;

// Vectors, lanes and slices for `terms` terms and `outputs` results in each part.
void choose_shape(const Reduction& r, const Program& prologue, const Program& program, i64 terms,
                  i64 outputs, ReduceConfig& config) {
  const i64 results = outputs * config.parts;
  if (config.along_terms) return choose_shape_along_terms(r, prologue, terms, results, config);
  // Lanes read neighbouring results: those of one part.
  const auto lanes_of = [&](i64 vec) {
    return std::min<i64>(32, power_of_two_at_least(ceil_div(std::max<i64>(outputs, 1), vec)));
  };
  int limit = widest_in_registers(prologue, program, 8);
  while (limit > 1 &&
         (limit > r.inner || results / (limit * lanes_of(limit)) < r.context.target.sm_count)) {
    limit /= 2;
  }
  config.vec = std::min(vector_width(prologue, limit), vector_width(program, limit));
  const i64 vectors = ceil_div(std::max<i64>(results, 1), config.vec);
  config.lanes = static_cast<i32>(lanes_of(config.vec));
  // One number of slices for every number of outputs: a slice adds the same terms.
  constexpr i32 kInvariantLanes = 8;
  if (r.context.options.batch_invariant) config.lanes = kInvariantLanes;
  // A CTA ends with a sum over its slices. Where CTAs fill the SMs anyway, small ones overlap that
  // with the terms of others (RESULTS reduce-2).
  const bool many = vectors / config.lanes >= kManyCtas * r.context.target.sm_count;
  const i64 threads = many && !r.context.options.batch_invariant ? 256 : 512;
  config.slices = static_cast<i32>(
      std::min<i64>(threads / config.lanes, power_of_two_at_least(std::max<i64>(terms / 4, 1))));
  keep_in_registers(prologue, program, config);
}

// The number of CTAs that keeps the chip as busy as `ctas` do: where SMs have unequal numbers of
// CTAs, the last ones run while other SMs are idle.
double busy_ctas(const Target& target, double ctas) {
  const double per_sm = ctas / target.sm_count;
  return per_sm <= 1 ? ctas : target.sm_count * per_sm / std::ceil(per_sm);
}

// CTAs of `lanes` vectors of results, for each part of the terms.
GridRule grid_rule(const Reduction& r, const ReduceConfig& config) {
  llvm::SmallVector<Axis, kMaxDims> axes = {{AxisKind::kFree, Extent(config.parts), {}}};
  llvm::append_range(axes, llvm::makeArrayRef(r.reduce.space.axes).drop_front(r.reduce.term_rank));
  if (axes.size() == 1 || r.reduce.along_terms) axes.push_back({AxisKind::kFree, Extent(1), {}});
  if (r.reduce.along_terms) axes.erase(axes.end() - 2);
  return vector_grid(axes, config.result_vec(), config.lanes, r.context.symbol_hi);
}

// A kernel of the reduction: `bytes` that it moves.
KernelPlan make_kernel(const Reduction& r, const ReduceConfig& config, Program prologue,
                       Program program, i64 terms, i64 bytes) {
  KernelPlan kernel;
  kernel.family = &reduce_family();
  kernel.prologue = std::move(prologue);
  kernel.program = std::move(program);
  kernel.slots = bind_slots(r.context.tensors);
  kernel.scalars = r.context.tensors.scalars;
  kernel.config = config;
  kernel.threads = config.lanes * config.slices;
  kernel.smem_bytes = config.smem_bytes();
  kernel.grid = grid_rule(r, config);
  kernel.symbol = fmt::format("{}_reduce_l{}s{}", r.context.name, config.lanes, config.slices);
  kernel.config_text = fmt::format("reduce, {} x {}, {} per lane", counted(config.lanes, "lane"),
                                   counted(config.slices, "slice"),
                                   counted(config.vec, config.along_terms ? "term" : "element"));
  if (config.rows > 1) kernel.config_text += fmt::format(", sums of {} rows", config.rows);
  if (config.parts > 1) kernel.config_text += fmt::format(", {} parts of the terms", config.parts);
  const i64 work = terms * r.outputs;
  const double ctas = static_cast<double>(kernel.grid.ctas(r.context.symbol_hi));
  const double busy = busy_ctas(r.context.target, ctas);
  // Small CTAs share an SM.
  const double at_once =
      std::clamp(ctas / r.context.target.sm_count, 1.0, std::max(512.0 / kernel.threads, 1.0));
  kernel.predicted = predict_elementwise(
      r.context.target, bytes, program_flops(kernel.prologue, work) + static_cast<double>(work),
      busy * at_once * kernel.threads, slow_accesses(kernel.prologue, config, r.context.symbol_hi));
  if (busy > 0) kernel.predicted.waves *= ctas / busy;
  // A thread adds the sums of all slices, a load from shared memory after the other; along terms
  // those of warps, whose own take five shuffles.
  constexpr double kSliceClocks = 30;
  const double steps = config.along_terms ? 5 + config.slices / 32.0 : config.slices;
  kernel.predicted.tail_us = steps * kSliceClocks / (r.context.target.clock_ghz * 1e3);
  // Latencies until the kernel after has the sums, for which all of its CTAs wait (RESULTS
  // model-23).
  constexpr double kHandOver = 0.35;
  if (r.context.target.compute_capability() >= 90)
    kernel.predicted.tail_us += kHandOver * rates_of(r.context.target).latency_us;
  kernel.predicted.us += kernel.predicted.tail_us;
  return kernel;
}

KernelPlan whole_kernel(const Reduction& r) {
  ReduceConfig config = r.config;
  choose_shape(r, r.prologue, r.program, r.terms, r.outputs, config);
  KernelPlan kernel = make_kernel(r, config, r.prologue, r.program, r.terms,
                                  program_bytes(r.context.tensors, r.context.symbol_hi));
  kernel.prologue_results = r.context.tensors.prologue_results;
  return kernel;
}

// A load or store of the results of the parts, f32 [part][output dimensions].
ProgramLine part_line(const Reduction& r, ProgramLine::Kind kind, int part_dim) {
  ProgramLine line;
  line.kind = kind;
  line.name = "part";
  line.comment = kind == ProgramLine::Kind::kStore ? "to the workspace" : "of one part's terms";
  line.operand.slot = static_cast<i32>(r.context.tensors.locations.size());
  i64 stride = 1;
  for (int a = 0; a < r.free_axes; ++a) {
    const int dim = kMaxDims - 1 - a - (r.reduce.along_terms ? 1 : 0);
    line.operand.stride.at[dim] = stride;
    stride *= largest(r.config.size.at[dim], r.context.symbol_hi);
  }
  line.operand.stride.at[part_dim] = stride;
  line.operand.vec = 4;
  while (r.inner % line.operand.vec != 0) line.operand.vec /= 2;
  return line;
}

// The kernel of the terms in the parts of `config`, with results in `slot`.
KernelPlan kernel_of_parts(const Reduction& r, ReduceConfig config, const SlotBinding& slot) {
  ProgramLine accumulator;
  accumulator.kind = ProgramLine::Kind::kAccumulator;
  accumulator.name = "all";
  accumulator.comment = "terms of this part";
  ProgramLine store = part_line(r, ProgramLine::Kind::kStore, config.part_dim);
  store.args = {0};
  // As wide as the terms: f32 results are stored by two accesses.
  choose_shape(r, r.prologue, r.prologue, ceil_div(r.terms, i64{config.parts}), r.outputs, config);
  const i64 bytes = program_bytes(r.context.tensors, r.context.symbol_hi) + slot.bytes;
  const auto kernel = [&] {
    return make_kernel(r, config, r.prologue, {accumulator, store}, r.terms, bytes);
  };
  KernelPlan best = kernel();
  // Few results leave many slices, whose sum at the end takes long. An SM is full of CTAs of at
  // least two warps.
  while (!config.along_terms && config.lanes < 32 && config.lanes * config.slices > 64) {
    config.slices /= 2;
    KernelPlan smaller = kernel();
    if (smaller.predicted.us < best.predicted.us) best = std::move(smaller);
  }
  best.prologue_results = r.context.tensors.prologue_results;
  return best;
}

// The kernel that combines the parts in ascending order and runs the program.
KernelPlan kernel_that_combines(const Reduction& r, int parts, const SlotBinding& slot) {
  ReduceConfig config = r.config;
  config.rows = 1;
  config.ends = {};
  if (config.along_terms) config.size.at[kMaxDims - 1] = Extent(1);
  config.along_terms = false;
  for (int d = 0; d < config.term_rank; ++d) config.size.at[d] = Extent(1);
  config.term_rank = 1;
  config.size.at[0] = Extent(parts);
  const Program from_workspace = {part_line(r, ProgramLine::Kind::kLoad, 0)};
  choose_shape(r, from_workspace, r.program, parts, r.outputs, config);
  KernelPlan kernel =
      make_kernel(r, config, from_workspace, r.program, parts, slot.bytes + 4 * r.outputs);
  kernel.prologue_results = {0};
  kernel.symbol += fmt::format("p{}", parts);
  kernel.config_text += fmt::format(", of {} parts", parts);
  return kernel;
}

// The terms in `parts`, then a kernel that combines them. Empty: there is no dimension left for the
// part.
PlannedGroup kernels_in_parts(const Reduction& r, int parts, i64 workspace_bytes) {
  PlannedGroup planned;
  ReduceConfig config = r.config;
  config.parts = parts;
  config.part_dim = kMaxDims - 1 - r.free_axes - (r.reduce.along_terms ? 1 : 0);
  // Dimension 0 is the terms' even where all of them are along the last one.
  if (config.part_dim < std::max(config.term_rank, 1)) return planned;
  config.size.at[config.part_dim] = Extent(parts);
  SlotBinding slot;
  slot.kind = SlotBinding::Kind::kWorkspace;
  slot.workspace_offset = ceil_div(workspace_bytes, 256) * 256;
  slot.name = "parts of the terms";
  slot.align = 256;
  slot.bytes = 4 * parts * r.outputs;
  planned.workspace_bytes =
      slot.workspace_offset + ceil_div(std::max<i64>(slot.bytes, 1), 256) * 256;
  planned.kernels.push_back(kernel_of_parts(r, config, slot));
  planned.kernels.push_back(kernel_that_combines(r, parts, slot));
  for (KernelPlan& kernel : planned.kernels) {
    kernel.slots.push_back(slot);
    keep_addressed_slots(kernel);
  }
  return planned;
}

// Gives the vectors of terms their alignment: they begin where the rows of one operand, the one
// with the most bytes, are aligned (ReduceConfig::skew), so others count from those rows.
void bind_vectors_of_terms(Reduction& r) {
  const auto& locations = r.context.tensors.locations;
  const auto is_adjacent = [](const ProgramLine& line) {
    return line.is_memory() && line.operand.stride.at[kMaxDims - 1] == 1;
  };
  i64 most = -1;
  for (const ProgramLine& line : r.prologue) {
    if (!is_adjacent(line)) continue;
    const i64 bytes = traffic_at(locations[line.operand.slot], r.context.symbol_hi);
    if (bytes > most) r.row_steps = line.operand.stride;
    most = std::max(most, bytes);
  }
  r.row_steps.at[kMaxDims - 1] = 0;
  for (ProgramLine& line : r.prologue) {
    if (!is_adjacent(line)) continue;
    const i64 bytes = dtype_bytes(line.operand.dtype);
    llvm::SmallVector<i64, kMaxDims> steps;
    for (int d = 0; d < kMaxDims - 1; ++d)
      steps.push_back((line.operand.stride.at[d] - r.row_steps.at[d]) * bytes);
    const i64 access = access_bytes(locations[line.operand.slot].binding.align, steps);
    line.operand.vec = static_cast<i32>(std::max<i64>(1, access / bytes));
  }
}

// Fills in all but the space.
void bind(Reduction& r) {
  const GroupContext& context = r.context;
  const Space& space = r.reduce.space;
  const int axes = static_cast<int>(space.axes.size());
  const int terms = r.reduce.term_rank;
  r.prologue = bind_program(context, context.tensors.prologue, space, r.reduce.prologue);
  r.program = bind_program(context, context.tensors.program, space, r.reduce.program);
  place_terms(r.prologue, axes, terms);
  place_terms(r.program, axes, terms);
  if (r.reduce.along_terms) bind_vectors_of_terms(r);
  for (int a = 0; a < axes; ++a) {
    const i64 size = largest(space.axes[a].extent, context.symbol_hi);
    const bool is_term = a < terms || (r.reduce.along_terms && a + 1 == axes);
    (is_term ? r.terms : r.outputs) *= size;
  }
  if (context.chain.value(context.group.anchors[0].value).op == Op::kReduceMax)
    r.config.op = ReduceOp::kMax;
  r.config.size = space_extents(space);
  split_terms(r.config.size.at, axes, terms, Extent(1));
  r.config.term_rank = terms;
  r.config.along_terms = r.reduce.along_terms;
  if (context.group.adds_column_sums) r.config.rows = kSummedRows;
  r.terms = ceil_div(r.terms, i64{r.config.rows});
  if (const auto& grouped = context.chain.info(context.group.anchors[0].value).grouped_terms) {
    r.config.ends = bind_ends(context, grouped->ends, kMaxDims - axes + terms);
    r.terms = ceil_div(r.terms, r.config.ends.num_groups);  // of an average group
  }
  r.free_axes = r.reduce.along_terms ? axes - terms - 1 : std::max(axes - terms, 1);
  r.inner = axes > terms && !r.reduce.along_terms ? r.config.size.at[kMaxDims - 1].size : 1;
}

// Kernels in parts are taken if their time is below this fraction of one kernel's.
constexpr double kSplitGain = 0.7;

double predicted_us(const PlannedGroup& planned) {
  double us = 0;
  for (const KernelPlan& kernel : planned.kernels) us += kernel.predicted.us;
  return us;
}

// Replaces `best`, one kernel, by kernels in parts where these are predicted to gain enough. Among
// several numbers of parts, takes the one with the widest vectors, then the fastest.
void divide_terms(const Reduction& r, i64 workspace_bytes, PlannedGroup& best) {
  const double limit_us = kSplitGain * predicted_us(best);
  const auto vec = [](const PlannedGroup& planned) {
    return planned.kernels.front().config.get<ReduceConfig>().vec;
  };
  const i64 enough_ctas = kManyCtas * r.context.target.sm_count;
  i64 ctas = 0;
  for (int parts = 4; r.terms >= i64{16} * parts && ctas < enough_ctas; parts *= 2) {
    PlannedGroup planned = kernels_in_parts(r, parts, workspace_bytes);
    if (planned.kernels.empty()) break;
    ctas = planned.kernels.front().grid.ctas(r.context.symbol_hi);
    if (predicted_us(planned) >= limit_us) continue;
    const bool wider = best.kernels.size() == 1 || vec(planned) > vec(best);
    if (wider || (vec(planned) == vec(best) && predicted_us(planned) < predicted_us(best)))
      best = std::move(planned);
  }
}

}  // namespace

const KernelFamily& reduce_family() {
  static const ReduceFamily family;
  return family;
}

Expected<PlannedGroup> plan_reduce(const GroupContext& context, i64 workspace_bytes) {
  for (const GroupProgram* program : {&context.tensors.prologue, &context.tensors.program}) {
    if (Error error = check_group_operands(context, *program)) return error;
  }
  Reduction r{context, make_reduce_space(context), {}, {}, {}};
  ReduceSpace& reduce = r.reduce;
  if (reduce.term_rank == 0) {
    // All summed dimensions have size 1: one term, at coordinate 0.
    reduce.space.axes.insert(
        reduce.space.axes.begin(),
        Axis{AxisKind::kTerm, Extent(1),
             llvm::SmallVector<i64, 8>(
                 context.tensors.prologue.tensors.size() + context.tensors.program.tensors.size(),
                 0)});
    reduce.term_rank = 1;
  }
  if (Error error = check_axes(context, reduce.space, /*terms=*/true)) return error;
  const Value& anchor = context.chain.value(context.group.anchors[0].value);
  // Rows are counted along one dimension.
  if (context.group.adds_column_sums && reduce.term_rank != 1) {
    return make_error_at(anchor.at, ErrorCode::kUnsupported,
                         "'{}' adds sums of rows of {} dimensions: sum neighbouring ones",
                         anchor.name, reduce.term_rank);
  }
  const int axes = static_cast<int>(reduce.space.axes.size());
  // A scalar result still has the vector dimension to itself.
  const int needed = std::max(axes, reduce.term_rank + 1);
  if (needed > kMaxDims) {
    return make_error_at(anchor.at, ErrorCode::kUnsupported,
                         "'{}' needs {} loops after merging, above the limit of {}: reorder the "
                         "strides so that neighbouring dimensions merge",
                         anchor.name, needed, kMaxDims);
  }
  bind(r);
  PlannedGroup best;
  best.workspace_bytes = workspace_bytes;
  best.kernels.push_back(whole_kernel(r));
  // How many parts there are depends on the number of outputs.
  if (!context.options.batch_invariant) divide_terms(r, workspace_bytes, best);
  return best;
}

}  // namespace catenary
