// SPDX-License-Identifier: Apache-2.0
// What `run` and `check` share: where a chain runs, its inputs, its dump.
#pragma once

#include <memory>
#include <string>
#include <vector>

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
  i64 max_size = 0;  // larger sizes are reduced to at most this; 0: none
  std::string data = "normal";
  i64 symbol = -1;
  std::string dump;
  std::vector<std::string> packs;  // asked before those of CATENARY_PACK_PATH
  bool no_cache = false;
  bool batch_invariant = false;
  bool algebraic_norms = false;
};
void add_execution_options(CLI::App& command, ExecutionOptions& options);

// A chain that is ready to run, with its data.
struct Execution {
  Execution(VerifiedChain c, DeviceKind d) : chain(std::move(c)), device(d) {}

  VerifiedChain chain;  // the user's, or the same with smaller sizes
  DeviceKind device;
  i64 symbol = 0;
  GivenInputs given;
  ChainData data;
  std::unique_ptr<Engine> engine;                // null: the reference
  std::shared_ptr<const Executable> executable;  // null: the reference
  std::string where;  // "device 0 (NVIDIA H200)", "the simulator (h200)", "the reference"

  bool on_device() const { return executable != nullptr; }
};

// Checks the options, compiles and loads for a device, writes the dump, fills the inputs; in this
// order, so that mistakes are found before long work. Prints the device if the user did not choose
// one, and the sizes that are reduced. Reduces the sizes of long work in the simulator if the user
// did not choose the simulator.
Expected<Execution> prepare(const VerifiedChain& chain, const ExecutionOptions& options);

// The first part of prepare(), before compiling: for chains that are made of this one. Then
// load_chain() for each, then start_execution().
Expected<Execution> prepare_inputs(const VerifiedChain& chain, const ExecutionOptions& options);

// The last part: fills the inputs by the options' seed, and keeps the facts of the run for --json.
Error start_execution(Execution& execution, const ExecutionOptions& options);

// Compiles `chain` for the execution's device, writes its dump and loads it. Null for the
// reference.
Expected<std::shared_ptr<const Executable>> load_chain(const VerifiedChain& chain,
                                                       const ExecutionOptions& options,
                                                       Execution& execution);

// Sets the random inputs and the simulator's schedule of `seed`.
Error seed_execution(Execution& execution, const ExecutionOptions& options, u64 seed);

}  // namespace catenary::tools
