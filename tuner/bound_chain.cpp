// SPDX-License-Identifier: Apache-2.0
#include "tuner/bound_chain.h"

#include "compiler/kernel_family.h"

namespace catenary::tuner {

EngineOptions engine_options(const Session& session, const PlanOptions& plan) {
  EngineOptions options;
  options.backend = session.driver().simulated() ? Backend::kHost : Backend::kNvrtc;
  options.plan = plan;
  // The planner is measured, not earlier tuning on this device.
  options.tuning.mode = CacheMode::kOff;
  options.tuning.directory = "off";
  return options;
}

Expected<std::shared_ptr<const BoundChain>> BoundChain::make(const Session& session,
                                                             const VerifiedChain& chain,
                                                             const PlanOptions& options,
                                                             const Tensors& tensors, int copies) {
  Engine engine(engine_options(session, options));
  auto compiled = engine.compile(chain.chain(), session.info().target);
  if (!compiled) return compiled.takeError();
  return load(session, engine, std::move(*compiled), tensors, copies);
}

Expected<std::shared_ptr<const BoundChain>> BoundChain::load(
    const Session& session, Engine& engine, std::shared_ptr<const CompiledChain> compiled,
    const Tensors& tensors, int copies) {
  auto executable = engine.load(compiled, session.info().ordinal, session.stream());
  if (!executable) return executable.takeError();
  std::shared_ptr<BoundChain> bound(new BoundChain(session));
  bound->compiled_ = std::move(compiled);
  bound->executable_ = std::move(*executable);
  if (Error error = bound->bind(tensors, copies)) return error;
  return std::shared_ptr<const BoundChain>(std::move(bound));
}

Error BoundChain::bind(const Tensors& tensors, int copies) {
  const VerifiedChain& chain = compiled_->chain;
  std::vector<std::string> names;
  for (ValueId id : chain.parameters()) names.push_back(chain.value(id).name);
  for (std::string& name : output_names(chain)) names.push_back(std::move(name));
  arguments_.resize(static_cast<size_t>(copies));
  for (const std::string& name : names) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      return make_error(ErrorCode::kInternal, "chain '{}' has no tensor '{}' to run on",
                        chain.chain().name, name);
    }
    for (int copy = 0; copy < copies; ++copy) arguments_[copy].push_back(found->second.at(copy));
  }
  Expected<cuda::DeviceBuffer> workspace =
      cuda::DeviceBuffer::allocate(executable_->workspace_bytes());
  if (!workspace) return workspace.takeError();
  workspace_ = std::move(*workspace);
  return Error::success();
}

Error BoundChain::launch(int copy, bool pdl) const {
  LaunchArguments arguments;
  arguments.tensors = arguments_[copy];
  arguments.workspace = reinterpret_cast<void*>(workspace_.get());
  arguments.stream = session_.stream();
  arguments.allow_pdl = pdl;
  arguments.disable_pdl = !pdl;
  return executable_->launch(arguments);
}

Contender contender(std::string name, std::shared_ptr<const BoundChain> chain, bool pdl) {
  return {std::move(name),
          [chain = std::move(chain), pdl](int copy) { return chain->launch(copy, pdl); }};
}

std::string config_text(const Plan& plan) {
  std::string text;
  for (const KernelPlan& kernel : plan.buckets.front().kernels) {
    if (!text.empty()) text += " | ";
    text += kernel.config_text;
  }
  return text;
}

std::string_view plan_family(const Plan& plan) {
  const auto& kernels = plan.buckets.front().kernels;
  for (const KernelPlan& kernel : kernels) {
    if (family_name(kernel) != "pointwise" && family_name(kernel) != "reduce") {
      return family_name(kernel);
    }
  }
  return kernels.empty() ? "" : family_name(kernels.front());
}

}  // namespace catenary::tuner
