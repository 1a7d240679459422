// SPDX-License-Identifier: Apache-2.0
// A chain in the simulator without driver and engine: planned, emitted, compiled for the host,
// launched by simulate() over memory of its own, compared with the reference. Text and sizes in,
// the name of what went wrong out. For tests that change a template or look at one fault.
//
//   auto chain = SimulatedChain::make("chain a(...) {...}", {.symbol = 7});
//   CHECK(chain->run(/*seed=*/1).name == "");
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/compile/host_compiler.h"
#include "compiler/plan.h"
#include "ir/random/fill.h"
#include "simulator/simulator.h"

namespace catenary::testing {

struct SimulatedChainOptions {
  std::string target = "h200";
  int sm_count = 0;  // not 0: in place of the target's, so that persistent CTAs have several tiles
  PlanOptions plan;
  i64 symbol = 0;
  // Ragged ends as the kernel sees them; the reference takes them held to 0 .. their label's size
  // and ascending. Empty: random ones.
  std::vector<i32> ends;
  // Tensors whose first dimension is the ragged label: these elements of it are NaN, [begin, end).
  std::vector<std::pair<i64, i64>> nan_rows;
  FillKind fill = FillKind::kExactInteger;
  u64 data_seed = 1;
  // The simulator takes weights for inputs: a kernel that reads one before the dependency wait, as
  // it may, is caught.
  bool weights_as_inputs = false;
  const HostCompiler* compiler = nullptr;  // null: HostCompiler::get()
};

// How a run ended.
struct SimulatedOutcome {
  // "" (all is right), a fault's name, "unwritten_output", "mismatch", or an error code's name.
  std::string name;
  std::string message;
};

// What an error is called in SimulatedOutcome::name.
SimulatedOutcome outcome_of(Error error);

class SimulatedChain {
 public:
  // Everything but the runs: verifies, plans, compiles every kernel of the symbol's bucket, fills
  // the inputs, evaluates the reference. Errors are those of the steps.
  static Expected<SimulatedChain> make(const std::string& text, SimulatedChainOptions options = {});

  // Other ragged ends from the next run on, under the same kernels: SimulatedChainOptions::ends.
  Error set_ends(std::vector<i32> ends);

  // Launches all kernels with this seed, on fresh memory. Every tensor has an allocation of exactly
  // the bytes that it spans. The first kernel is told of a programmatic edge under odd seeds, of a
  // plain one under even ones. Thread-safe.
  SimulatedOutcome run(u64 seed) const;

  const Plan& plan() const { return plan_; }

 private:
  struct Buffers;
  SimulatedChain(VerifiedChain chain, SimulatedChainOptions options)
      : chain_(std::move(chain)), options_(std::move(options)) {}
  Error compile();
  Error fill();
  void plant_nan(i64 ragged_size);
  sim::Launch launch(size_t kernel, const Buffers& buffers, u64 seed) const;
  sim::Region region(const SlotBinding& slot, const Buffers& buffers) const;
  SimulatedOutcome check_output(int i, const Buffers& buffers, sim::Memory& memory) const;

  VerifiedChain chain_;
  SimulatedChainOptions options_;
  Plan plan_;
  int bucket_ = 0;
  std::vector<std::shared_ptr<const sim::Object>> objects_;  // by kernel of the bucket
  ChainData data_;
  std::vector<i32> ends_;  // as the kernel sees them
  std::vector<std::vector<Interval>> expected_;
};

}  // namespace catenary::testing
