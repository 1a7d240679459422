// SPDX-License-Identifier: Apache-2.0
// `catenary pack build`: chains and traces -> compiled -> a pack. Needs no GPU.
#include <CLI/CLI.hpp>
#include <atomic>
#include <mutex>
#include <thread>

#include "compiler/compile/host_compiler.h"
#include "ir/counted.h"
#include "ir/output_file.h"
#include "ir/parallel.h"
#include "ir/symbol_range.h"
#include "runtime/driver/simulated_driver.h"
#include "tools/chain_file.h"
#include "tools/engine_options.h"
#include "tools/output.h"
#include "tools/pack/pack_commands.h"
#include "tools/pack/trace_file.h"
#include "tools/progress.h"
#include "tools/targets.h"
#include "tuner/number_option.h"

namespace catenary::tools {
namespace {

// Sizes of the symbol; one size: lo == hi.
struct SizeRange {
  i64 lo = 0;
  i64 hi = 0;
};

struct BuildCommand {
  std::vector<std::string> files;
  std::vector<std::string> traces;
  std::vector<std::string> archs;
  std::vector<SizeRange> symbols;  // of the chain files; empty: as they say
  std::string output;
  int jobs = 0;
  bool simulator = false;
  bool tuned = false;
  bool no_cache = false;
  bool keep_going = false;
  bool batch_invariant = false;
  bool algebraic_norms = false;
  PackContents contents;
};

// "1..64" or "4096".
std::optional<SizeRange> parse_range(const std::string& text) {
  const size_t dots = text.find("..");
  const auto lo = decimal<i64>(std::string_view(text).substr(0, dots));
  const auto hi = dots == std::string::npos ? lo : decimal<i64>(text.substr(dots + 2));
  if (!lo || !hi || *lo < 0 || *lo > *hi) return std::nullopt;
  return SizeRange{*lo, *hi};
}

// The parts of "a,b"; none is empty.
std::vector<std::string> list_parts(const std::vector<std::string>& texts, const char* option) {
  std::vector<std::string> parts;
  for (const std::string& text : texts) {
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = text.find(',', begin);
      parts.push_back(text.substr(begin, end == std::string::npos ? end : end - begin));
      if (!parts.back().empty()) continue;
      throw CLI::ValidationError(
          option, catenary::quoted(text) + " has an empty part: separate its parts by one comma");
    }
  }
  return parts;
}

// The chain of a file, for each range of its symbol that is asked for. Sets `has_symbol` if it has
// one.
Expected<std::vector<VerifiedChain>> chains_of(const std::string& path, const BuildCommand& command,
                                               bool& has_symbol) {
  const std::vector<SizeRange>& symbols = command.symbols;
  Expected<ChainFile> file = read_chain_file(path);
  if (!file) return file.takeError();
  file->algebraic_norms = command.algebraic_norms;
  Expected<VerifiedChain> chain = verify_chain_file(*file);
  if (!chain) {
    const ErrorReport problem = take_report(chain.takeError());
    return make_error(problem.code, "{}:{}:{}: {}", file->path, problem.at.line, problem.at.column,
                      problem.message);
  }
  has_symbol |= chain->chain().symbol.has_value();
  if (symbols.empty() || !chain->chain().symbol) return std::vector{std::move(*chain)};
  std::vector<VerifiedChain> chains;
  for (const SizeRange& range : symbols) {
    Expected<VerifiedChain> changed = with_symbol_range(*chain, range.lo, range.hi);
    if (!changed) return changed.takeError();
    chains.push_back(std::move(*changed));
  }
  return chains;
}

// Of the chain files. Without --arch the one that a run on this machine has.
Expected<std::vector<Target>> targets_of(const BuildCommand& command) {
  std::vector<Target> targets;
  const auto add = [&targets](Expected<Target> target) -> Error {
    if (!target) return target.takeError();
    targets.push_back(std::move(*target));
    return Error::success();
  };
  if (command.archs.empty()) {
    Error error = add(command.simulator ? cuda::simulated_target() : choose_target(""));
    if (error) return error;
  }
  for (const std::string& arch : command.archs) {
    if (Error error = add(choose_target(arch))) return error;
  }
  return targets;
}

// The requests of the chain files, for each target, then those of the traces; each once.
Expected<std::vector<ChainRequest>> find_requests(const BuildCommand& command) {
  Expected<std::vector<Target>> targets = targets_of(command);
  if (!targets) return targets.takeError();
  std::vector<ChainRequest> requests;
  bool has_symbol = false;
  ChainOptions options;
  options.batch_invariant = command.batch_invariant;
  for (const std::string& path : command.files) {
    Expected<std::vector<VerifiedChain>> chains = chains_of(path, command, has_symbol);
    if (!chains) return chains.takeError();
    for (const VerifiedChain& chain : *chains) {
      for (const Target& target : *targets) {
        requests.push_back(make_request(chain, target, command.simulator, options));
      }
    }
  }
  if (!command.symbols.empty() && !has_symbol) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--symbol is given, and no chain file has a symbolic size: leave it out");
  }
  for (const std::string& path : command.traces) {
    Expected<std::vector<ChainRequest>> traced = read_trace(path);
    if (!traced) return traced.takeError();
    for (ChainRequest& request : *traced) requests.push_back(std::move(request));
  }
  remove_duplicates(requests);
  return requests;
}

EngineOptions options_for(const BuildCommand& command, const ChainRequest& request) {
  EngineOptions options = engine_options(!command.no_cache);
  options.backend = request.host ? Backend::kHost : Backend::kNvrtc;
  options.progress = nullptr;  // chains count, not kernels
  options.plan.fuse = request.options.fuse;
  options.plan.split_k = request.options.split_k;
  options.plan.batch_invariant = request.options.batch_invariant;
  options.plan.force_tile = request.options.force_tile;
  options.compile.allow_spills = request.options.allow_spills;
  if (!command.tuned) {
    options.tuning.mode = CacheMode::kOff;
    options.tuning.directory = "off";  // not empty, so that CATENARY_TUNING does not override it
  }
  return options;
}

// Engines by what they are made with, so that requests with equal options share one.
class Engines {
 public:
  explicit Engines(const BuildCommand& command) : command_(command) {}
  Engine& of(const ChainRequest& request) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Engine>& engine =
        engines_[options_text(request.options) + (request.host ? " host" : "")];
    if (!engine) engine = std::make_unique<Engine>(options_for(command_, request));
    return *engine;
  }

 private:
  const BuildCommand& command_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Engine>> engines_;
};

// Compiles all requests into `writer`. One report for each request; code kOk: it is in the pack.
std::vector<ErrorReport> compile_all(const BuildCommand& command,
                                     const std::vector<ChainRequest>& requests,
                                     PackWriter& writer) {
  Engines engines(command);
  std::vector<ErrorReport> reports(requests.size());
  std::mutex writing;
  std::atomic<bool> stop = false;
  Progress progress("compiling chains", static_cast<i64>(requests.size()));
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads = command.jobs > 0 ? command.jobs : cores;
  parallel_for(static_cast<i64>(requests.size()), threads, [&](i64 i) {
    if (stop) return;
    const ChainRequest& request = requests[static_cast<size_t>(i)];
    const auto add = [&]() -> Error {
      auto compiled = engines.of(request).compile(request.chain.chain(), request.target);
      if (!compiled) return compiled.takeError();
      const auto record = make_record(std::move(*compiled));
      const std::lock_guard lock(writing);
      return writer.add(*record).takeError();
    };
    if (Error error = add()) {
      reports[static_cast<size_t>(i)] = take_report(std::move(error));
      // Without a compiler every other one fails in the same way.
      const ErrorCode code = reports[static_cast<size_t>(i)].code;
      stop = stop || code == ErrorCode::kNvrtcMissing || code == ErrorCode::kHostCompilerMissing;
    }
    progress.advance();
  });
  return reports;
}

// Prints every failure. Returns the first one's report.
ErrorReport print_failures(const std::vector<ChainRequest>& requests,
                           const std::vector<ErrorReport>& reports) {
  llvm::json::Array failed;
  ErrorReport first;
  for (size_t i = 0; i < reports.size(); ++i) {
    if (reports[i].code == ErrorCode::kOk) continue;
    if (first.code == ErrorCode::kOk) first = reports[i];
    const std::string& name = requests[i].chain.chain().name;
    err("catenary: chain '{}' for {} failed: {} [{}]\n", name, arch_words(requests[i].arch()),
        reports[i].message, error_code_name(reports[i].code));
    failed.push_back(llvm::json::Object{{"chain", name},
                                        {"arch", requests[i].arch()},
                                        {"code", error_code_name(reports[i].code)},
                                        {"message", llvm::json::fixUTF8(reports[i].message)}});
  }
  if (!failed.empty()) json_result()["failed"] = std::move(failed);
  return first;
}

// The options that say something of the chain files need one.
Error check_files(const BuildCommand& command) {
  if (!command.files.empty()) return Error::success();
  if (command.traces.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "nothing to build: name chain files, or a trace by --from");
  }
  const std::pair<bool, const char*> options[] = {{!command.archs.empty(), "--arch"},
                                                  {!command.symbols.empty(), "--symbol"},
                                                  {command.simulator, "--simulator"},
                                                  {command.batch_invariant, "--batch-invariant"},
                                                  {command.algebraic_norms, "--algebraic-norms"}};
  for (const auto& [given, option] : options) {
    if (!given) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is for chain files, and a trace says it for each of its chains: name "
                      "chain files, or leave it out",
                      option);
  }
  return Error::success();
}

Error build(const BuildCommand& command) {
  if (Error error = check_files(command)) return error;
  if (Error error = OutputFile::check(command.output)) return error;
  Expected<std::vector<ChainRequest>> requests = find_requests(command);
  if (!requests) return requests.takeError();
  PackWriter writer(command.contents);
  const std::vector<ErrorReport> reports = compile_all(command, *requests, writer);
  const ErrorReport failure = print_failures(*requests, reports);
  const size_t missing = requests->size() - writer.size();
  if (failure.code != ErrorCode::kOk && !command.keep_going) {
    return make_error(failure.code,
                      "{} of {} {} not compiled, so no pack was written: fix what failed, or take "
                      "the others by --keep-going",
                      missing, counted(requests->size(), "chain"), missing == 1 ? "was" : "were");
  }
  if (Error error = write_pack(writer, command.output)) return error;
  if (failure.code == ErrorCode::kOk) return Error::success();
  return make_error(ErrorCode::kMismatch, "{} of {} {} not in the pack {}", missing,
                    counted(requests->size(), "chain"), missing == 1 ? "is" : "are",
                    command.output);
}

}  // namespace

void add_pack_build(CLI::App& pack, int& exit_code) {
  auto options = std::make_shared<BuildCommand>();
  CLI::App* build_command =
      pack.add_subcommand("build", "Compile chains and traces into a pack; needs no GPU");
  build_command->add_option("files", options->files, "Chain files");
  build_command->add_option("-o,--output", options->output, "The pack to write")->required();
  build_command
      ->add_option(
          "--from", options->traces,
          "A trace, as CATENARY_TRACE writes it, or a list of misses; - for standard input")
      ->allow_extra_args(false);
  build_command
      ->add_option_function<std::vector<std::string>>(
          "--arch,--target",
          [options](const std::vector<std::string>& texts) {
            options->archs = list_parts(texts, "--arch");
          },
          "Architectures or GPU names for the chain files, separated by commas; default: "
          "the GPU of this machine, else h200; with --simulator the simulated one")
      ->allow_extra_args(false);
  build_command
      ->add_option_function<std::vector<std::string>>(
          "--symbol",
          [options](const std::vector<std::string>& texts) {
            for (const std::string& text : list_parts(texts, "--symbol")) {
              const std::optional<SizeRange> range = parse_range(text);
              if (!range) {
                throw CLI::ValidationError(
                    "--symbol", catenary::quoted(text) + " is neither a size nor a range");
              }
              options->symbols.push_back(*range);
            }
          },
          "Sizes and ranges of the chain files' symbol, such as 1..64,4096; each is compiled. "
          "Default: the range of the file")
      ->type_name("RANGE")
      ->allow_extra_args(false);
  build_command
      ->add_option("-j,--jobs", options->jobs,
                   "Chains that are compiled at a time; 0: one per core")
      ->transform(whole_number(0, 1024));
  build_command->add_flag("--simulator", options->simulator,
                          "Machine code of the simulator, for the chain files");
  build_command->add_flag("--tuned", options->tuned,
                          "Use this machine's tuning records: the pack then depends on them");
  build_command->add_flag_callback(
      "--no-explain", [options] { options->contents.explain = false; },
      "Leave out the plans' texts");
  build_command->add_flag("--sources", options->contents.sources, "Add the emitted sources");
  build_command->add_flag("--keep-going", options->keep_going,
                          "Write the pack without the chains that cannot be compiled; exit code 1");
  build_command->add_flag("--no-cache", options->no_cache,
                          "Neither read nor write the cubin cache");
  add_batch_invariant(*build_command, options->batch_invariant);
  add_algebraic_norms(*build_command, options->algebraic_norms);
  add_output_options(*build_command);
  build_command->callback([options, &exit_code] { exit_code = report(build(*options)); });
}

}  // namespace catenary::tools
