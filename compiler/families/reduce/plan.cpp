// SPDX-License-Identifier: Apache-2.0
// Groups anchored by a reduction -> `reduce` kernels.
#include <algorithm>

#include "compiler/emit/emit_program.h"
#include "compiler/emit/fields.h"
#include "compiler/families/family.h"
#include "compiler/families/roofline.h"

namespace catenary {
namespace {

i64 power_of_two_at_least(i64 n) {
  i64 p = 1;
  while (p < n) p *= 2;
  return p;
}

struct ReduceSpace {
  Space space;  // term axes first, then free axes
  int prologue = 0;
  int program = 0;
  int term_rank = 0;
};

// Each dimension of the reduced operand is an axis. The program of the result has only the axes
// that are not reduced.
ReduceSpace make_space(const GroupContext& context) {
  ReduceSpace result;
  const ValueId sum = context.group.anchors[0].value;
  const ValueInfo& info = context.chain.info(sum);
  const ValueId operand = context.chain.value(sum).operands[0].value;
  const auto& shape = context.chain.info(operand).type.shape;
  llvm::SmallVector<int, 8> operand_dim, result_dim;
  const auto add = [&](int d, AxisKind kind, int in_result) {
    result.space.axes.push_back({kind, extent_of(shape[d]), {}});
    operand_dim.push_back(d);
    result_dim.push_back(in_result);
  };
  for (int d : info.summed) add(d, AxisKind::kTerm, -1);
  for (int r = 0; r < info.type.rank(); ++r) add(info.operand_dims[0][r], AxisKind::kFree, r);
  result.prologue = add_tensors(result.space, context.tensors.prologue, operand_dim);
  result.program = add_tensors(result.space, context.tensors.program, result_dim);
  if (!context.tensors.prologue.tensors.empty()) {
    sort_axes(result.space, AxisKind::kTerm, result.prologue);
  }
  sort_axes(result.space, AxisKind::kFree, result.program + first_store(context.tensors.program));
  merge_axes(result.space);
  for (const Axis& axis : result.space.axes) result.term_rank += axis.kind == AxisKind::kTerm;
  return result;
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
  fields.add("slices", c.slices).add_unless_default("op", c.op, ReduceConfig().op);
  return fields.str();
}

class ReduceFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "reduce"; }
  KernelText text(const KernelPlan& kernel) const override {
    const auto& c = kernel.config.get<ReduceConfig>();
    const bool guarded = has_partial_vector(c.size.at[kMaxDims - 1], c.vec);
    const ProgramText terms{"Prologue", c.vec, guarded, 0};
    const ProgramText program{"Epilogue", c.vec, guarded, c.sums};
    return {"kernels/reduce.cuh", "ReduceConfig", config_text(c),
            emit_value_program(kernel.prologue, kernel.prologue_results, terms) +
                emit_store_program(kernel.program, program),
            "reduce<kConfig, Prologue, Epilogue>"};
  }
  // Its slots are those of the programs.
  KernelConfig with_slots(const KernelConfig& config, llvm::function_ref<i32(i32)>) const override {
    return config;
  }
};

}  // namespace

const KernelFamily& reduce_family() {
  static const ReduceFamily family;
  return family;
}

Expected<KernelPlan> plan_reduce(const GroupContext& context) {
  for (const GroupProgram* program : {&context.tensors.prologue, &context.tensors.program}) {
    if (Error error = check_group_operands(context, *program)) return error;
  }
  ReduceSpace reduce = make_space(context);
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
  const int axes = static_cast<int>(reduce.space.axes.size());
  // A scalar result still has the vector dimension to itself.
  const int needed = std::max(axes, reduce.term_rank + 1);
  if (needed > kMaxDims) {
    return make_error(ErrorCode::kUnsupported,
                      "'{}' needs {} loops after merging, above the limit of {}: reorder the "
                      "strides so that neighbouring dimensions merge",
                      context.chain.value(context.group.anchors[0].value).name, needed, kMaxDims);
  }
  KernelPlan kernel;
  kernel.family = &reduce_family();
  kernel.prologue = bind_program(context, context.tensors.prologue, reduce.space, reduce.prologue);
  kernel.prologue_results = context.tensors.prologue_results;
  kernel.program = bind_program(context, context.tensors.program, reduce.space, reduce.program);
  kernel.slots = bind_slots(context.tensors);
  kernel.scalars = context.tensors.scalars;

  i64 terms = 1;
  i64 outputs = 1;
  for (const Axis& axis : reduce.space.axes) {
    const i64 size = largest(axis.extent, context.symbol_hi);
    (axis.kind == AxisKind::kTerm ? terms : outputs) *= size;
  }
  ReduceConfig config;
  if (context.chain.value(context.group.anchors[0].value).op == Op::kReduceMax) {
    config.op = ReduceOp::kMax;
  }
  config.size = space_extents(reduce.space);
  split_terms(config.size.at, axes, reduce.term_rank, Extent(1));
  place_terms(kernel.prologue, axes, reduce.term_rank);
  place_terms(kernel.program, axes, reduce.term_rank);
  config.term_rank = reduce.term_rank;
  const i64 inner = axes > reduce.term_rank ? config.size.at[kMaxDims - 1].size : 1;
  int limit = 8;
  while (limit > 1 && (limit > inner || outputs / (limit * 32) < context.target.sm_count))
    limit /= 2;
  config.vec = std::min(vector_width(kernel.prologue, limit), vector_width(kernel.program, limit));
  const i64 vectors = ceil_div(std::max<i64>(outputs, 1), config.vec);
  config.lanes = static_cast<i32>(std::min<i64>(32, power_of_two_at_least(vectors)));
  // One number of slices for every number of outputs: a slice adds the same terms.
  constexpr i32 kInvariantLanes = 8;
  if (context.options.batch_invariant) config.lanes = kInvariantLanes;
  config.slices = static_cast<i32>(
      std::min<i64>(512 / config.lanes, power_of_two_at_least(std::max<i64>(terms / 4, 1))));
  kernel.config = config;
  kernel.threads = config.lanes * config.slices;
  kernel.smem_bytes = config.slices > 1 ? i64{4} * config.sums * kernel.threads * config.vec : 0;
  // Sized for the symbol's largest value: CTAs outside the space leave at once.
  i64 all_vectors = ceil_div(inner, config.vec);
  for (int a = reduce.term_rank; a + 1 < axes; ++a) all_vectors *= reduce.space.axes[a].extent.size;
  kernel.grid.size = all_vectors;
  kernel.grid.block = config.lanes;
  kernel.symbol = fmt::format("{}_reduce_l{}s{}", context.name, config.lanes, config.slices);
  kernel.config_text = fmt::format("reduce, {} lanes x {} slices, {} elements per lane",
                                   config.lanes, config.slices, config.vec);
  kernel.predicted = predict_elementwise(
      context.target, program_bytes(context.tensors),
      program_flops(kernel.prologue, terms * outputs) + static_cast<double>(terms * outputs),
      static_cast<double>(kernel.grid.ctas(context.symbol_hi)) * kernel.threads);
  return kernel;
}

}  // namespace catenary
