// SPDX-License-Identifier: Apache-2.0
#include "compiler/families/split_k.h"

#include <algorithm>

namespace catenary {
namespace {

// The split kernel's own program: accumulators to f32 partial sums [split][sum][batch..][M][N].
Program partial_stores(const SplitSums& c, int first_slot, const Dims& step) {
  Program program;
  for (int s = 0; s < c.sums; ++s) {
    ProgramLine accumulator;
    accumulator.kind = ProgramLine::Kind::kAccumulator;
    accumulator.index = s;
    accumulator.name = fmt::format("sum{}", s);
    accumulator.comment = "sum over this split's part of K";
    program.push_back(accumulator);
  }
  for (int s = 0; s < c.sums; ++s) {
    ProgramLine store;
    store.kind = ProgramLine::Kind::kStore;
    store.args = {s};
    store.name = fmt::format("sum{}", s);
    store.comment = "to the workspace";
    store.operand.slot = first_slot + s;
    store.operand.vec = 4;
    store.operand.stride = step;
    const i64 n = c.n.size;
    while (n % store.operand.vec != 0) store.operand.vec /= 2;
    program.push_back(store);
  }
  return program;
}

struct PartialLayout {
  Dims step;          // split at index kMaxDims - 3 - batch_rank
  i64 sum_bytes = 0;  // one sum of all splits
};

PartialLayout partial_layout(const SplitSums& c) {
  PartialLayout layout;
  i64 step = 1;
  layout.step.at[kMaxDims - 1] = step;
  step *= c.n.size;
  layout.step.at[kMaxDims - 2] = step;
  step *= c.m.size;
  for (int b = 0; b < c.batch_rank; ++b) {
    layout.step.at[kMaxDims - 3 - b] = step;
    step *= c.batch.at[kMaxDims - 1 - b].size;
  }
  layout.step.at[kMaxDims - 3 - c.batch_rank] = step;
  // Empty sums have places of their own too.
  layout.sum_bytes = ceil_div(std::max<i64>(step * c.split_k * 4, 1), 256) * 256;
  return layout;
}

KernelPlan fix_up_kernel(const GroupContext& context, const Program& program, const SplitSums& c,
                         const PartialLayout& layout, i64 offset) {
  KernelPlan kernel;
  kernel.family = Family::kReduce;
  kernel.program = program;
  kernel.slots = bind_slots(context.tensors);
  kernel.scalars = context.tensors.scalars;
  ReduceConfig config;
  config.term_rank = 1;
  config.sums = c.sums;
  config.size.at[0] = Extent(c.split_k);
  config.size.at[kMaxDims - 1] = c.n;
  config.size.at[kMaxDims - 2] = c.m;
  for (int b = 0; b < c.batch_rank; ++b) {
    config.size.at[kMaxDims - 3 - b] = c.batch.at[kMaxDims - 1 - b];
  }
  for (int s = 0; s < c.sums; ++s) {
    SlotBinding slot;
    slot.kind = SlotBinding::Kind::kWorkspace;
    slot.workspace_offset = offset + s * layout.sum_bytes;
    slot.name = "partial sums";
    slot.align = 256;
    slot.bytes = layout.sum_bytes;
    ProgramLine load;
    load.kind = ProgramLine::Kind::kLoad;
    load.name = fmt::format("part{}", s);
    load.comment = "one split's sum";
    load.index = s;
    load.operand.slot = static_cast<int>(kernel.slots.size());
    load.operand.stride = layout.step;
    const int split_dim = kMaxDims - 3 - c.batch_rank;
    std::swap(load.operand.stride.at[0], load.operand.stride.at[split_dim]);
    load.operand.vec = 4;
    while (c.n.size % load.operand.vec != 0) load.operand.vec /= 2;
    kernel.slots.push_back(slot);
    kernel.prologue.push_back(load);
    kernel.prologue_results.push_back(s);
  }
  config.vec = std::min(vector_width(kernel.program, 8), 4);
  config.lanes = 256;
  config.slices = 1;
  kernel.config = config;
  kernel.threads = config.lanes;
  i64 rest = ceil_div(c.n.size, config.vec);
  for (const Extent& extent : c.batch.at) rest *= extent.size;
  kernel.grid.size = c.m.size * rest;
  kernel.grid.scale = c.m.scale * rest;
  kernel.grid.block = config.lanes;
  kernel.symbol = fmt::format("{}_fixup_s{}", context.name, c.split_k);
  kernel.config_text = fmt::format("adds {} parts in ascending order", c.split_k);
  return kernel;
}

}  // namespace

void finish_split(const GroupContext& context, const Program& program, const SplitSums& sums,
                  KernelPlan kernel, std::vector<KernelPlan>& kernels) {
  if (sums.split_k == 1) {
    kernels.push_back(std::move(kernel));
    return;
  }
  const PartialLayout layout = partial_layout(sums);
  const i64 offset = ceil_div(context.workspace_bytes, 256) * 256;
  context.workspace_bytes = offset + layout.sum_bytes * sums.sums;
  KernelPlan fix_up = fix_up_kernel(context, program, sums, layout, offset);
  const int first_slot = static_cast<int>(context.tensors.places.size());
  kernel.program = partial_stores(sums, first_slot, layout.step);
  kernel.slots = fix_up.slots;
  kernel.scalars.clear();
  keep_addressed_slots(kernel);
  keep_addressed_slots(fix_up);
  kernels.push_back(std::move(kernel));
  kernels.push_back(std::move(fix_up));
}

}  // namespace catenary
