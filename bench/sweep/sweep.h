// SPDX-License-Identifier: Apache-2.0
// The sweep: bf16 linear layers of every small batch and many matrices against cuBLASLt, each shape
// verified, then timed briefly. All kernels are compiled first, on all cores; all shapes share one
// arena of random weights, so that setting one up costs next to nothing.
#pragma once

#include <functional>

#include "bench/record/record.h"

namespace catenary::bench {

struct SweepOptions {
  TimingOptions timing;  // of one shape's contest; copies and launches of a graph are per shape
  int algorithms = 8;    // of cuBLASLt, timed per shape
  int samples = 16;      // compared with the reference, beside the corners
  int max_copies = 256;  // weights in rotation
  u64 seed = 1;
};

// What a sweep times one shape by: few rounds of short batches.
SweepOptions quick_sweep();

// M in 1, 2, 3, 4, 8, 16, 17, 32, 48, 64 times K and N in 512 .. 28672, by matrix. Matrices are
// dealt out: shard `shard` of `shards` (from 1) has every `shards`-th.
std::vector<SweepShape> sweep_shapes(int shard, int shards);

// How many weights of `bytes` rotate: those that fit `arena_bytes`, at least 2.
int sweep_copies(i64 bytes, i64 arena_bytes, int max_copies);

// Enough of weights for every shape to pass the L2 more than twice.
i64 sweep_arena_bytes(llvm::ArrayRef<SweepShape> shapes, i64 l2_bytes, int max_copies);

// One row per shape, handed over as it is done with the number of rows so far. `lt` may be null. A
// wrong result and an error of one shape are in its row; only a broken context, or one without
// memory for the arena, ends the sweep.
Error run_sweep(const Session& session, const CublasLt* lt, RandomPool& pool,
                llvm::ArrayRef<SweepShape> shapes, const SweepOptions& options,
                const std::function<Error(SweepRow row)>& done);

}  // namespace catenary::bench
