// SPDX-License-Identifier: Apache-2.0
// gpu_suite: the tests that need a device, as one self-contained binary. Without a mode it runs all
// but the sanitizer set. Exit codes: 0 success, 1 a test failed, 2 wrong use, 77 no device.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "tests/gpu/configs.h"
#include "tests/gpu/modes.h"

using namespace catenary;
using namespace catenary::gpu_suite;

namespace {

constexpr int kSkipped = 77;

struct Modes {
  bool configs = false, sanitize = false, capture = false, errors = false, big = false;
  bool instructions = false, edges = false, invariant = false;
  bool any() const {
    return configs || sanitize || capture || errors || big || instructions || edges || invariant;
  }
};

void run_mode(Suite& suite, const char* name, Error (*mode)(Suite&)) {
  if (suite.context_lost()) return;
  Error error = mode(suite);
  suite.tally().modes[name] = !error;
  if (error) suite.fail(name, std::move(error));
}

// The short modes first.
void run_modes(Suite& suite, const Modes& modes) {
  if (modes.errors) run_mode(suite, "errors", run_errors);
  if (modes.instructions) run_mode(suite, "instructions", run_instructions);
  if (modes.capture) run_mode(suite, "capture", run_capture);
  if (modes.edges) run_mode(suite, "edges", run_edges);
  if (modes.invariant) run_mode(suite, "invariant", run_invariant);
  if (modes.sanitize) run_mode(suite, "sanitize-set", run_sanitizer_set);
  if (modes.big) run_mode(suite, "big", run_big);
  if (modes.configs && !suite.context_lost()) run_configs(suite);
}

int run(const SuiteOptions& options, const Modes& modes) {
  Expected<std::unique_ptr<Suite>> opened = Suite::open(options);
  if (!opened) {
    const ErrorReport report = take_report(opened.takeError());
    fmt::print("gpu_suite skipped: {}\n", report.message);
    return report.code == ErrorCode::kDriverMissing ? kSkipped : 2;
  }
  Suite& suite = **opened;
  Expected<std::string> compiler = suite.compiler_id();
  if (!compiler) {
    fmt::print("gpu_suite skipped: {}\n", take_report(compiler.takeError()).message);
    return kSkipped;
  }
  suite.progress(
      fmt::format("{}, driver {}, {}, target {} ({})", suite.device().name,
                  suite.driver().version(), *compiler, suite.target().name, suite.target().arch),
      true);
  run_modes(suite, modes);
  int code = suite.tally().failures.empty() ? 0 : 1;
  if (Error error = suite.write_record()) {
    fmt::print("{}\n", take_report(std::move(error)).message);
    code = 2;
  }
  suite.progress(code == 0 ? "all right" : "FAILED", true);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Catenary's tests on a device"};
  SuiteOptions options;
  Modes modes;
  auto* configs = app.add_option("--configs", options.configs, "random chains with exact data")
                      ->check(CLI::Range(i64{0}, i64{1'000'000}));
  app.add_option("--seed", options.seed, "seed of the random chains");
  app.add_flag("--sanitize-set", modes.sanitize, "small chains once, for compute-sanitizer");
  app.add_flag("--capture", modes.capture, "graph capture and launches with PDL");
  app.add_flag("--edges", modes.edges, "PDL after kernels that stall");
  app.add_flag("--invariant", modes.invariant, "rows of batch-invariant chains have one result");
  app.add_flag("--errors", modes.errors, "wrong arguments and wrong architecture");
  app.add_flag("--big", modes.big, "tensors of more than 2^31 elements");
  app.add_flag("--instructions", modes.instructions, "kernels that execute every PTX wrapper");
  app.add_option("--time-limit", options.time_limit, "stop after this many seconds");
  app.add_option("--record", options.record, "write a JSON record to this file");
  app.add_option("--commit", options.commit, "commit to name in the record");
  app.add_option("--cache", options.cache, "keep cubins in this directory");
  app.add_option("--target", options.target, "plan for this target instead of the device's own");
  app.add_option("--threads", options.threads, "host threads (0: all cores)");
  app.add_flag("--rehearse", options.rehearse, "no device: outputs are those of the reference");
  app.add_flag("--simulator", options.simulator, "the simulator as the device, smaller chains")
      ->excludes("--big", "--instructions", "--rehearse");
  auto* against = app.add_option("--against-simulator", options.configs,
                                 "random chains on the device and in the simulator, compared")
                      ->check(CLI::Range(i64{1}, i64{1'000'000}))
                      ->excludes("--configs", "--simulator");
  app.add_option("--case", options.only_case, "run only this config");
  app.add_option("--part", options.part, "run only this part of the configs, counted from 1")
      ->check(CLI::Range(i64{1}, i64{64}));
  app.add_option("--named", options.named, "run only configs whose name contains this");
  app.add_option("--repeats", options.repeats, "further launches of the same data")
      ->check(CLI::Range(0, 100000))
      ->default_val(options.repeats);
  app.add_option("--parts", options.parts, "number of parts of the configs")
      ->check(CLI::Range(i64{1}, i64{64}));
  app.add_option("--inject", options.inject, "the fault to inject into a rehearsal")
      ->check(CLI::IsMember({"wrong", "missing", "beyond"}));
  CLI11_PARSE(app, argc, argv);
  options.against_simulator = against->count() > 0;
  modes.configs = configs->count() > 0 || options.against_simulator;
  if (!modes.any()) {
    modes = options.simulator ? Modes{true, true, true, true, false, false, true, true}
                              : Modes{true, false, true, true, true, true, true, true};
  }
  const int code = run(options, modes);
  std::fflush(stdout);
  return code;
}
