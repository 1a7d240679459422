// SPDX-License-Identifier: Apache-2.0
// The `catenary bench` subcommand.
#pragma once

#include <functional>
#include <string>

#include "ir/error.h"
#include "llvm/Support/JSON.h"

namespace CLI {
class App;
}

namespace catenary {

// Where the output of `bench` goes.
struct BenchOutput {
  std::function<int(Error)> report;               // prints an error, returns its exit code
  std::function<void(const std::string&)> show;   // text of the results, as the run goes on
  std::function<void(llvm::json::Value)> result;  // all results, at the end
};

// Adds `bench` to `app`. Its callback sets `exit_code`: 0 done, 1 a result is wrong, 2 bad use,
// 3 environment.
void add_bench(CLI::App& app, int& exit_code, BenchOutput output);

}  // namespace catenary
