// SPDX-License-Identifier: Apache-2.0
// What `run` and `check` share: where a chain runs, its inputs, its dump.
#pragma once

#include <memory>
#include <string>

#include "ir/random/fill.h"
#include "runtime/engine.h"
#include "tools/device_choice.h"
#include "tools/inputs.h"

namespace CLI {
class App;
}

namespace catenary::tools {

struct ExecutionOptions {
  std::string file;
  std::string device;  // "cuda", "sim", "ref"; empty: choose_device() decides
  int device_index = 0;
  std::vector<std::string> inputs;
  u64 seed = 1;      // of the data, and of the simulator's schedule
  i64 max_size = 0;  // larger sizes are reduced to this at most; 0: none are
  std::string data = "normal";
  i64 symbol = -1;
  std::string dump;
  bool no_cache = false;
};
void add_execution_options(CLI::App& command, ExecutionOptions& options);

// A chain ready to run, with its data.
struct Execution {
  Execution(VerifiedChain c, DeviceKind d) : chain(std::move(c)), device(d) {}

  VerifiedChain chain;  // the user's, or one with smaller sizes
  DeviceKind device;
  i64 symbol = 0;
  GivenInputs given;
  ChainData data;
  std::unique_ptr<Engine> engine;                // null: the reference
  std::shared_ptr<const Executable> executable;  // null: the reference
  std::string where;  // "device 0 (NVIDIA H200)", "the simulator (h200)", "the reference"

  bool on_device() const { return executable != nullptr; }
};

// Checks the user's choices, compiles and loads where a device is used, writes the dump, fills the
// inputs; in this order, so that a mistake shows before long work. Prints where the chain will run
// if that was not the user's choice, and which sizes are reduced. Where the simulator was not the
// user's choice, it reduces the sizes of a chain that would take it long.
Expected<Execution> prepare(const VerifiedChain& chain, const ExecutionOptions& options);

// The random inputs, and the simulator's schedule, of `seed`.
Error seed_execution(Execution& execution, const ExecutionOptions& options, u64 seed);

}  // namespace catenary::tools
