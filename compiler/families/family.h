// SPDX-License-Identifier: Apache-2.0
// What the family planners share: a group's tensors placed on a kernel's axes, and the interface
// that make_plan calls. A family appends one KernelPlan or more (a split contraction brings its
// fix-up).
#pragma once

#include "compiler/fusion/group.h"

namespace catenary {

// What a family planner is given. The symbol range is the bucket's.
struct GroupContext {
  const VerifiedChain& chain;
  const Target& target;
  const PlanOptions& options;
  const FusionGroup& group;
  const GroupTensors& tensors;
  i64 symbol_hi = 0;     // the bucket's upper bound; 0 without a symbol
  i64& workspace_bytes;  // grows by what the family needs
  std::string name;      // symbol prefix, "ctn_<chain>_k<n>"
};

Error plan_pointwise(const GroupContext& context, std::vector<KernelPlan>& kernels);
Error plan_reduce(const GroupContext& context, std::vector<KernelPlan>& kernels);
// Chooses among the families below.
Error plan_contraction(const GroupContext& context, std::vector<KernelPlan>& kernels);
Error plan_gemm_sm80(const GroupContext& context, std::vector<KernelPlan>& kernels);
// False, and no kernel: a rule of the family does not hold, or gemm_sm80 is predicted to be faster.
// `tiles` gets the family's candidates either way.
Expected<bool> plan_gemm_sm90(const GroupContext& context, std::vector<KernelPlan>& kernels,
                              std::vector<TileOption>& tiles);
// Why the layout of the group's operands keeps it from that family, in words for the user; empty:
// it does not, or the target has no wgmma.
std::string gemm_sm90_problem(const GroupContext& context);

// Appends no kernel and returns false where the family does not fit the group, or is predicted to
// be slower than `rival` (null: there is none). Appends its candidates to `tiles`.
Expected<bool> plan_skinny(const GroupContext& context, const KernelPlan* rival,
                           std::vector<KernelPlan>& kernels, std::vector<TileOption>& tiles);

// Appends every tensor of `program` as a column of steps to the axes; axis a walks the program's
// dimension dim_of_axis[a] (-1: none). Returns the first column's number.
int add_tensors(Space& space, const GroupProgram& program, llvm::ArrayRef<int> dim_of_axis);

// The program with its operands filled from the space's axes: axis i of n lands on index
// kMaxDims - n + i. `first` is the column that add_tensors returned.
Program bind_program(const GroupContext& context, const GroupProgram& program, const Space& space,
                     int first);

// kResourceLimit when an axis that a kernel walks by coordinate is longer than kMaxAxisSize.
// `terms`: does it walk summed axes so?
Error check_axes(const GroupContext& context, const Space& space, bool terms);

// Right-aligned sizes of the space's axes.
Extents space_extents(const Space& space);

// Slots in place order.
std::vector<SlotBinding> bind_slots(const GroupTensors& tensors);

// Drops the slots that the kernel's programs and matrices do not address, and renumbers the rest: a
// kernel of a K split takes a part of its group's tensors.
void keep_addressed_slots(KernelPlan& kernel);

// The first kStore tensor of the program, or -1.
int first_store(const GroupProgram& program);

// Elements one thread takes at a time: the widest access any operand allows, at most `limit`.
int vector_width(const Program& program, int limit);

// Bytes that the program's tensors move, each once, and its elementwise work in flops.
i64 program_bytes(const GroupTensors& tensors);
double program_flops(const Program& program, i64 elements);

// The program with the weights that it reads asked for before the dependency wait
// (Operand::early).
Program with_early_weights(Program program);

// The bucket's largest size of an extent.
inline i64 largest(Extent extent, i64 symbol_hi) {
  return extent.scale == 0 ? extent.size : symbol_hi * extent.scale;
}
i64 largest_elements(const Space& space, i64 symbol_hi);

// Fixed cost of one more launch in a chain, microseconds: H100-class graph launches measure 1.3 us
// from kernel to kernel (Hazy Research, quoted in the notes), of which about half is drain and fill
// that the model counts elsewhere.
inline constexpr double kLaunchUs = 0.8;

// Reachable part of the DRAM rate, from the copy rate of an H200: 4.28 of 4.8 TB/s.
inline constexpr double kDramEfficiency = 0.89;

}  // namespace catenary
