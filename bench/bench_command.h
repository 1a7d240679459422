// SPDX-License-Identifier: Apache-2.0
// The `catenary bench` subcommand.
#pragma once

#include <functional>
#include <string>

#include "ir/error.h"
#include "ir/json.h"
#include "shared/int.h"

namespace CLI {
class App;
}

namespace catenary {

// Where the output of `bench` goes.
struct BenchOutput {
  std::function<int(Error)> report;               // prints an error, returns its exit code
  std::function<void(const std::string&)> show;   // text of the results, as the run goes on
  std::function<void(llvm::json::Value)> result;  // all results, at the end
  std::function<void(const std::string&)> note;   // a line for people beside the results
  // Progress: `what` goes on, and `done` units of `all` are done. On any thread; `done` is 0 in the
  // first call for a stage, on the main thread.
  std::function<void(const std::string& what, i64 done, i64 all)> step;
};

// Adds `bench` to `app`. Its callback sets `exit_code`: 0 done, 1 a result is wrong, 2 bad use,
// 3 environment.
void add_bench(CLI::App& app, int& exit_code, BenchOutput output);

}  // namespace catenary
