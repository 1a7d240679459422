// SPDX-License-Identifier: Apache-2.0
// The axes of a `reduce` kernel.
#pragma once

#include "compiler/families/family.h"

namespace catenary {

// Term axes first, then free axes. Where `along_terms`, one term axis comes after the free ones:
// terms are adjacent in memory along it, results are not along any axis, and vectors are of
// terms.
struct ReduceSpace {
  Space space;
  int prologue = 0;   // number of the first tensor of the terms' program
  int program = 0;    // the same of the results' program
  int term_rank = 0;  // term axes before the free ones
  bool along_terms = false;
};

// Each dimension of the reduced operand is an axis. The program of the result has only the axes
// that are not reduced. A sum by group has the rows as the first axis of its terms, and the groups
// as the first of its result.
ReduceSpace make_reduce_space(const GroupContext& context);

}  // namespace catenary
