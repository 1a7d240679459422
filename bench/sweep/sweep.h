// SPDX-License-Identifier: Apache-2.0
// Many cases in a short time. For each case the planner's choice, other candidates if they are
// wanted, and the peer are verified and timed in one contest. All kernels are compiled first, on
// all cores. All cases share arenas of random numbers, so that the set-up of one costs little.
#pragma once

#include <functional>

#include "bench/cases/cases.h"
#include "bench/record/record.h"

namespace catenary::bench {

struct SweepOptions {
  TimingOptions timing;  // of one contest; the sweep sets copies and launches of a graph
  int algorithms = 8;    // of cuBLASLt, timed per product
  int samples = 16;      // compared with the reference, beside the corners
  int max_copies = 256;  // sets of tensors in rotation
  u64 seed = 1;
  // A case that is predicted to be shorter is timed as CUDA graphs.
  double graph_below_us = 50;
  // A case that is predicted to be shorter is timed with PDL as well.
  double pdl_below_us = 50;
  // Which candidates are timed, the choice first. Empty: only the choice.
  std::function<std::vector<Candidate>(const Case&, llvm::ArrayRef<Candidate>)> select;
};

// Called on any thread.
using SweepProgress = std::function<void(i64 done, i64 all)>;

// One row per case, handed over as it is done. `lt` may be null. A wrong result and an error of one
// case are in its row; only a broken context, or one without memory for the arenas, ends the sweep.
// `compiled` is told of the kernels that are compiled before the first is timed.
Error run_sweep(const Session& session, const CublasLt* lt, RandomPool& pool,
                llvm::ArrayRef<Case> cases, const SweepOptions& options,
                const SweepProgress& compiled, const std::function<Error(LayerRow row)>& done);

}  // namespace catenary::bench
