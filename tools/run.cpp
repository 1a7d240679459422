// SPDX-License-Identifier: Apache-2.0
// `catenary run`: runs a chain once, prints a summary of its outputs, writes them to .npy files.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>

#include "ir/counted.h"
#include "ir/names.h"
#include "ir/npy.h"
#include "ir/output_file.h"
#include "ir/reference/reference_program.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/command_tree.h"
#include "tools/device_run.h"
#include "tools/evaluate.h"
#include "tools/execution.h"
#include "tools/inputs.h"
#include "tools/output.h"

namespace catenary::tools {
namespace {

struct RunOptions : ExecutionOptions {
  std::vector<std::string> outputs;
};

// Statistics of the elements that were evaluated.
struct Summary {
  i64 elements = 0;
  i64 not_finite = 0;
  double least = 0;
  double greatest = 0;
  double sum = 0;
  std::vector<double> first;

  void add(double x) {
    if (first.size() < 4) first.push_back(x);
    ++elements;
    if (!std::isfinite(x)) {
      ++not_finite;
      return;
    }
    const bool fresh = elements - not_finite == 1;
    least = fresh ? x : std::min(least, x);
    greatest = fresh ? x : std::max(greatest, x);
    sum += x;
  }
};

// By index of the output; each can be written.
struct OutputPath {
  std::string path;
  bool as_f32 = false;
};
using Paths = std::map<int, OutputPath>;

Expected<int> find_output(const VerifiedChain& chain, const std::string& name) {
  const std::vector<std::string> known = output_names(chain);
  const auto found = llvm::find(known, name);
  if (found != known.end()) return static_cast<int>(found - known.begin());
  const std::vector<std::string_view> names(known.begin(), known.end());
  return make_error(ErrorCode::kInvalidArgument,
                    "--output names {}, which is not an output of chain '{}'{}: name one of {}",
                    catenary::quoted(name), chain.chain().name, suggestion(name, names),
                    fmt::join(names, ", "));
}

// The chain and the files of inputs are not overwritten.
Error check_no_input(const RunOptions& options, const std::string& path) {
  const auto refused = [&](std::string_view what) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--output names the file {}, which is {}: give another path",
                      catenary::quoted(path), what);
  };
  if (options.file != "-" && OutputFile::same(options.file, path)) return refused("the chain");
  for (const std::string& text : options.inputs) {
    auto binding = split_binding(text, "--input");
    if (!binding) return binding.takeError();
    auto& [name, file] = *binding;
    if (auto rounds = take_conversion(file, "round", "--input"); !rounds) return rounds.takeError();
    if (OutputFile::same(file, path)) {
      return refused(fmt::format("the input of {}", catenary::quoted(name)));
    }
  }
  return Error::success();
}

Expected<Paths> output_paths(const VerifiedChain& chain, const RunOptions& options) {
  Paths paths;
  for (const std::string& text : options.outputs) {
    auto binding = split_binding(text, "--output");
    if (!binding) return binding.takeError();
    Expected<int> output = find_output(chain, binding->first);
    if (!output) return output.takeError();
    OutputPath wanted{binding->second, false};
    Expected<bool> as_f32 = take_conversion(wanted.path, "f32", "--output");
    if (!as_f32) return as_f32.takeError();
    wanted.as_f32 = *as_f32;
    for (const auto& [other, taken] : paths) {
      if (OutputFile::same(taken.path, wanted.path)) {
        return make_error(ErrorCode::kInvalidArgument,
                          "--output names the file {} twice: give each output a file of its own",
                          catenary::quoted(wanted.path));
      }
    }
    if (!paths.try_emplace(*output, wanted).second) {
      return make_error(ErrorCode::kInvalidArgument,
                        "--output names output '{}' twice: give one file for it", binding->first);
    }
    if (Error error = check_no_input(options, wanted.path)) return error;
    if (Error error = OutputFile::check(wanted.path)) return error;
  }
  return paths;
}

// The reference's values as contiguous outputs, rounded to their dtypes.
Expected<std::vector<HostOutput>> run_reference(const VerifiedChain& chain,
                                                const Execution& execution, bool all) {
  EvaluateOptions options;
  options.all = all;
  auto expected = evaluate(chain, execution.data.inputs, options);
  if (!expected) return expected.takeError();
  std::vector<HostOutput> outputs;
  for (size_t i = 0; i < expected->size(); ++i) {
    const Expectation& e = (*expected)[i];
    HostOutput output;
    output.type = with_symbol(chain.output_type(static_cast<int>(i)), execution.symbol);
    if (!e.indices.empty()) {
      output.type.shape = {Dim{static_cast<i64>(e.values.size()), false}};
    }
    output.type.strides = contiguous_strides(output.type.shape);
    const DType dtype = output.type.dtype;
    output.bytes.resize(e.values.size() * static_cast<size_t>(dtype_bytes(dtype)));
    for (size_t v = 0; v < e.values.size(); ++v) {
      store_element(dtype, output.bytes.data(), static_cast<i64>(v), e.values[v].value);
    }
    outputs.push_back(std::move(output));
  }
  return outputs;
}

// Every value of a float dtype is exact in f32.
Error write_array(const OutputPath& to, const HostOutput& output) {
  if (!to.as_f32) return write_npy(to.path, output.type, output.bytes.data());
  TensorType type = output.type;
  type.dtype = DType::kF32;
  const i64 elements = span_elements(output.type);
  std::vector<float> values(static_cast<size_t>(elements));
  for (i64 i = 0; i < elements; ++i) {
    values[static_cast<size_t>(i)] =
        static_cast<float>(load_element(output.type.dtype, output.bytes.data(), i));
  }
  return write_npy(to.path, type, values.data());
}

Summary summarise(const HostOutput& output) {
  Summary summary;
  llvm::SmallVector<i64, 4> at(output.type.rank(), 0);
  const i64 count = num_elements(output.type);
  for (i64 i = 0; i < count; ++i) {
    i64 offset = 0;
    for (size_t d = 0; d < at.size(); ++d) offset += at[d] * output.type.strides[d];
    summary.add(load_element(output.type.dtype, output.bytes.data(), offset));
    advance(output.type.shape, at);
  }
  return summary;
}

llvm::json::Value summary_json(const std::string& name, const TensorType& type, const Summary& s) {
  llvm::json::Array first;
  for (const double x : s.first) first.push_back(json_number(x));
  const i64 finite = s.elements - s.not_finite;
  const auto of_finite = [&](double x) { return json_number(finite > 0 ? x : NAN); };
  return llvm::json::Object{
      {"name", name},
      {"type", to_string(type)},
      {"elements", num_elements(type)},
      {"evaluated", s.elements},
      {"not_finite", s.not_finite},
      {"min", of_finite(s.least)},
      {"max", of_finite(s.greatest)},
      {"mean", of_finite(s.sum / static_cast<double>(std::max<i64>(finite, 1)))},
      {"first", std::move(first)}};
}

void print_summary(const std::string& name, const TensorType& type, const Summary& s) {
  out("{}: {}", name, to_string(type));
  const i64 elements = num_elements(type);
  if (s.elements != elements) out(", sampled at {} of {} elements", s.elements, elements);
  if (s.elements == 0) {
    out(", empty\n");
    return;
  }
  const i64 finite = s.elements - s.not_finite;
  if (finite == 0) {
    out("\n  none of {} is finite\n", counted(s.elements, "element"));
  } else {
    out("\n  min {:.6g}, max {:.6g}, mean {:.6g}, {} not finite\n", s.least, s.greatest,
        s.sum / static_cast<double>(finite), s.not_finite);
  }
  out("  first [{:.6g}{}]\n", fmt::join(s.first, ", "),
      s.elements > static_cast<i64>(s.first.size()) ? ", ..." : "");
}

Error run(const RunOptions& options, const VerifiedChain& chain) {
  Expected<Paths> paths = output_paths(chain, options);
  if (!paths) return paths.takeError();
  Expected<Execution> execution = prepare(chain, options);
  if (!execution) return execution.takeError();
  const VerifiedChain& ran = execution->chain;
  auto outputs = execution->on_device() ? run_on_device(*execution->executable, execution->chain,
                                                        execution->data.inputs)
                                        : run_reference(ran, *execution, !paths->empty());
  if (!outputs) return outputs.takeError();
  out("{} ran on {}\n", chain.chain().name, execution->where);
  llvm::json::Array rows;
  const std::vector<std::string> names = output_names(ran);
  for (size_t i = 0; i < outputs->size(); ++i) {
    const HostOutput& output = (*outputs)[i];
    const int number = static_cast<int>(i);
    const std::string& name = names[i];
    const TensorType type = with_symbol(ran.output_type(number), execution->symbol);
    const Summary summary = summarise(output);
    print_summary(name, type, summary);
    rows.push_back(summary_json(name, type, summary));
    const auto path = paths->find(number);
    if (path == paths->end()) continue;
    if (Error error = write_array(path->second, output)) return error;
    out("  wrote {}\n", path->second.path);
    (*rows.back().getAsObject())["file"] = json_string(path->second.path);
  }
  json_result()["outputs"] = std::move(rows);
  return Error::success();
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "Run a chain once, print a summary and write its outputs");
  add_execution_options(*command, *options);
  command
      ->add_option(
          "--output", options->outputs,
          "Write an output, name=file.npy, or name=file.npy:f32 for f32 elements; repeatable")
      ->type_name(kBinding)
      ->allow_extra_args(false);
  command->callback([options, &exit_code] {
    exit_code = with_chain(
        options->file, [&](const VerifiedChain& chain) { return run(*options, chain); },
        options->algebraic_norms);
  });
}

}  // namespace catenary::tools
