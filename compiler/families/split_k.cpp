// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/split_k.h"

#include <algorithm>

#include "compiler/families/family.h"

namespace catenary {
namespace {

// The split kernel's own program: accumulators to f32 partial sums. `transposed`: the kernel's rows
// are columns of the partial sums.
Program partial_stores(const ContractionProblem& p, bool transposed, int first_slot, Dims stride) {
  if (transposed) std::swap(stride.at[kMaxDims - 1], stride.at[kMaxDims - 2]);
  Program program;
  for (int s = 0; s < p.num_accumulators(); ++s) {
    ProgramLine accumulator;
    accumulator.kind = ProgramLine::Kind::kAccumulator;
    accumulator.index = s;
    accumulator.name = fmt::format("sum{}", s);
    accumulator.comment = "sum over this split's k-slice";
    program.push_back(accumulator);
  }
  for (int s = 0; s < p.num_accumulators(); ++s) {
    ProgramLine store;
    store.kind = ProgramLine::Kind::kStore;
    store.args = {s};
    store.name = fmt::format("sum{}", s);
    store.comment = "to the workspace";
    store.operand.slot = first_slot + s;
    store.operand.vec = 4;
    store.operand.stride = stride;
    while (p.size.n % store.operand.vec != 0) store.operand.vec /= 2;
    program.push_back(store);
  }
  return program;
}

// With the sizes of the bucket, not those of the chain.
struct PartialLayout {
  Dims stride;                // split at index kMaxDims - 3 - batch_rank
  i64 accumulator_bytes = 0;  // one accumulator of all splits
};

PartialLayout partial_layout(const ContractionProblem& p, int split_k) {
  PartialLayout layout;
  i64 stride = 1;
  layout.stride.at[kMaxDims - 1] = stride;
  stride *= p.size.n;
  layout.stride.at[kMaxDims - 2] = stride;
  stride *= p.size.m;
  for (int b = 0; b < p.space.batch_rank; ++b) {
    layout.stride.at[kMaxDims - 3 - b] = stride;
    stride *= largest(p.space.batch.at[kMaxDims - 1 - b], p.size.symbol);
  }
  layout.stride.at[kMaxDims - 3 - p.space.batch_rank] = stride;
  // Empty sums have workspace of their own too: slots are told apart by their offset.
  layout.accumulator_bytes = ceil_div(std::max<i64>(stride * split_k * 4, 1), 256) * 256;
  return layout;
}

// The slot of one accumulator's partial sums, and the line that loads them.
void add_partials(const ContractionProblem& p, const PartialLayout& layout, i64 offset,
                  int accumulator, KernelPlan& kernel) {
  SlotBinding slot;
  slot.kind = SlotBinding::Kind::kWorkspace;
  slot.workspace_offset = offset + accumulator * layout.accumulator_bytes;
  slot.name = "partial sums";
  slot.align = 256;
  slot.bytes = layout.accumulator_bytes;
  ProgramLine load;
  load.kind = ProgramLine::Kind::kLoad;
  load.name = fmt::format("part{}", accumulator);
  load.comment = "one split's sum";
  load.index = accumulator;
  load.operand.slot = static_cast<int>(kernel.slots.size());
  load.operand.stride = layout.stride;
  const int split_dim = kMaxDims - 3 - p.space.batch_rank;
  std::swap(load.operand.stride.at[0], load.operand.stride.at[split_dim]);
  load.operand.vec = 4;
  while (p.size.n % load.operand.vec != 0) load.operand.vec /= 2;
  kernel.slots.push_back(slot);
  kernel.prologue.push_back(load);
  kernel.prologue_results.push_back(accumulator);
}

KernelPlan reduction_kernel(const ContractionProblem& p, int split_k, const std::string& name,
                            const PartialLayout& layout, i64 offset) {
  KernelPlan kernel;
  kernel.family = &reduce_family();
  kernel.program = p.program;
  kernel.slots = p.slots;
  kernel.scalars = p.scalars;
  ReduceConfig config;
  config.term_rank = 1;
  config.sums = p.num_accumulators();
  config.size.at[0] = Extent(split_k);
  config.size.at[kMaxDims - 1] = p.space.n;
  config.size.at[kMaxDims - 2] = p.space.m;
  for (int b = 0; b < p.space.batch_rank; ++b) {
    config.size.at[kMaxDims - 3 - b] = p.space.batch.at[kMaxDims - 1 - b];
  }
  for (int i = 0; i < config.sums; ++i) add_partials(p, layout, offset, i, kernel);
  config.vec = std::min(vector_width(kernel.program, 8), 4);
  config.lanes = 256;
  config.slices = 1;
  kernel.config = config;
  kernel.threads = config.lanes;
  llvm::SmallVector<Axis, kMaxDims> axes;
  for (const Extent& extent : llvm::makeArrayRef(config.size.at).drop_front())
    axes.push_back({AxisKind::kFree, extent, {}});
  kernel.grid = vector_grid(axes, config.vec, config.lanes, p.size.symbol);
  kernel.symbol = fmt::format("{}_fixup_s{}", name, split_k);
  kernel.config_text = fmt::format("adds {} partial sums in ascending order", split_k);
  return kernel;
}

}  // namespace

PlannedGroup apply_split_k(const ContractionProblem& problem, bool transposed, int split_k,
                           const std::string& name, i64 workspace_bytes, KernelPlan kernel) {
  PlannedGroup planned;
  planned.workspace_bytes = workspace_bytes;
  if (split_k == 1) {
    planned.kernels.push_back(std::move(kernel));
    return planned;
  }
  const PartialLayout layout = partial_layout(problem, split_k);
  const i64 offset = ceil_div(workspace_bytes, 256) * 256;
  planned.workspace_bytes = offset + layout.accumulator_bytes * problem.num_accumulators();
  KernelPlan reduction = reduction_kernel(problem, split_k, name, layout, offset);
  const int first_slot = static_cast<int>(problem.slots.size());
  reduction.gains_by_pdl = kernel.gains_by_pdl;
  kernel.program = partial_stores(problem, transposed, first_slot, layout.stride);
  kernel.slots = reduction.slots;
  kernel.scalars.clear();
  keep_addressed_slots(kernel);
  keep_addressed_slots(reduction);
  planned.kernels.push_back(std::move(kernel));
  planned.kernels.push_back(std::move(reduction));
  return planned;
}

}  // namespace catenary
