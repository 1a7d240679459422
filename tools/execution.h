// SPDX-License-Identifier: Apache-2.0
// What `run` and `check` share: where a chain runs, its inputs, its dump.
#pragma once

#include <memory>
#include <string>

#include "ir/fill.h"
#include "runtime/engine.h"

namespace CLI {
class App;
}

namespace catenary::tools {

struct ExecutionOptions {
  std::string file;
  std::string device;  // "cuda", "ref"; empty: cuda where a device is found
  int device_index = 0;
  std::vector<std::string> inputs;
  u64 seed = 1;
  std::string data = "normal";
  i64 symbol = -1;
  std::string dump;
  bool no_cache = false;
};
void add_execution_options(CLI::App& command, ExecutionOptions& options);

// A chain ready to run, with its data.
struct Execution {
  i64 symbol = 0;
  ChainData data;
  std::unique_ptr<Engine> engine;                // null: the reference
  std::shared_ptr<const Executable> executable;  // null: the reference
  std::string where;                             // "device 0 (NVIDIA H200)", "the reference"

  bool on_device() const { return executable != nullptr; }
};

// Checks the user's choices, compiles and loads where a device is used, writes the dump, fills the
// inputs; in this order, so that a mistake shows before long work. Prints where the chain will run.
Expected<Execution> prepare(const VerifiedChain& chain, const ExecutionOptions& options);

}  // namespace catenary::tools
