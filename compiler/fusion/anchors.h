// SPDX-License-Identifier: Apache-2.0
// Which contractions share a kernel: the pairs of dual GEMMs, and sums of contractions that have
// one accumulator. Knows no target and no family.
#pragma once

#include <vector>

#include "ir/verify/verify.h"

namespace catenary {

// Contractions that are only added to each other: no plan can tell `value` from one sum over the
// terms of all of them. At most kMaxSegments.
struct ContractionSum {
  ValueId value = -1;                          // what they add up to
  llvm::SmallVector<ValueId, 4> contractions;  // ascending
  llvm::SmallVector<ValueId, 4> additions;     // ascending, `value` included
};

struct AnchorSets {
  std::vector<ValueId> partner;  // per value: the other contraction of its dual GEMM, or -1
  std::vector<int> sum_of;       // per value: the sum that has it as a contraction, or -1
  std::vector<ContractionSum> sums;
  bool has_unlike_apart = false;
};

// Whether contractions whose operands have unlike layouts are in one set. Its kernel is one that
// takes them all: without TMA if one of them has none.
enum class UnlikeAnchors : u8 { kTogether, kApart };

// A contraction is in one set at most; a dual GEMM comes first, since it loads the common operand
// once.
AnchorSets find_anchor_sets(const VerifiedChain& chain, UnlikeAnchors unlike);

// The class of a contraction's result dimension, as one of its operands sees it.
enum class ResultSide : u8 { kBatch, kLeft, kRight };
ResultSide result_side(const Contraction& contraction, int dim);

// Do the sides of `a` and `b` agree if left and right of `b` are exchanged? Contractions of one sum
// agree as they are, or like this.
bool is_mirrored(const Contraction& a, const Contraction& b, int rank);

}  // namespace catenary
