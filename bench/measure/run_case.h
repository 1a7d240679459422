// SPDX-License-Identifier: Apache-2.0
// One case on one device: verified first, then timed against its peer, its unfused plan, and the
// chain without its epilogue. A wrong result is not timed.
#pragma once

#include "bench/record/record.h"
#include "bench/tuner.h"

namespace catenary::bench {

struct CaseOptions {
  TimingOptions timing;
  int samples = 320;
  int algorithms = 32;
  u64 seed = 1;
  PlanOptions plan;        // of the chain under test
  bool all_tiles = false;  // time every candidate as well
};

// The row of `spec`. `lt` may be null. Errors are in the row, except for a broken context, after
// which nothing can run.
Expected<Row> run_case(const Session& session, const CublasLt* lt, RandomPool& pool,
                       const Ceilings& ceilings, const Case& spec, const CaseOptions& options);

// tiles.cpp. Every candidate of the chain's first contraction, in one contest; the fastest first.
Expected<std::vector<CandidateRow>> time_tiles(const Session& session, const ChainSetup& setup,
                                               const CaseOptions& options);

}  // namespace catenary::bench
