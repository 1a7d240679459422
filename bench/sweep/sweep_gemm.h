// SPDX-License-Identifier: Apache-2.0
// The sweep for the cost model of large contractions: of each shape the planner's choice and its
// best few candidates, each verified and timed briefly in one contest, so that predicted and
// measured time stand side by side. All kernels are compiled first, on all cores.
#pragma once

#include <functional>

#include "bench/cases/cases.h"
#include "bench/record/record.h"

namespace catenary::bench {

struct GemmSweepOptions {
  TimingOptions timing;  // of one shape's contest; copies and launches of a graph are per shape
  int top = 6;           // candidates by predicted time, beside the chosen one
  bool fixed = true;     // and some large tiles, whatever is predicted of them
  int samples = 16;      // compared with the reference, beside the corners
  int max_copies = 256;  // tensors in rotation
  u64 seed = 1;
};

// Few rounds of short batches.
GemmSweepOptions quick_gemm_sweep();

// About 200: M in 64 .. 16384 times N and K in 256 .. 16384, every third of them; models' layers,
// sizes that fit no tile, batches, gated pairs. Shard `shard` of `shards` (from 1) has every
// `shards`-th.
std::vector<GemmShape> gemm_sweep_shapes(int shard, int shards);

// The chain of a shape: y of x and w, or of x, wg and wu; and the shape as a case without a peer.
std::string gemm_shape_text(const GemmShape& shape);
Case gemm_shape_case(const GemmShape& shape);

// Which of a plan's tiles are timed: the chosen one first, then by predicted time.
std::vector<TileOption> tiles_to_time(llvm::ArrayRef<TileOption> tiles, const GemmShape& shape,
                                      const GemmSweepOptions& options);

// One row per shape, handed over as it is done. A wrong result and an error of one candidate are in
// its row; only a broken context, or one without memory for the arena, ends the sweep. `compiled`
// is told how many kernels are compiled before the first is timed.
Error run_gemm_sweep(const Session& session, RandomPool& pool, llvm::ArrayRef<GemmShape> shapes,
                     const GemmSweepOptions& options,
                     const std::function<void(size_t candidates)>& compiled,
                     const std::function<Error(GemmSweepRow row)>& done);

}  // namespace catenary::bench
