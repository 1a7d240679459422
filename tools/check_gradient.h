// SPDX-License-Identifier: Apache-2.0
// Forward and backward on a device, each chain against the reference on the same data.
#pragma once

#include "ir/gradient/gradient_tensors.h"
#include "ir/reference/compare.h"
#include "tools/execution.h"

namespace catenary::tools {

// One output of one chain.
struct GradientRow {
  std::string chain;
  std::string name;
  std::string type;
  std::string kind;
  i64 elements = 0;
  CompareResult result;
};

// A gradient whose chains are loaded; without executables the reference computes the tensors.
struct GradientExecution {
  Gradient gradient;
  std::vector<std::shared_ptr<const Executable>> executables;  // per chain, or empty
};

// Compiles and loads every chain of the gradient of `execution.chain`.
Expected<GradientExecution> load_gradient(const ExecutionOptions& options,
                                          const GradientOptions& gradient, Execution& execution);

// Runs the chains in order: what one writes is what the next ones read. Compares every output with
// the reference's on the same operands. `tensors` then holds all of them.
Expected<std::vector<GradientRow>> check_gradient_rows(const GradientExecution& execution,
                                                       GradientTensors& tensors);

}  // namespace catenary::tools
