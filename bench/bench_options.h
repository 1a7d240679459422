// SPDX-License-Identifier: Apache-2.0
// The options of one `catenary bench`, and the run.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "ir/error.h"
#include "ir/json.h"
#include "shared/int.h"

namespace catenary::bench {

struct BenchOptions {
  std::string cases;            // comma-separated shell patterns; empty: all
  std::string out;              // JSON file; empty: bench/results/<gpu>/<what>-<date>.json
  std::string commit;           // of the code under test; empty: what the build was made from
  std::string target = "h200";  // --compile: the GPU that is compiled for
  std::string tile;             // forced tile
  std::string tiles;            // "all": time every candidate
  std::string sweep;            // one of sweep_names(); empty: cases
  std::string kinds;            // of --sweep random, comma-separated; empty: all
  std::string layers;           // of --sweep layers
  int count = 300;              // layers of --sweep random, over all shards
  int candidates = -1;          // of each family; 0: all; -1: as the sweep has it
  std::pair<int, int> shard = {1, 1};  // of the sweep's layers: part I of N
  int split_k = 0;
  int rounds = 15;
  int device = 0;
  u64 seed = 1;
  bool quick = false;
  bool list = false;
  bool launch = false;
  bool calibrate = false;
  bool compile = false;
  std::string pack;  // measure this pack instead
  // Where the results go: text as the run goes on, and all of them as JSON at its end.
  std::function<void(const std::string&)> show = [](const std::string&) {};
  std::function<void(llvm::json::Value)> result = [](llvm::json::Value) {};
  // A line for people, and progress; as in BenchOutput.
  std::function<void(const std::string&)> note = [](const std::string&) {};
  std::function<void(const std::string&, i64, i64)> step = [](const std::string&, i64, i64) {};
  // Prints an error and returns its exit code.
  std::function<int(Error)> report = [](Error error) {
    return exit_code(take_report(std::move(error)).code);
  };
};

// Gives tables, notes and progress to the options' functions, writes the record, and returns
// the exit code of the command: 1 if a result is wrong or a case failed.
int run_bench(const BenchOptions& options);

}  // namespace catenary::bench
