// SPDX-License-Identifier: Apache-2.0
// `catenary check`: runs a chain and compares every output with the float64 reference. Without a
// device it checks the reference against itself and says so.
#include <CLI/CLI.hpp>

#include "ir/compare.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/device_run.h"
#include "tools/evaluate.h"
#include "tools/execution.h"

namespace catenary::tools {
namespace {

struct CheckOptions : ExecutionOptions {
  i64 samples = 0;
};

struct Row {
  std::string name;
  std::string type;
  i64 elements = 0;
  CompareResult result;
};

const std::string& output_name(const VerifiedChain& chain, size_t i) {
  return chain.value(chain.chain().outputs[i].value).name;
}

// The reference's own values, rounded to the output's dtype, as if a kernel had written them.
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

// Bit for bit where integers stay exact through the whole chain.
CompareMode compare_mode(const VerifiedChain& chain, const CheckOptions& options) {
  const bool exact = options.data == "integer" && options.inputs.empty() && chain_is_exact(chain);
  return exact ? CompareMode::kExact : CompareMode::kInterval;
}

Expected<std::vector<Row>> check_rows(const VerifiedChain& chain, const CheckOptions& options,
                                      const Execution& execution) {
  std::vector<HostOutput> outputs;
  if (execution.on_device()) {
    auto run = run_on_device(*execution.executable, execution.data.inputs);
    if (!run) return run.takeError();
    outputs = std::move(*run);
  }
  EvaluateOptions evaluation;
  evaluation.samples = options.samples;
  evaluation.seed = options.seed;
  auto expected = evaluate(chain, execution.data.inputs, evaluation);
  if (!expected) return expected.takeError();
  std::vector<Row> rows;
  for (size_t i = 0; i < expected->size(); ++i) {
    const TensorType type = with_symbol(chain.output_type(static_cast<int>(i)), execution.symbol);
    const Expectation& e = (*expected)[i];
    rows.push_back({output_name(chain, i), to_string(type), num_elements(type),
                    execution.on_device() ? compare(type, outputs[i].bytes.data(), e.values,
                                                    compare_mode(chain, options), e.indices)
                                          : check_rounding(type.dtype, e)});
  }
  return rows;
}

void print_rows(const std::vector<Row>& rows) {
  size_t name = 6;
  size_t type = 4;
  for (const Row& row : rows) {
    name = std::max(name, row.name.size());
    type = std::max(type, row.type.size());
  }
  fmt::print("{:<{}}  {:<{}}  {:>12}  {:>12}  {:>17}  {:>10}  {}\n", "output", name, "type", type,
             "elements", "checked", "worst error ratio", "mismatches", "result");
  for (const Row& row : rows) {
    fmt::print("{:<{}}  {:<{}}  {:>12}  {:>12}  {:>17.3f}  {:>10}  {}\n", row.name, name, row.type,
               type, row.elements, row.result.checked, row.result.worst_ratio,
               row.result.mismatches, row.result.ok() ? "PASS" : "FAIL");
  }
}

// Kernels that the plan has for this size.
size_t num_kernels(const Execution& execution) {
  const Plan& plan = execution.executable->compiled().plan;
  return plan.buckets[find_bucket(plan, execution.symbol)].kernels.size();
}

Error check(const CheckOptions& options, const VerifiedChain& chain) {
  Expected<Execution> execution = prepare(chain, options);
  if (!execution) return execution.takeError();
  Expected<std::vector<Row>> rows = check_rows(chain, options, *execution);
  if (!rows) return rows.takeError();
  print_rows(*rows);
  const bool exact = compare_mode(chain, options) == CompareMode::kExact;
  if (execution->on_device()) {
    fmt::print("{} kernel(s) ran on {}; compared with the float64 reference {}\n",
               num_kernels(*execution), execution->where,
               exact ? "bit for bit" : "within its error bounds");
  } else {
    fmt::print("no kernel ran: this checked only that the reference accepts its own rounding\n");
  }
  for (const Row& row : *rows) {
    if (!row.result.ok()) {
      return make_error(ErrorCode::kMismatch, "output '{}' is wrong on {}: {}", row.name,
                        execution->where, to_string(row.result));
    }
  }
  return Error::success();
}

}  // namespace

void add_check(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<CheckOptions>();
  CLI::App* command = app.add_subcommand("check", "Run a chain and compare it with the reference");
  add_execution_options(*command, *options);
  command
      ->add_option("--samples", options->samples,
                   "Elements of each output to compare; default: all where that takes seconds, "
                   "else a sample that does")
      ->check(CLI::PositiveNumber);
  command->callback([options, &exit_code] {
    exit_code = with_chain(options->file,
                           [&](const VerifiedChain& chain) { return check(*options, chain); });
  });
}

}  // namespace catenary::tools
