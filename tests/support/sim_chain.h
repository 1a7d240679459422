// SPDX-License-Identifier: Apache-2.0
// A chain in the simulator without a driver and an engine: planned, emitted, compiled for the host,
// launched by simulate() over memory of its own, compared with the reference. Takes text and sizes,
// returns the name of the problem. For tests that change a template or check one fault.
//
//   auto chain = SimulatedChain::make("chain a(...) {...}", {.symbol = 7});
//   CHECK(chain->run(/*seed=*/1).name == "");
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/compile/host_compiler.h"
#include "compiler/plan.h"
#include "ir/random/fill.h"
#include "simulator/simulator.h"

namespace catenary::testing {

struct SimulatedChainOptions {
  std::string target = "h200";
  int sm_count = 0;  // not 0: replaces the target's, so that persistent CTAs have several tiles
  PlanOptions plan;
  std::string family;  // not empty: its best candidates, where the cost model may take another
  i64 symbol = 0;
  // Group ends that the kernel reads, of every parameter of as many groups. The reference takes
  // them clamped to 0 .. the size of the ragged label, and ascending. Other ends are random.
  std::vector<i32> ends;
  // In tensors whose first dimension is the ragged label, rows [begin, end) are NaN.
  std::vector<std::pair<i64, i64>> nan_rows;
  // Outputs that take the memory of a parameter though the chain does not say so: output, position.
  std::vector<std::pair<int, int>> aliases;
  FillKind fill = FillKind::kExactInteger;
  u64 data_seed = 1;
  // The simulator treats weights as inputs: a kernel that reads a weight before the dependency
  // wait, which is allowed, is then a fault.
  bool weights_as_inputs = false;
  const HostCompiler* compiler = nullptr;  // null: HostCompiler::get()
};

// The result of a run.
struct SimulatedOutcome {
  // "" for success, the name of a fault, "unwritten_output", "mismatch", or the name of an error
  // code.
  std::string name;
  std::string message;
};

// An error as an outcome.
SimulatedOutcome outcome_of(Error error);

class SimulatedChain {
 public:
  // Verifies, plans, compiles every kernel of the symbol's bucket, fills the inputs, evaluates the
  // reference. Errors: those of the steps.
  static Expected<SimulatedChain> make(const std::string& text, SimulatedChainOptions options = {});

  // Sets SimulatedChainOptions::ends for later runs of the same kernels.
  Error set_ends(std::vector<i32> ends);

  // Launches all kernels with this seed on fresh memory. The allocation of a tensor has exactly the
  // bytes that it spans. The PDL flag of the first kernel is set for odd seeds. Thread-safe.
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
  std::optional<int> memory_of_output(int i) const;
  sim::Region region(const SlotBinding& slot, const Buffers& buffers) const;
  SimulatedOutcome check_output(int i, const Buffers& buffers, sim::Memory& memory) const;

  VerifiedChain chain_;
  SimulatedChainOptions options_;
  Plan plan_;
  int bucket_ = 0;
  std::vector<std::shared_ptr<const sim::Object>> objects_;  // by kernel of the bucket
  ChainData data_;
  std::map<size_t, std::vector<i32>> ends_;  // that the kernel reads, by parameter
  std::vector<std::vector<Interval>> expected_;
};

}  // namespace catenary::testing
