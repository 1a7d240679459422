// SPDX-License-Identifier: Apache-2.0
#include "tools/execution.h"

#include <CLI/CLI.hpp>

#include "tools/artifacts.h"
#include "tools/engine_options.h"
#include "tools/inputs.h"
#include "tools/progress.h"
#include "tools/targets.h"

namespace catenary::tools {
namespace {

bool device_found() {
  Expected<const cuda::Driver*> driver = cuda::Driver::get();
  if (driver) return (*driver)->device_count() > 0;
  llvm::consumeError(driver.takeError());
  return false;
}

Expected<std::shared_ptr<const CompiledChain>> compile(const VerifiedChain& chain,
                                                       const Target& target, Engine& engine) {
  const Progress progress("compiling");
  return engine.compile(chain.chain(), target);
}

void print_notes(const Artifacts& written, const std::string& folder) {
  fmt::print("wrote {} files into {}\n", written.files.size(), folder);
  for (const std::string& note : written.notes) fmt::print("{}\n", note);
}

Error prepare_device(const VerifiedChain& chain, const ExecutionOptions& options,
                     Execution& execution) {
  Expected<cuda::DeviceInfo> info = cuda::probe(options.device_index);
  if (!info) return info.takeError();
  execution.where = fmt::format("device {} ({})", info->ordinal, info->name);
  execution.engine = std::make_unique<Engine>(engine_options(!options.no_cache));
  auto compiled = compile(chain, info->target, *execution.engine);
  if (!compiled) return compiled.takeError();
  if (!options.dump.empty()) {
    Artifacts written;
    if (Error error = write_dump(options.dump, **compiled, written)) return error;
    print_notes(written, options.dump);
  }
  auto executable = execution.engine->load(std::move(*compiled), options.device_index);
  if (!executable) return executable.takeError();
  execution.executable = std::move(*executable);
  return Error::success();
}

// The reference runs no kernel: what would run is still there to be looked at.
Error dump_without_device(const VerifiedChain& chain, const ExecutionOptions& options) {
  Expected<Target> target = choose_target("");
  if (!target) return target.takeError();
  Artifacts written;
  Engine engine(engine_options(!options.no_cache));
  auto compiled = compile(chain, *target, engine);
  if (compiled) {
    if (Error error = write_dump(options.dump, **compiled, written)) return error;
    print_notes(written, options.dump);
    return Error::success();
  }
  ErrorReport problem = take_report(compiled.takeError());
  if (problem.code != ErrorCode::kNvrtcMissing) {
    return make_error_text(problem.code, problem.message, problem.at);
  }
  Expected<Plan> plan = make_plan(chain, *target);
  if (!plan) return plan.takeError();
  if (Error error = write_plan(options.dump, chain, *plan, written)) return error;
  if (Error error = write_sources(options.dump, chain, *plan, written)) return error;
  written.notes.push_back("no PTX and no cubin: " + problem.message);
  print_notes(written, options.dump);
  return Error::success();
}

}  // namespace

void add_execution_options(CLI::App& command, ExecutionOptions& options) {
  command.add_option("file", options.file, "Chain file, - for standard input")->required();
  command
      .add_option("--device", options.device,
                  "cuda, or ref (float64 on the host); default: cuda if there is a GPU, else ref")
      ->check(CLI::IsMember({"cuda", "ref"}));
  command.add_option("--device-index", options.device_index, "Which GPU")->capture_default_str();
  command
      .add_option("--input", options.inputs,
                  "name=file.npy, or name=1.5 for a scalar; repeatable. Others are random")
      ->allow_extra_args(false);
  command.add_option("--seed", options.seed, "Of the random inputs")->capture_default_str();
  command.add_option("--data", options.data, "Random inputs: normal, or small integers")
      ->check(CLI::IsMember({"normal", "integer"}))
      ->capture_default_str();
  command
      .add_option("--symbol", options.symbol, "The chain's symbolic size; default: its upper bound")
      ->check(CLI::NonNegativeNumber);
  command.add_option("--dump", options.dump,
                     "Write chain, plan, source, PTX, cubin and SASS into this folder");
  command.add_flag("--no-cache", options.no_cache, "Neither read nor write the cubin cache");
}

Expected<Execution> prepare(const VerifiedChain& chain, const ExecutionOptions& options) {
  Execution execution;
  Expected<i64> symbol = choose_symbol(chain, options.symbol);
  if (!symbol) return symbol.takeError();
  execution.symbol = *symbol;
  Expected<GivenInputs> given = read_inputs(chain, execution.symbol, options.inputs);
  if (!given) return given.takeError();

  const bool found = options.device.empty() && device_found();
  if (options.device == "cuda" || found) {
    if (Error error = prepare_device(chain, options, execution)) return error;
  } else {
    execution.where = "the reference";
    if (options.device.empty()) fmt::print("no GPU found: evaluating by the reference\n");
    if (!options.dump.empty()) {
      if (Error error = dump_without_device(chain, options)) return error;
    }
  }
  const FillKind kind = options.data == "integer" ? FillKind::kExactInteger : FillKind::kNormal;
  execution.data = make_inputs(chain, execution.symbol, std::move(*given), kind, options.seed);
  // The reference's rules for inputs (ends that ascend) hold on a device as well.
  Expected<Reference> checked = Reference::create(chain, execution.data.inputs);
  if (!checked) return checked.takeError();
  return execution;
}

}  // namespace catenary::tools
