// SPDX-License-Identifier: Apache-2.0
// `catenary check`: runs a chain and compares every output with the float64 reference; in the
// simulator under several seeds. Where no kernel can run, it checks that the reference accepts its
// own values after rounding, and says so.
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "ir/counted.h"
#include "ir/reference/compare.h"
#include "tools/chain_file.h"
#include "tools/check_gradient.h"
#include "tools/command.h"
#include "tools/device_run.h"
#include "tools/evaluate.h"
#include "tools/execution.h"
#include "tools/gradient_options.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/terminal.h"
#include "tuner/number_option.h"

namespace catenary::tools {
namespace {

constexpr u64 kMaxSchedules = 1'000'000'000;

struct CheckOptions : ExecutionOptions {
  i64 samples = 0;
  int schedules = 1;
  bool gradient = false;
  GradientChoice choice;
};

struct Row {
  std::string name;
  std::string type;
  i64 elements = 0;
  CompareResult result;
};

// Compares the reference with its own values, rounded to the output's dtype.
CompareResult check_rounding(DType dtype, const Expectation& expected) {
  TensorType type;
  type.dtype = dtype;
  type.shape.push_back({static_cast<i64>(expected.values.size()), false});
  std::vector<std::byte> data(expected.values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  for (size_t i = 0; i < expected.values.size(); ++i) {
    store_element(dtype, data.data(), static_cast<i64>(i), expected.values[i].value);
  }
  return compare(type, data.data(), expected.values);
}

// Bit for bit if integer inputs stay exact through the whole chain.
CompareMode compare_mode(const VerifiedChain& chain, const CheckOptions& options) {
  const bool exact = options.data == "integer" && options.inputs.empty() && chain_is_exact(chain);
  return exact ? CompareMode::kExact : CompareMode::kInterval;
}

Expected<std::vector<Row>> check_rows(const CheckOptions& options, const Execution& execution) {
  const VerifiedChain& chain = execution.chain;
  std::vector<HostOutput> outputs;
  if (execution.on_device()) {
    auto run = run_on_device(*execution.executable, execution.chain, execution.data.inputs);
    if (!run) return run.takeError();
    outputs = std::move(*run);
  }
  EvaluateOptions evaluation;
  evaluation.samples = options.samples;
  evaluation.seed = options.seed;
  auto expected = evaluate(chain, execution.data.inputs, evaluation);
  if (!expected) return expected.takeError();
  std::vector<Row> rows;
  const std::vector<std::string> names = output_names(chain);
  for (size_t i = 0; i < expected->size(); ++i) {
    const TensorType type = with_symbol(chain.output_type(static_cast<int>(i)), execution.symbol);
    const Expectation& e = (*expected)[i];
    rows.push_back({names[i], to_string(type), num_elements(type),
                    execution.on_device() ? compare(type, outputs[i].bytes.data(), e.values,
                                                    compare_mode(chain, options), e.indices)
                                          : check_rounding(type.dtype, e)});
  }
  return rows;
}

void keep_json(const std::vector<Row>& rows) {
  llvm::json::Array outputs;
  for (const Row& row : rows) {
    outputs.push_back(llvm::json::Object{{"name", row.name},
                                         {"type", row.type},
                                         {"elements", row.elements},
                                         {"checked", row.result.checked},
                                         {"unbounded", row.result.unbounded},
                                         {"worst_error_ratio", json_number(row.result.worst_ratio)},
                                         {"mismatches", row.result.mismatches},
                                         {"ok", row.result.ok()}});
  }
  json_result()["outputs"] = std::move(outputs);
}

void print_rows(const std::vector<Row>& rows) {
  size_t name = 6;
  size_t type = 4;
  for (const Row& row : rows) {
    name = std::max(name, row.name.size());
    type = std::max(type, row.type.size());
  }
  out("{:<{}}  {:<{}}  {:>12}  {:>12}  {:>17}  {:>10}  {}\n", "output", name, "type", type,
      "elements", "checked", "worst error ratio", "mismatches", "result");
  for (const Row& row : rows) {
    out("{:<{}}  {:<{}}  {:>12}  {:>12}  {:>17.3f}  {:>10}  {}\n", row.name, name, row.type, type,
        row.elements, row.result.checked, row.result.worst_ratio, row.result.mismatches,
        row.result.ok() ? colored(STDOUT_FILENO, Color::kGreen, "PASS")
                        : colored(STDOUT_FILENO, Color::kRed, "FAIL"));
  }
  for (const Row& row : rows) {
    if (row.result.unbounded == 0) continue;
    out("not compared: {} of '{}', without an error bound. A rounding error decides, as in a "
        "comparison or a division by what may be 0\n",
        counted(row.result.unbounded, "element"), row.name);
  }
}

// The number of kernels in the bucket of this size.
size_t num_kernels(const Execution& execution) {
  const auto& buckets = execution.executable->record()->buckets;
  const auto bucket =
      llvm::find_if(buckets, [&](const BucketRecord& b) { return execution.symbol <= b.hi; });
  return bucket->kernels.size();
}

// Runs and compares with the prepared inputs of `seed`. kMismatch: an output is wrong.
Error check_seed(const CheckOptions& options, const Execution& execution, u64 seed, bool last) {
  Expected<std::vector<Row>> rows = check_rows(options, execution);
  if (!rows) return rows.takeError();
  const auto wrong = llvm::find_if(*rows, [](const Row& row) { return !row.result.ok(); });
  if (last || wrong != rows->end()) {
    print_rows(*rows);
    keep_json(*rows);
  }
  if (wrong == rows->end()) return Error::success();
  const std::string where = execution.device == DeviceKind::kSim
                                ? fmt::format("{}, seed {}", execution.where, seed)
                                : execution.where;
  return make_error(ErrorCode::kMismatch, "output '{}' is wrong on {}: {}", wrong->name, where,
                    to_string(wrong->result));
}

void print_verdict(const CheckOptions& options, const Execution& execution) {
  json_result()["kernels"] =
      execution.on_device() ? static_cast<i64>(num_kernels(execution)) : i64{0};
  json_result()["schedules"] = options.schedules;
  if (!execution.on_device()) {
    out("no kernel ran: this checked only that the reference accepts its own rounding\n");
    return;
  }
  const bool exact = compare_mode(execution.chain, options) == CompareMode::kExact;
  json_result()["bit_for_bit"] = exact;
  const std::string seeds = options.schedules > 1 ? fmt::format(" under {} seeds from {}",
                                                                options.schedules, options.seed)
                                                  : "";
  out("{} ran on {}{}; compared with the float64 reference {}\n",
      counted(num_kernels(execution), "kernel"), execution.where, seeds,
      exact ? "bit for bit" : "within its error bounds");
}

Error check_schedules(const CheckOptions& options, const Execution& execution) {
  if (options.schedules > 1 && execution.device != DeviceKind::kSim) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--schedules is {}, and the chain runs on {}: only the simulator has "
                      "schedules, so add --device sim",
                      options.schedules, execution.where);
  }
  if (options.seed > std::numeric_limits<u64>::max() - static_cast<u64>(options.schedules - 1)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--seed is {} and --schedules {}: the last seed would be beyond 64 bits, so "
                      "start with a smaller one",
                      options.seed, options.schedules);
  }
  return Error::success();
}

// What a run of one seed gave, as rows of the table.
Error print_gradient_rows(const std::vector<GradientRow>& rows, const std::string& where) {
  llvm::json::Array outputs;
  const GradientRow* wrong = nullptr;
  for (const GradientRow& row : rows) {
    out("{:<24} {:<12} {:<24} {:<16} worst error ratio {:.3f}  {}\n", row.chain, row.name, row.type,
        row.kind, row.result.worst_ratio,
        row.result.ok() ? colored(STDOUT_FILENO, Color::kGreen, "PASS")
                        : colored(STDOUT_FILENO, Color::kRed, "FAIL"));
    outputs.push_back(llvm::json::Object{{"chain", row.chain},
                                         {"name", row.name},
                                         {"type", row.type},
                                         {"kind", row.kind},
                                         {"elements", row.elements},
                                         {"worst_error_ratio", json_number(row.result.worst_ratio)},
                                         {"mismatches", row.result.mismatches},
                                         {"ok", row.result.ok()}});
    if (wrong == nullptr && !row.result.ok()) wrong = &row;
  }
  json_result()["outputs"] = std::move(outputs);
  if (wrong == nullptr) return Error::success();
  return make_error(ErrorCode::kMismatch, "output '{}' of chain '{}' is wrong on {}: {}",
                    wrong->name, wrong->chain, where, to_string(wrong->result));
}

// Forward and backward, under every seed.
Error check_gradient(const CheckOptions& options, const VerifiedChain& chain) {
  Expected<GradientOptions> choice = gradient_options(options.choice);
  if (!choice) return choice.takeError();
  Expected<Execution> execution = prepare_inputs(chain, options);
  if (!execution) return execution.takeError();
  if (Error error = check_schedules(options, *execution)) return error;
  Expected<GradientExecution> gradient = load_gradient(options, *choice, *execution);
  if (!gradient) return gradient.takeError();
  if (Error error = start_execution(*execution, options)) return error;
  for (int i = 0; i < options.schedules; ++i) {
    const u64 seed = options.seed + static_cast<u64>(i);
    if (i > 0) {
      if (Error error = seed_execution(*execution, options, seed)) return error;
    }
    GradientTensors tensors(gradient->gradient, execution->data, seed);
    auto rows = check_gradient_rows(*gradient, tensors);
    if (!rows) return rows.takeError();
    const bool wrong = llvm::any_of(*rows, [](const GradientRow& row) { return !row.result.ok(); });
    if (!wrong && i + 1 < options.schedules) continue;
    if (Error error =
            print_gradient_rows(*rows, execution->device == DeviceKind::kSim
                                           ? fmt::format("{}, seed {}", execution->where, seed)
                                           : execution->where)) {
      return error;
    }
  }
  out("{} ran on {}; {} saved\n", counted(gradient->gradient.chains.size(), "chain"),
      execution->where, counted(gradient->gradient.saved_bytes, "byte"));
  json_result()["saved_bytes"] = gradient->gradient.saved_bytes;
  json_result()["schedules"] = options.schedules;
  return Error::success();
}

Error check(const CheckOptions& options, const VerifiedChain& chain) {
  if (options.gradient) return check_gradient(options, chain);
  if (is_given(options.choice)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "an option of a gradient is given without --gradient: add --gradient");
  }
  Expected<Execution> execution = prepare(chain, options);
  if (!execution) return execution.takeError();
  if (Error error = check_schedules(options, *execution)) return error;
  Progress progress(fmt::format("checking under {} seeds", options.schedules), options.schedules);
  for (int i = 0; i < options.schedules; ++i) {
    const u64 seed = options.seed + static_cast<u64>(i);
    if (i > 0) {
      if (Error error = seed_execution(*execution, options, seed)) return error;
    }
    const bool last = i + 1 == options.schedules;
    if (Error error = check_seed(options, *execution, seed, last)) return error;
    progress.advance();
  }
  print_verdict(options, *execution);
  return Error::success();
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand("check", "Run a chain and compare it with the reference");
  add_execution_options(*command, *options);
  command
      ->add_option("--samples", options->samples,
                   "Elements of each output to compare; default: all if that takes seconds, else a "
                   "sample")
      ->transform(whole_number(1, kMaxI64));
  command
      ->add_option("--schedules", options->schedules,
                   "Simulator only: check under this many consecutive seeds, starting with --seed")
      ->transform(whole_number(1, kMaxSchedules))
      ->capture_default_str();
  command->add_flag("--gradient", options->gradient,
                    "Run the forward and the backward chains, each against the reference");
  add_gradient_options(*command, options->choice);
  command->callback([options, &exit_code] {
    exit_code = with_chain(
        options->file, [&](const VerifiedChain& chain) { return check(*options, chain); },
        options->algebraic_norms);
  });
}

}  // namespace catenary::tools
