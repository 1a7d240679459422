// SPDX-License-Identifier: Apache-2.0
// What one `catenary bench` was asked to do, and doing it.
#pragma once

#include <string>
#include <utility>

#include "shared/int.h"

namespace catenary::bench {

struct BenchOptions {
  std::string cases;            // comma-separated shell patterns; empty: all
  std::string out;              // JSON file; empty: bench/results/<gpu>/<what>-<date>.json
  std::string commit;           // of the code under test; empty: what the build was made from
  std::string target = "h200";  // compile(): what is compiled for
  std::string tile;             // forced gemm tile
  std::string tiles;            // "all": time every candidate
  std::string sweep;            // "small", "gemm", "models", "random"; empty: cases
  std::string kinds;            // of --sweep random, comma-separated; empty: all
  int count = 300;              // layers of --sweep random, over all shards
  int candidates = -1;          // of each family, beside the choice; 0: all; -1: the choice only
  std::pair<int, int> shard = {1, 1};  // of the sweep's shapes: this part of so many
  int split_k = 0;
  int rounds = 15;
  int device = 0;
  u64 seed = 1;
  bool quick = false;
  bool list = false;
  bool launch = false;
  bool calibrate = false;
  bool compile = false;
};

// Prints tables on standard output and progress on standard error, writes the record, and returns
// the exit code of the command: 1 when a result was wrong or a case failed.
int run_bench(const BenchOptions& options);

}  // namespace catenary::bench
