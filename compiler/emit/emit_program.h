// SPDX-License-Identifier: Apache-2.0
// A program -> one C++ struct: the operands it loads, how it loads them, and one line per IR value.
#pragma once

#include <string>

#include "compiler/fusion/program.h"

namespace catenary {

struct ProgramText {
  std::string name;      // "Epilogue"
  int vec = 1;           // elements per vector
  bool guarded = false;  // the last vector of a row may be partial
  int accumulators = 0;  // arguments of store()
  bool register_epilogue = false;
  bool array = false;   // values() takes its accumulators as an array, one for each row
  int column_sums = 0;  // stores that are sums of kSummedRows rows: store() adds a row to them
};

// May the last vector of a row of `inner` elements be partial?
bool has_partial_vector(const Extent& inner, int vec);

// Struct with load() and store() for a program that ends in stores.
std::string emit_store_program(const Program& program, const ProgramText& text);

// Struct with load_columns(), load_rows() and values() for a program that runs on accumulators
// where they lie (text.register_epilogue): its stores become kOutputs and `out`, in the program's
// order.
std::string emit_register_program(const Program& program, const ProgramText& text);

// Struct with load() and values() for the terms of sums, or for what a kernel forms (text.array):
// `results` are the lines that are summed, or formed.
std::string emit_value_program(const Program& program, llvm::ArrayRef<int> results,
                               const ProgramText& text);

}  // namespace catenary
