// SPDX-License-Identifier: Apache-2.0
// VerifiedChain -> fusion groups. A group becomes one kernel, and one more for split-K. It is built
// around its anchors, or has none; everything elementwise that fits its shape joins it. Knows no
// target and no family.
#pragma once

#include <string>
#include <vector>

#include "ir/verify/verify.h"

namespace catenary {

// A contraction or reduction that a group is built around, with the shape of its own result.
struct GroupAnchor {
  ValueId value = 0;
  llvm::SmallVector<Dim, 4> shape;
};

// A value of the group that other groups or the caller read from memory.
struct GroupOutput {
  ValueId value = 0;
  llvm::SmallVector<Dim, 4> shape;
  bool of_terms = false;  // of a sum: stored where its terms are computed (stored_terms.h)
};

// A value whose columns another group sums over its dimensions `summed`: the kernel stores one sum
// for each kSummedRows rows (column_sums.h).
struct ColumnSums {
  ValueId value = 0;
  llvm::SmallVector<int, 4> summed;
};

// An operand of contractions that is `data` times `gain`, a vector along K, rounded to the dtype of
// all three (gain.h).
struct LoadGain {
  ValueId data = -1;
  ValueId gain = -1;
};

// An operand of contractions that their kernel forms from the rows of `data` as it loads them
// (formed.h): elementwise of `data`, of vectors along K, and of numbers for each row, which depend
// on sums along K.
struct FormedOperand {
  // Sums that need the rows once more than the passes before, and the numbers that follow from all
  // sums so far and that later terms, or the operand, read.
  struct Pass {
    llvm::SmallVector<ValueId, 2> sums;
    llvm::SmallVector<ValueId, 2> rows;
  };
  ValueId data = -1;
  int k_dim = 1;  // of the operand and of `data`
  std::vector<Pass> passes;
};

// Sums and maxima over dimensions `summed` of the group's shape, of what a contraction's kernel
// computes (row_reductions.h).
struct RowReductions {
  llvm::SmallVector<int, 4> summed;
  llvm::SmallVector<ValueId, 2> values;
};

struct FusionGroup {
  // kDequant: a cast of a dequantised weight, which the group stores; it has nothing else.
  enum class Kind : u8 { kPointwise, kContraction, kReduction, kDequant };
  Kind kind = Kind::kPointwise;
  llvm::SmallVector<GroupAnchor, 2> anchors;  // of a contraction or a reduction
  // What each accumulator holds: the anchor; of a dual GEMM both; of contractions that are added
  // into one accumulator their sum; of kDequant the dequantised weight.
  llvm::SmallVector<ValueId, 2> accumulators;
  std::vector<ValueId> values;       // computed here, in order, anchors included
  std::vector<GroupOutput> outputs;  // in order
  llvm::SmallVector<Dim, 4> shape;   // of the elementwise program
  std::vector<int> copies;  // numbers of outputs in place that it copies from memory (in_place.h)
  // The operand that all anchors share, where one of these three is there.
  ValueId row_data = -1;
  // A sum of squares over the rows of `row_data`, before a gain: one more accumulator, with one
  // number for each row. -1: none (norm.h).
  ValueId row_squares = -1;
  // The kernel forms `row_data` as it loads the rows.
  std::optional<LoadGain> gain;
  std::optional<FormedOperand> formed;           // not both
  llvm::SmallVector<ColumnSums, 1> column_sums;  // of a contraction's group
  // Only a contraction's group has them. Its values are elements of `shape`, or numbers of the
  // dimensions that are kept.
  std::optional<RowReductions> row_reductions;
  // The terms of a sum are the column sums of its operand.
  bool adds_column_sums = false;
  std::string why;  // why the group starts where it starts
};

struct FusionPlan {
  std::vector<FusionGroup> groups;  // in launch order
  // Per value: the group that computes it. -1: a parameter, a constant, or an elementwise value
  // that every group that reads it recomputes: of parameters only, or cheap (recomputed.h).
  std::vector<int> group_of;
  bool has_norms_inside = false;
  bool has_gains_inside = false;
  bool has_formed_operands = false;
  bool has_column_sums = false;
  bool has_row_reductions = false;
  bool has_unlike_apart = false;
  // Contractions that may run side by side in one launch, where the first one is: ascending groups.
  // A group is in at most one set (beside.h).
  std::vector<std::vector<int>> beside;
  // Why operands that depend on sums of their rows keep their own kernels; for explain.
  std::vector<std::string> kept_apart;
};

// Does group `reader` find value `id` in memory? Only values of earlier groups; a value that
// depends only on parameters and that a later group stores is recomputed.
inline bool reads_memory(const FusionPlan& plan, ValueId id, int reader) {
  return plan.group_of[id] >= 0 && plan.group_of[id] < reader;
}

// What to fuse.
struct FusionOptions {
  bool fuse = true;              // false: every op is a group of its own
  bool norms_inside = false;     // sums of squares move into the contractions that scale by them
  bool gains_inside = false;     // operands times a vector along K are formed by their contractions
  bool formed_operands = false;  // and other operands, of norms (formed.h)
  // Sums over rows begin in the contraction kernels that compute their terms (column_sums.h), or
  // their kernels store the values of pointwise kernels (stored_terms.h).
  bool column_sums = false;
  bool row_reductions = false;  // reductions of rows move into contractions (row_reductions.h)
  bool unlike_apart = false;    // contractions that share a kernel are alike (anchors.h)
  // Rows are summed in one order: no sums among row_reductions, and no values are computed again
  // (recomputed.h). Both depend on predictions or bytes, so on M.
  bool batch_invariant = false;
};

// Every combination of what may move into contractions. Where operands are formed, gains are
// inside, too: those of other operands. With batch_invariant the sums of a row are the same for
// every M, so one rule says which contractions share a kernel.
std::vector<FusionOptions> fusion_choices(bool fuse, bool batch_invariant);

// Is the plan another one than without one of the options?
bool is_as_asked(const FusionOptions& options, const FusionPlan& fusion);

// Ends with the copies of outputs in place that no other group can store.
FusionPlan fuse_chain(const VerifiedChain& chain, FusionOptions options);
inline FusionPlan fuse_chain(const VerifiedChain& chain, bool fuse) {
  return fuse_chain(chain, FusionOptions{fuse});
}

}  // namespace catenary
