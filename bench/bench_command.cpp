// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_command.h"

#include <CLI/CLI.hpp>

#include "bench/bench_options.h"
#include "bench/sweep/sweeps.h"
#include "tuner/number_option.h"

namespace catenary {
namespace {

// "2/4".
std::pair<int, int> parse_shard(const std::string& text) {
  const size_t slash = std::min(text.find('/'), text.size());
  const auto part = decimal<int>(text.substr(0, slash));
  const auto parts = decimal<int>(text.substr(std::min(slash + 1, text.size())));
  if (!part || !parts || *part < 1 || *part > *parts || *parts > 64) {
    throw CLI::ValidationError("--shard",
                               catenary::quoted(text) + " is not I/N with 1 <= I <= N <= 64");
  }
  return {*part, *parts};
}

// What is timed instead of the cases: --sweep and what only a sweep takes.
void add_sweep_options(CLI::App& command, const std::shared_ptr<bench::BenchOptions>& options) {
  auto* sweep =
      command
          .add_option("--sweep", options->sweep,
                      "Time many layers briefly instead: small M with many matrices (small), "
                      "candidates of large contractions (gemm), layers of models (models), "
                      "layers drawn from --seed (random), or those of --layers (layers)")
          ->check(CLI::IsMember(bench::sweep_names()));
  command.add_option("--count", options->count, "Layers of --sweep random, over all shards")
      ->transform(whole_number(1, 100000))
      ->capture_default_str()
      ->needs(sweep);
  command
      .add_option("--kinds", options->kinds,
                  "Kinds of --sweep random: dense,small_m,grouped,dual,experts (default: these), "
                  "int4, int8 (packed weights)")
      ->needs(sweep);
  command
      .add_option(
          "--layers", options->layers,
          "Layers of --sweep layers: MxNxK, GxMxNxK (groups) or GeMxNxK (G experts that share "
          "M rows), then :bias, :bias_silu, :bias_gelu or :swiglu (two weights), and :int4 or "
          ":int8 for packed weights of MxNxK; comma-separated")
      ->needs(sweep);
  command
      .add_option("--candidates", options->candidates,
                  "Also time the best N candidates of every family, and N more of weight streams; "
                  "0: every candidate (all sweeps but small)")
      ->transform(whole_number(0, 1000))
      ->needs(sweep);
  command
      .add_option_function<std::string>(
          "--shard", [options](const std::string& text) { options->shard = parse_shard(text); },
          "Only part I of N of the sweep's layers, as I/N")
      ->needs(sweep);
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code, BenchOutput output) {
  auto options = std::make_shared<bench::BenchOptions>();
  options->report = std::move(output.report);
  options->show = std::move(output.show);
  options->result = std::move(output.result);
  options->note = std::move(output.note);
  options->step = std::move(output.step);
  CLI::App* command = app.add_subcommand(
      "bench", "Verify, then time chains against cuBLASLt and their unfused plans");
  command->add_option("--cases", options->cases,
                      "Cases to run, as comma-separated shell patterns (default: all)");
  command
      ->add_option("--out", options->out,
                   "Write the record to this JSON file (default: bench/results/<gpu>/; none with "
                   "--compile and --pack)")
      ->type_name("FILE");
  command->add_option("--rounds", options->rounds, "Rounds of each contest")
      ->transform(whole_number(1, 1000))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of the data")
      ->transform(whole_number(0, std::numeric_limits<u64>::max()))
      ->capture_default_str();
  command->add_option("--device", options->device, "Device number")
      ->transform(whole_number(0, std::numeric_limits<int>::max()))
      ->capture_default_str();
  command->add_option("--commit", options->commit,
                      "Commit to record (default: the one that was built)");
  command->add_option("--tile", options->tile, "Force this tile, as `--tiles all` names it");
  command->add_option("--split", options->split_k, "Force split-K with this many parts")
      ->transform(whole_number(1, 16));
  command->add_option("--tiles", options->tiles, "Also time every candidate of each case")
      ->check(CLI::IsMember({"all"}));
  add_sweep_options(*command, options);
  command->add_flag("--quick", options->quick, "Few rounds and short batches, for a first look");
  command->add_flag("--list", options->list, "List the cases");
  command->add_flag("--launch", options->launch, "Time the host's work of a launch instead");
  command->add_flag("--calibrate", options->calibrate,
                    "Measure the device's rates and latencies instead, for the cost model");
  command->add_flag("--compile", options->compile,
                    "Time planning, emission, NVRTC and the cache instead (no GPU needed)");
  command
      ->add_option("--pack", options->pack,
                   "Measure a pack instead: its bytes, and the time to open it, to find a chain in "
                   "it and to prepare one, without the driver's part (no GPU needed)")
      ->type_name("FILE");
  command->add_option("--target", options->target, "GPU that --compile compiles for")
      ->type_name("TARGET")
      ->capture_default_str();
  command->callback([options, &exit_code] { exit_code = bench::run_bench(*options); });
}

}  // namespace catenary
