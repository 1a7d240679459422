// SPDX-License-Identifier: Apache-2.0
#include "compiler/fusion/recomputed.h"

#include "compiler/fusion/edit_groups.h"
#include "compiler/fusion/group.h"

namespace catenary {
namespace {

using Kind = FusionGroup::Kind;

bool takes_by_group(const VerifiedChain& chain, ValueId id) {
  return llvm::any_of(chain.info(id).operand_group, [](int dim) { return dim >= 0; });
}

bool is_output(const VerifiedChain& chain, ValueId id) {
  return llvm::any_of(chain.chain().outputs,
                      [&](const Output& output) { return output.value == id; });
}

i64 bytes_of(const VerifiedChain& chain, ValueId id) {
  const TensorType& type = chain.info(id).type;
  return num_elements(type) * dtype_bytes(type.dtype);
}

// Bytes that the kernel of group `g` reads, at the symbol's upper bound.
i64 bytes_read(const VerifiedChain& chain, const FusionPlan& plan, int g) {
  std::vector<bool> parameters(chain.num_values(), false);
  i64 bytes = 0;
  for (ValueId id : read_values(chain, plan, g)) bytes += bytes_of(chain, id);
  for (ValueId id : computed_values(chain, plan, g)) {
    for (const Use& use : chain.value(id).operands) {
      if (chain.value(use.value).op == Op::kParameter && !parameters[use.value]) {
        parameters[use.value] = true;
        bytes += bytes_of(chain, use.value);
      }
    }
  }
  return bytes;
}

// Groups that read a value of group `g` from memory.
llvm::SmallVector<int, 4> readers_of(const VerifiedChain& chain, const FusionPlan& plan, int g) {
  llvm::SmallVector<int, 4> readers;
  for (int r = g + 1; r < static_cast<int>(plan.groups.size()); ++r) {
    if (llvm::any_of(read_values(chain, plan, r),
                     [&](ValueId id) { return plan.group_of[id] == g; }))
      readers.push_back(r);
  }
  return readers;
}

// Is all of the group elementwise, and does no caller want any of it?
bool is_intermediate(const VerifiedChain& chain, const FusionGroup& group) {
  return group.kind == Kind::kPointwise && group.copies.empty() &&
         llvm::none_of(group.values, [&](ValueId id) {
           return is_output(chain, id) || takes_by_group(chain, id);
         });
}

// Values of other groups that the kernel of group `g` computes.
size_t num_recomputed(const VerifiedChain& chain, const FusionPlan& plan, int g) {
  return computed_values(chain, plan, g).size() - plan.groups[g].values.size();
}

// Can the kernel of the group compute a value that it reads? A contraction's kernel does not have
// the elements of its matrices, and an operand by group must be in memory. With more tensors fewer
// dimensions may merge: two are left free, for the parts of a sum and for its vectors.
bool may_recompute(const VerifiedChain& chain, const FusionGroup& group) {
  constexpr int kMostDims = kMaxDims - 2;
  const bool few_dims = llvm::all_of(group.values, [&](ValueId id) {
    return chain.info(id).type.rank() <= kMostDims &&
           llvm::all_of(chain.value(id).operands, [&](const Use& use) {
             return chain.info(use.value).type.rank() <= kMostDims;
           });
  });
  return few_dims && group.kind != Kind::kContraction &&
         llvm::none_of(group.values, [&](ValueId id) { return takes_by_group(chain, id); });
}

bool dissolve(const VerifiedChain& chain, FusionPlan& plan, int g) {
  if (!is_intermediate(chain, plan.groups[g])) return false;
  const auto readers = readers_of(chain, plan, g);
  if (readers.empty() ||
      !llvm::all_of(readers, [&](int r) { return may_recompute(chain, plan.groups[r]); }))
    return false;
  FusionPlan without = plan;
  for (ValueId id : plan.groups[g].values) remove_value(without, id);
  constexpr size_t kMostOps = 12;
  if (llvm::any_of(readers, [&](int r) { return num_recomputed(chain, without, r) > kMostOps; }))
    return false;
  i64 before = bytes_read(chain, plan, g), after = 0;
  for (const GroupOutput& output : plan.groups[g].outputs) before += bytes_of(chain, output.value);
  for (int r : readers) {
    before += bytes_read(chain, plan, r);
    after += bytes_read(chain, without, r);
  }
  if (after >= before) return false;
  std::string names;
  for (const GroupOutput& output : plan.groups[g].outputs)
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", chain.value(output.value).name);
  for (int r : readers) {
    without.groups[r].why +=
        fmt::format("; it computes {} again: storing that would move more bytes", names);
  }
  plan = std::move(without);
  drop_group(plan, g);
  return true;
}

}  // namespace

void recompute_values(const VerifiedChain& chain, FusionPlan& plan) {
  const auto in_place = [](const Output& output) { return output.in_place >= 0; };
  if (llvm::any_of(chain.chain().outputs, in_place)) return;
  for (int g = 0; g < static_cast<int>(plan.groups.size());) {
    if (!dissolve(chain, plan, g)) ++g;
  }
}

}  // namespace catenary
