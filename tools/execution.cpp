// SPDX-License-Identifier: Apache-2.0
#include "tools/execution.h"

#include <CLI/CLI.hpp>

#include "ir/counted.h"
#include "ir/random/reduce_sizes.h"
#include "runtime/driver/simulated_driver.h"
#include "tools/artifacts.h"
#include "tools/command_tree.h"
#include "tools/engine_options.h"
#include "tools/evaluate.h"
#include "tools/files.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/targets.h"
#include "tuner/number_option.h"

namespace catenary::tools {
namespace {

constexpr double kLongWork = 2e9;  // multiply-adds
constexpr i64 kQuickSize = 256;
constexpr u64 kMaxInt = std::numeric_limits<int>::max();
constexpr u64 kMaxSeed = std::numeric_limits<u64>::max();

Expected<std::shared_ptr<const CompiledChain>> compile(const VerifiedChain& chain,
                                                       const Target& target, Engine& engine) {
  const Progress progress("compiling");
  return engine.compile(chain.chain(), target);
}

void print_notes(const Artifacts& written, const std::string& folder) {
  json_result()["dump"] = artifacts_json(written);
  out("wrote {} into {}\n", counted(written.files.size(), "file"), folder);
  for (const std::string& note : written.notes) out("{}\n", note);
}

// The engine of the device, and where the chain runs.
Error prepare_device(const ExecutionOptions& options, Execution& execution) {
  Expected<cuda::DeviceInfo> info = cuda::probe(options.device_index);
  if (!info) return info.takeError();
  const bool simulated = execution.device == DeviceKind::kSim;
  if (simulated) {
    if (Error error = cuda::set_simulator_progress(&Progress::tell_innermost)) return error;
  }
  execution.where = simulated ? fmt::format("the simulator ({})", info->target.name)
                              : fmt::format("device {} ({})", info->ordinal, info->name);
  EngineOptions engine = engine_options(!options.no_cache);
  engine.plan.batch_invariant = options.batch_invariant;
  if (simulated) engine.backend = Backend::kHost;
  Expected<LookupOptions> lookup = with_environment(LookupOptions{});
  if (!lookup) return lookup.takeError();
  // What --pack does not have is said.
  if (!options.packs.empty() && lookup->jit == JitMode::kAuto) lookup->jit = JitMode::kWarn;
  engine.lookup = std::move(*lookup);
  execution.engine = std::make_unique<Engine>(std::move(engine));
  for (const std::string& path : options.packs) {
    Expected<std::shared_ptr<const Pack>> pack = Pack::open(path);
    if (!pack) return pack.takeError();
    execution.engine->add_pack(std::move(*pack), /*priority=*/1);
  }
  return Error::success();
}

void print_entry(const ChainRecord& record) {
  out("chain '{}' is {}\n", record.name, record.from);
  llvm::json::Value& entries = json_result()["entries"];
  if (entries.getAsArray() == nullptr) entries = llvm::json::Array();
  entries.getAsArray()->push_back(
      llvm::json::Object{{"chain", json_string(record.name)}, {"from", json_string(record.from)}});
}

// From a pack, else compiled; with --dump compiled, and written.
Expected<std::shared_ptr<const ChainRecord>> obtain(const VerifiedChain& chain,
                                                    const Target& target,
                                                    const ExecutionOptions& options,
                                                    Engine& engine) {
  if (options.dump.empty()) {
    const Progress progress("compiling");
    return engine.obtain(chain.chain(), target);
  }
  auto compiled = compile(chain, target, engine);
  if (!compiled) return compiled.takeError();
  Artifacts written;
  if (Error error = write_dump(options.dump, **compiled, written)) return error;
  print_notes(written, options.dump);
  return make_record(std::move(*compiled));
}

// --dump for the reference, which runs no kernel: the kernels for the default target.
Error dump_without_device(const VerifiedChain& chain, const ExecutionOptions& options) {
  Expected<Target> target = choose_target("");
  if (!target) return target.takeError();
  Artifacts written;
  EngineOptions own = engine_options(!options.no_cache);
  own.plan.batch_invariant = options.batch_invariant;
  Engine engine(std::move(own));
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
  Expected<Plan> plan = engine.plan(chain, *target);
  if (!plan) return plan.takeError();
  if (Error error = write_plan(options.dump, chain, *plan, written)) return error;
  if (Error error = write_sources(options.dump, chain, *plan, written)) return error;
  written.notes.push_back("no PTX and no cubin: " + problem.message);
  print_notes(written, options.dump);
  return Error::success();
}

}  // namespace

void add_execution_options(CLI::App& command, ExecutionOptions& options) {
  command.add_option("file", options.file, "Chain file, - for standard input")
      ->required()
      ->type_name(kChainFile);
  command
      .add_option(
          "--device", options.device,
          "cuda: a GPU; sim: the same kernels in the simulator on the host; ref: the float64 "
          "reference, without kernels. Default: CATENARY_DEVICE, else cuda if there is a "
          "GPU, else sim if there is a C++ compiler, else ref")
      ->check(CLI::IsMember({"cuda", "sim", "ref"}));
  command.add_option("--device-index", options.device_index, "Number of the GPU")
      ->transform(whole_number(0, kMaxInt))
      ->capture_default_str();
  command
      .add_option("--input", options.inputs,
                  "name=file.npy, name=file.npy:round to round floats to the parameter's dtype, or "
                  "name=1.5 for a scalar; repeatable. Other inputs are random")
      ->type_name(kBinding)
      ->allow_extra_args(false);
  command
      .add_option("--seed", options.seed,
                  "Seed of the random inputs and of the simulator's schedule")
      ->transform(whole_number(0, kMaxSeed))
      ->capture_default_str();
  command
      .add_option(
          "--max-size", options.max_size,
          "Reduce larger sizes to at most this, keeping remainders modulo 64; for the simulator")
      ->transform(whole_number(kLeastMaxSize, kMaxDimSize));
  command
      .add_option("--data", options.data, "Random inputs: normal distribution, or small integers")
      ->check(CLI::IsMember({"normal", "integer"}))
      ->capture_default_str();
  command
      .add_option("--symbol", options.symbol,
                  "The chain's symbolic size; default: that of the files of --input, else its "
                  "upper bound")
      ->transform(whole_number(0, kMaxI64));
  CLI::Option* dump = command.add_option(
      "--dump", options.dump,
      "Compile, and write chain, plan, source, PTX, cubin and SASS into this folder");
  dump->type_name(kFolder);
  command
      .add_option("--pack", options.packs,
                  "Take the kernels from this pack; repeatable. Default: CATENARY_PACK_PATH. What "
                  "no pack has is compiled, unless CATENARY_JIT is off")
      ->allow_extra_args(false)
      ->type_name(kFile)
      ->excludes(dump);
  command.add_flag("--no-cache", options.no_cache, "Neither read nor write the cubin cache");
  add_batch_invariant(command, options.batch_invariant);
  add_algebraic_norms(command, options.algebraic_norms);
  add_output_options(command);
}

namespace {

// The size to reduce to, 0 for none: --max-size, else, for long work in the simulator, kQuickSize.
// A user who chose the simulator or gave inputs or packs gets a warning and the sizes of the chain.
i64 choose_max_size(const VerifiedChain& chain, const ExecutionOptions& options,
                    const DeviceChoice& choice, i64 symbol) {
  if (options.max_size > 0) return options.max_size;
  const double work = reference_work(chain, symbol);
  if (choice.kind != DeviceKind::kSim || work <= kLongWork) return 0;
  const std::string fact =
      fmt::format("chain '{}' has {:.2g} multiply-adds, which take the simulator long",
                  chain.chain().name, work);
  if (!choice.asked_for && options.inputs.empty() && options.packs.empty()) {
    out("{}: its sizes are reduced as by --max-size {}\n", fact, kQuickSize);
    return kQuickSize;
  }
  err("catenary: warning: {}; --max-size {} reduces them\n", fact, kQuickSize);
  return 0;
}

// Replaces the chain and the symbol by smaller ones.
Error reduce(i64 max_size, Execution& execution) {
  Expected<ReducedChain> reduced = reduce_sizes(execution.chain, max_size);
  if (!reduced) return reduced.takeError();
  std::string text;
  llvm::json::Array sizes;
  for (const auto& [before, after] : reduced->sizes) {
    text += fmt::format("{}{} -> {}", text.empty() ? "" : ", ", before, after);
    sizes.push_back(llvm::json::Object{{"from", before}, {"to", after}});
  }
  if (!text.empty()) out("sizes: {}\n", text);
  json_result()["reduced_sizes"] = std::move(sizes);
  if (execution.chain.chain().symbol) {
    execution.symbol = reduce_symbol(reduced->chain, execution.symbol);
  }
  execution.chain = std::move(reduced->chain);
  return Error::success();
}

}  // namespace

Expected<std::shared_ptr<const Executable>> load_chain(const VerifiedChain& chain,
                                                       const ExecutionOptions& options,
                                                       Execution& execution) {
  if (execution.device == DeviceKind::kRef) {
    if (!options.dump.empty()) {
      if (Error error = dump_without_device(chain, options)) return error;
    }
    return nullptr;
  }
  Expected<cuda::DeviceInfo> info = cuda::probe(options.device_index);
  if (!info) return info.takeError();
  auto record = obtain(chain, info->target, options, *execution.engine);
  if (!record) return record.takeError();
  if (!(*record)->from.empty()) print_entry(**record);
  return execution.engine->load(std::move(*record), options.device_index);
}

Expected<Execution> prepare_inputs(const VerifiedChain& chain, const ExecutionOptions& options) {
  if (!options.dump.empty()) {
    if (Error error = prepare_folder(options.dump)) return error;
  }
  Expected<DeviceChoice> choice = choose_device(options.device);
  if (!choice) return choice.takeError();
  if (choice->kind == DeviceKind::kRef && !options.packs.empty()) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "--pack names kernels, and the reference runs none: add --device cuda or sim");
  }
  Execution execution(chain, choice->kind);
  Expected<i64> symbol = choose_symbol(chain, options.symbol, options.inputs);
  if (!symbol) return symbol.takeError();
  execution.symbol = *symbol;
  if (!choice->why.empty()) out("{}\n", choice->why);
  if (const i64 max_size = choose_max_size(chain, options, *choice, *symbol)) {
    if (Error error = reduce(max_size, execution)) return error;
  }
  Expected<GivenInputs> given = read_inputs(execution.chain, execution.symbol, options.inputs);
  if (!given) return given.takeError();
  execution.given = std::move(*given);
  execution.where = "the reference";
  if (execution.device != DeviceKind::kRef) {
    if (Error error = prepare_device(options, execution)) return error;
  }
  return execution;
}

Expected<Execution> prepare(const VerifiedChain& chain, const ExecutionOptions& options) {
  Expected<Execution> execution = prepare_inputs(chain, options);
  if (!execution) return execution.takeError();
  auto executable = load_chain(execution->chain, options, *execution);
  if (!executable) return executable.takeError();
  execution->executable = std::move(*executable);
  if (Error error = start_execution(*execution, options)) return error;
  return execution;
}

Error start_execution(Execution& execution, const ExecutionOptions& options) {
  if (Error error = seed_execution(execution, options, options.seed)) return error;
  json_result()["chain"] = execution.chain.chain().name;
  json_result()["ran_on"] = execution.where;
  json_result()["seed"] = std::to_string(options.seed);  // JSON's numbers end at 2^53
  if (execution.chain.chain().symbol) json_result()["symbol"] = execution.symbol;
  return Error::success();
}

Error seed_execution(Execution& execution, const ExecutionOptions& options, u64 seed) {
  if (execution.device == DeviceKind::kSim) {
    if (Error error = cuda::set_simulator_seed(seed)) return error;
  }
  const FillKind kind = options.data == "integer" ? FillKind::kExactInteger : FillKind::kNormal;
  execution.data = make_inputs(execution.chain, execution.symbol, execution.given, kind, seed);
  // Checks the inputs by the reference's rules (ascending group ends), also for a device.
  Expected<Reference> checked = Reference::create(execution.chain, execution.data.inputs);
  return checked ? Error::success() : checked.takeError();
}

}  // namespace catenary::tools
