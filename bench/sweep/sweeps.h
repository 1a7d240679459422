// SPDX-License-Identifier: Apache-2.0
// The sweeps by name: which cases, and how each is timed.
#pragma once

#include "bench/sweep/sweep.h"

namespace catenary::bench {

struct SweepRequest {
  std::string name;  // one of sweep_names()
  u64 seed = 1;
  // Shard I of N (from 1): every N-th layer of gemm, random and layers; of small and models every
  // N-th matrix with all its M.
  std::pair<int, int> shard = {1, 1};
  int count = 300;      // random: layers over all shards
  std::string kinds;    // random: comma-separated; empty: all
  std::string layers;   // layers: as given_layers() reads them
  int candidates = -1;  // of every family, beside the choice, and as many spread over the list if
                        // M is at most 64; 0: all; -1: the sweep's own
};

struct SweepSpec {
  std::vector<Case> cases;
  SweepOptions options;
  bool peer = true;
};

// "small", "gemm", "models", "random", "layers".
std::vector<std::string> sweep_names();

// kInvalidArgument names the sweeps or the kinds that exist, or the layer that is none.
Expected<SweepSpec> sweep_spec(const SweepRequest& request);

}  // namespace catenary::bench
