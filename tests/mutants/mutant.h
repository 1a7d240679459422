// SPDX-License-Identifier: Apache-2.0
// A mutant: a template with one planted fault, the program that it is run in, and the names under
// which the simulator may report it. Rows are in *_mutants.h, runs in mutants_test.cpp.
#pragma once

#include <utility>

#include "ir/random/fill.h"
#include "llvm/ADT/ArrayRef.h"
#include "shared/int.h"

namespace catenary::testing {

// A chain that is run with mutated templates. Sizes are a tile or two with ragged tails.
struct MutantBase {
  const char* name;
  const char* chain;
  const char* tile = "";  // PlanOptions::force_tile
  int split_k = 0;
  i64 symbol = 0;
  llvm::ArrayRef<i32> ends = {};
  int sm_count = 0;  // not 0: in place of the target's
  // SimulatedChainOptions::nan_rows, over real data.
  llvm::ArrayRef<std::pair<i64, i64>> nan_rows = {};
  FillKind fill = FillKind::kExactInteger;
};

struct Mutant {
  const char* name;
  const char* planted;   // what is wrong, for the report
  const char* base;      // MutantBase::name
  const char* file;      // below templates/
  const char* text;      // what stands there
  const char* in_place;  // what the mutant has instead
  // Space-separated names that count as caught. "mismatch" (a wrong value) only where the fault is
  // one of arithmetic: the wrong bytes, but all accesses legal and in order.
  const char* faults;
  int occurrence = 0;  // of `text` in the file, counted from 1; 0: it stands there once
};

}  // namespace catenary::testing
