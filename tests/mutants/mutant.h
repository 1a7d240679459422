// SPDX-License-Identifier: Apache-2.0
// A mutant: a template with one planted fault, the program that runs it, and the fault names under
// which the simulator may report it. The rows are in *_mutants.h, mutants_test.cpp runs them.
#pragma once

#include <utility>

#include "ir/random/fill.h"
#include "llvm/ADT/ArrayRef.h"
#include "shared/int.h"

namespace catenary::testing {

// A chain that runs with mutated templates. Sizes are a tile or two, with tails.
struct MutantBase {
  const char* name;
  const char* chain;
  const char* tile = "";  // PlanOptions::force_tile
  int split_k = 0;
  i64 symbol = 0;
  llvm::ArrayRef<i32> ends = {};
  int sm_count = 0;  // not 0: in place of the target's
  // SimulatedChainOptions::nan_rows, over FillKind::kNormal.
  llvm::ArrayRef<std::pair<i64, i64>> nan_rows = {};
  FillKind fill = FillKind::kExactInteger;
};

struct Mutant {
  const char* name;
  const char* planted;   // the fault, for the report
  const char* base;      // MutantBase::name
  const char* file;      // relative to templates/
  const char* text;      // the original text
  const char* in_place;  // its replacement
  // Space-separated fault names that count as caught. "mismatch" (a wrong value) only where all
  // accesses of the mutant are legal and ordered.
  const char* faults;
  int occurrence = 0;  // which occurrence of `text`, counted from 1; 0: it occurs once
};

}  // namespace catenary::testing
