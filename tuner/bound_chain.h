// SPDX-License-Identifier: Apache-2.0
// A compiled chain bound to named arenas: ready to be launched on any copy of its tensors.
#pragma once

#include "runtime/engine.h"
#include "tuner/tensors.h"
#include "tuner/timing.h"

namespace catenary::tuner {

// How an engine compiles for the session's device: by NVRTC, or for the simulator. It takes no
// tuning records.
EngineOptions engine_options(const Session& session, const PlanOptions& plan = {});

class BoundChain {
 public:
  // Compiles `chain` for the session's device by `options` and binds each parameter, and the
  // output, to the arena of its name. kInternal if one is missing.
  static Expected<std::shared_ptr<const BoundChain>> make(const Session& session,
                                                          const VerifiedChain& chain,
                                                          const PlanOptions& options,
                                                          const Tensors& tensors, int copies);

  // The same for a chain that is compiled already.
  static Expected<std::shared_ptr<const BoundChain>> load(
      const Session& session, Engine& engine, std::shared_ptr<const CompiledChain> compiled,
      const Tensors& tensors, int copies);

  // Enqueues one launch on the session's stream. With `pdl` every kernel may start before the
  // previous one in the stream has ended, else none may.
  Error launch(int copy, bool pdl = false) const;

  const Plan& plan() const { return compiled_->plan; }
  const CompiledChain& compiled() const { return *compiled_; }

 private:
  explicit BoundChain(const Session& session) : session_(session) {}
  Error bind(const Tensors& tensors, int copies);

  const Session& session_;
  std::shared_ptr<const CompiledChain> compiled_;
  std::shared_ptr<const Executable> executable_;
  std::vector<std::vector<void*>> arguments_;  // by copy
  cuda::DeviceBuffer workspace_;
};

// A contender that launches `chain` and keeps it alive.
Contender contender(std::string name, std::shared_ptr<const BoundChain> chain, bool pdl = false);

// "tile 128x128x32, ... | adds 4 parts": the configs of the plan's kernels.
std::string config_text(const Plan& plan);

// The family of the plan's contraction, else of its first kernel.
std::string_view plan_family(const Plan& plan);

}  // namespace catenary::tuner
