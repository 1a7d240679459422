// SPDX-License-Identifier: Apache-2.0
// Measured choices that ship with the library, by GPU and shape: candidates of a published list of
// layers that beat the cost model's choice. A user's own tuning records come before them.
#pragma once

#include "compiler/kernel_plan.h"
#include "llvm/ADT/ArrayRef.h"

namespace catenary {

// The times are those of one contest, in microseconds: of this candidate, and of the cost model's
// choice.
struct MeasuredRow {
  std::string target;
  std::string shape;  // problem_shape()
  CandidateId id;
  double us = 0, model_us = 0;
};

// The rows of measured.def.
llvm::ArrayRef<MeasuredRow> measured_rows();

}  // namespace catenary
