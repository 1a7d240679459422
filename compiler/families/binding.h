// SPDX-License-Identifier: Apache-2.0
// A group's tensors placed on a kernel's axes: what every family planner shares.
#pragma once

#include "compiler/fusion/group.h"
#include "compiler/kernel_plan.h"
#include "compiler/plan.h"

namespace catenary {

// What a planner is given. The symbol range is the bucket's.
struct GroupContext {
  const VerifiedChain& chain;
  const Target& target;
  const PlanOptions& options;
  const FusionGroup& group;
  const GroupTensors& tensors;
  i64 symbol_hi = 0;  // the bucket's upper bound; 0 without a symbol
  std::string name;   // symbol prefix, "ctn_<chain>_k<n>"
  bool may_share_launch = false;  // with other contractions, in some plan of the chain
};

// A group's kernels, and the workspace of the bucket with what they need.
struct PlannedGroup {
  std::vector<KernelPlan> kernels;
  i64 workspace_bytes = 0;
};

Expected<KernelPlan> plan_pointwise(const GroupContext& context);
// The group's accumulator is a dequantised weight of integers.
Expected<KernelPlan> plan_dequantise(const GroupContext& context);
// Two kernels where the terms are too many for the CTAs of one. `workspace_bytes`: as below.
Expected<PlannedGroup> plan_reduce(const GroupContext& context, i64 workspace_bytes);
// Asks every contraction family. `workspace_bytes`: what the bucket has so far.
Expected<PlannedGroup> plan_contraction(const GroupContext& context, i64 workspace_bytes);
// The groups as one launch, if some family predicts less than `apart_us`, the time of their own
// kernels, or the tile that the options force is one that they share.
std::optional<KernelPlan> plan_beside(llvm::ArrayRef<GroupContext> contexts, double apart_us);

// Appends every tensor of `program` as a column of strides to the axes; axis a has the strides of
// the program's dimension dim_of_axis[a] (-1: none). Returns the first column's number.
int add_tensors(Space& space, const GroupProgram& program, llvm::ArrayRef<int> dim_of_axis);

// The program with its operands filled from the space's axes: axis i of n becomes index
// kMaxDims - n + i. `first` is the column that add_tensors returned.
Program bind_program(const GroupContext& context, const GroupProgram& program, const Space& space,
                     int first);

// The rows by whose groups the program takes operands; nothing if it takes none.
std::optional<GroupedRows> rows_by_group(const GroupProgram& program);

// kInternal when the program takes an operand by the group of a row that its kernel does not know:
// fusion leaves such a value to a pointwise kernel, which finds the groups of one dimension's rows.
Error check_group_operands(const GroupContext& context, const GroupProgram& program);

// The ends in parameter `ends`, one of the kernel's tensors; `dim`: GroupEnds::dim.
GroupEnds bind_ends(const GroupContext& context, ValueId ends, int dim);

// Which operand of a contraction is A, whose free labels are M.
struct Orientation {
  bool swapped = false;  // the right one of the first anchor
  bool fixed = false;    // no choice: operands differ in more than their labels
};

// How the group's contractions are oriented. kUnsupported when the operand with ragged rows is
// dequantised.
Expected<Orientation> find_orientation(const GroupContext& context);

// kResourceLimit when an axis with a coordinate is longer than kMaxAxisSize. `terms`: do summed
// axes have one?
Error check_axes(const GroupContext& context, const Space& space, bool terms);

// Right-aligned sizes of the space's axes.
Extents space_extents(const Space& space);

// Slots in the order of GroupTensors::locations.
std::vector<SlotBinding> bind_slots(const GroupTensors& tensors);

// Replaces each slot that the kernel's programs, maps and config address by `renumber` of it.
void renumber_slots(KernelPlan& kernel, llvm::function_ref<i32(i32)> renumber);

// Drops the slots that the kernel's programs, maps and config do not address, and renumbers the
// rest: a kernel of a split-K takes only a part of its group's tensors.
void keep_addressed_slots(KernelPlan& kernel);

// The first kStore tensor of the program, or -1.
int first_store(const GroupProgram& program);

// Elements one thread takes at a time: the widest access any operand allows, at most `limit`.
int vector_width(const Program& program, int limit);

// The most operands and values, in vectors, that a thread holds at one time: all operands are
// loaded before the first value is computed.
int live_values(const Program& program);

// Bytes of a group's tensors, each once, where the symbol is `symbol`, and a program's elementwise
// work in flops.
i64 program_bytes(const GroupTensors& tensors, i64 symbol);
double program_flops(const Program& program, i64 elements);

// The program with its weights loaded before the dependency wait (Operand::before_wait).
Program with_early_weights(Program program);

// The bucket's largest size of an extent.
inline i64 largest(Extent extent, i64 symbol_hi) {
  return extent.scale == 0 ? extent.size : symbol_hi * extent.scale;
}
i64 largest_elements(const Space& space, i64 symbol_hi);

// CTAs for vectors of `vec` elements along the last axis, `per_cta` of them in a CTA; a vector
// where there is no axis. A symbolic axis counts at the launch: if it is the last one, there are
// whole CTAs for each index of the others, unless those are more than CTAs for all vectors at
// symbol_hi.
GridRule vector_grid(llvm::ArrayRef<Axis> axes, i64 vec, i64 per_cta, i64 symbol_hi);

}  // namespace catenary
