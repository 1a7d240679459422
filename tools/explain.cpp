// SPDX-License-Identifier: Apache-2.0
// `catenary explain`: prints the plan of a chain for one target. Compiles nothing.
#include "compiler/explain.h"

#include <CLI/CLI.hpp>

#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/command_tree.h"
#include "tools/engine_options.h"
#include "tools/output.h"
#include "tools/targets.h"

namespace catenary::tools {
namespace {

struct ExplainOptions {
  std::string file;
  std::string target;
  bool unfused = false;
  bool tuned = false;
  bool batch_invariant = false;
  bool algebraic_norms = false;
};

Error explain(const ExplainOptions& options, const VerifiedChain& chain) {
  Expected<Target> target = choose_target(options.target);
  if (!target) return target.takeError();
  PlanOptions plan_options;
  plan_options.fuse = !options.unfused;
  plan_options.batch_invariant = options.batch_invariant;
  const TuningStore store = tuning_store();
  if (options.tuned) {
    plan_options.tuned = [&store, &target](const std::string& signature) {
      return store.choice(*target, signature);
    };
  }
  Expected<Plan> plan = make_plan(chain, *target, plan_options);
  if (!plan) return plan.takeError();
  if (uses_json()) json_result() = std::move(*explain_json(chain, *plan).getAsObject());
  out("{}", explain_text(chain, *plan));
  return Error::success();
}

}  // namespace

void add_explain(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command =
      app.add_subcommand("explain", "Print the plan: kernels, reasons of fusion, predicted times");
  command->add_option("file", options->file, "Chain file, - for standard input")
      ->required()
      ->type_name(kChainFile);
  command
      ->add_option(
          "--target,--arch", options->target,
          "GPU name or architecture (h200, sm_90a); default: the GPU of this machine, else h200")
      ->type_name(kTarget);
  add_output_options(*command);
  command->add_flag("--tuned", options->tuned,
                    "Use what `catenary tune` measured for the target, as compiling does");
  add_batch_invariant(*command, options->batch_invariant);
  add_algebraic_norms(*command, options->algebraic_norms);
  command->add_flag("--unfused", options->unfused, "Plan a kernel for every op");
  command->callback([options, &exit_code] {
    exit_code = with_chain(
        options->file, [&](const VerifiedChain& chain) { return explain(*options, chain); },
        options->algebraic_norms);
  });
}

}  // namespace catenary::tools
