// SPDX-License-Identifier: Apache-2.0
// One case on one device: verified first, then timed against its peer, its unfused plan and itself
// without its epilogue. A wrong result is never timed.
#pragma once

#include "bench/measure/contest.h"
#include "bench/record/record.h"

namespace catenary::bench {

struct CaseOptions {
  TimingOptions timing;
  int samples = 320;
  int algorithms = 32;
  u64 seed = 1;
  PlanOptions plan;        // of the chain under test
  bool all_tiles = false;  // time every gemm candidate as well
};

// What a case needs on the device before anything runs.
struct CaseSetup {
  const Case& spec;
  VerifiedChain chain;
  int copies = 0;
  Tensors tensors;
  Samples samples;
  const TensorArena& output() const;
};
Expected<CaseSetup> set_up_case(const Session& session, RandomPool& pool, const Case& spec,
                                const CaseOptions& options);

// The row of `spec`. `lt` may be null. An error of our side is in the row; only a broken context is
// returned as an error, since nothing can run after it.
Expected<Row> run_case(const Session& session, const CublasLt* lt, RandomPool& pool,
                       const Ceilings& ceilings, const Case& spec, const CaseOptions& options);

// tiles.cpp. Every gemm candidate of the case's first contraction, compiled, checked and timed
// against each other.
Expected<std::vector<TileRow>> time_tiles(const Session& session, const CaseSetup& setup,
                                          const CaseOptions& options);

}  // namespace catenary::bench
