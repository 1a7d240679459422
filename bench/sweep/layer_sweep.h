// SPDX-License-Identifier: Apache-2.0
// Many cases in a short time: of each the planner's first choice, or its candidates, and the peer,
// verified and timed in one contest. All kernels are compiled first, on all cores. All cases share
// arenas of random numbers, so that the set-up of one costs little.
#pragma once

#include <functional>

#include "bench/cases/cases.h"
#include "bench/record/record.h"

namespace catenary::bench {

struct LayerSweepOptions {
  TimingOptions timing;  // of one contest; copies and launches of a graph are per case
  int algorithms = 8;    // of cuBLASLt, timed per product
  int samples = 16;      // compared with the reference, beside the corners
  int max_copies = 256;  // sets of tensors in rotation
  u64 seed = 1;
  // Of every family the best few by prediction, and as many more spread over the list where M is at
  // most 64; 0: every candidate that can run; below 0: only the first choice.
  int candidates = -1;
  // Predicted to be shorter: timed as CUDA graphs, by plain and by PDL launches.
  double short_us = 50;
};

// Few rounds of short batches.
LayerSweepOptions quick_layer_sweep();

// One row per case, handed over as it is done. `lt` may be null. A wrong result and an error of one
// case are in its row; only a broken context, or one without memory for the arenas, ends the sweep.
// `compiled` is told how many kernels were compiled before the first is timed.
Error run_layer_sweep(const Session& session, const CublasLt* lt, RandomPool& pool,
                      llvm::ArrayRef<Case> cases, const LayerSweepOptions& options,
                      const std::function<void(size_t candidates)>& compiled,
                      const std::function<Error(LayerRow row)>& done);

}  // namespace catenary::bench
