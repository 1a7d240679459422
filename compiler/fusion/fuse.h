// SPDX-License-Identifier: Apache-2.0
// VerifiedChain -> fusion groups. A group becomes one kernel (plus a fix-up kernel where K is
// split). Its anchor is a contraction, two contractions that share their left or right operand, a
// sum, or nothing; everything elementwise that fits its shape joins it. Knows no target and no
// template.
#pragma once

#include <string>
#include <vector>

#include "ir/verify/verify.h"

namespace catenary {

struct FusionGroup {
  enum class Anchor : u8 { kNone, kContract, kDualContract, kSum };
  Anchor anchor = Anchor::kNone;
  llvm::SmallVector<ValueId, 2> anchors;  // contractions or the sum
  std::vector<ValueId> values;            // computed here, in order, anchors included
  std::vector<ValueId> stored;            // of them, those that other groups or outputs read
  llvm::SmallVector<Dim, 4> shape;        // of every value that is stored here
  std::string why;                        // why the group starts where it starts
};

struct FusionPlan {
  std::vector<FusionGroup> groups;  // in launch order
  // Per value: the group that computes it, or -1 (parameters, constants, and elementwise values
  // that depend on parameters alone: those are recomputed inside every group that reads them).
  std::vector<int> group_of;
};

// Does group `reader` find value `id` in memory? Only values of earlier groups; a value that is
// computed from parameters alone and stored by a later group is recomputed.
inline bool reads_memory(const FusionPlan& plan, ValueId id, int reader) {
  return plan.group_of[id] >= 0 && plan.group_of[id] < reader;
}

// fuse == false: every op is a group of its own.
FusionPlan fuse_chain(const VerifiedChain& chain, bool fuse);

}  // namespace catenary
