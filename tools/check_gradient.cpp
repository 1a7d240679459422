// SPDX-License-Identifier: Apache-2.0
#include "tools/check_gradient.h"

#include "tools/device_run.h"
#include "tools/evaluate.h"
#include "tools/files.h"

namespace catenary::tools {
namespace {

// All elements: the next chains need them.
Expected<std::vector<Expectation>> expected_of(const VerifiedChain& chain,
                                               const ReferenceInputs& inputs) {
  EvaluateOptions options;
  options.all = true;
  return evaluate(chain, inputs, options);
}

}  // namespace

Expected<GradientExecution> load_gradient(const ExecutionOptions& options,
                                          const GradientOptions& gradient, Execution& execution) {
  Expected<Gradient> made = make_gradient(execution.chain, gradient);
  if (!made) return made.takeError();
  GradientExecution result{std::move(*made), {}};
  for (const GradientChain& part : result.gradient.chains) {
    ExecutionOptions own = options;
    if (!options.dump.empty()) {  // a folder per chain
      own.dump = options.dump + "/" + part.chain.chain().name;
      if (Error error = prepare_folder(own.dump)) return error;
    }
    auto executable = load_chain(part.chain, own, execution);
    if (!executable) return executable.takeError();
    if (*executable) result.executables.push_back(std::move(*executable));
  }
  return result;
}

Expected<std::vector<GradientRow>> check_gradient_rows(const GradientExecution& execution,
                                                       GradientTensors& tensors) {
  std::vector<GradientRow> rows;
  for (size_t c = 0; c < execution.gradient.chains.size(); ++c) {
    const GradientChain& part = execution.gradient.chains[c];
    const ReferenceInputs inputs = tensors.inputs(c);
    auto expected = expected_of(part.chain, inputs);
    if (!expected) return expected.takeError();
    std::vector<HostOutput> outputs;
    if (!execution.executables.empty()) {
      auto run = run_on_device(*execution.executables[c], part.chain, inputs);
      if (!run) return run.takeError();
      outputs = std::move(*run);
    }
    for (size_t i = 0; i < expected->size(); ++i) {
      const std::vector<Interval>& values = (*expected)[i].values;
      const GradientOperand& operand = part.operands[part.chain.parameters().size() + i];
      const TensorType type =
          with_symbol(part.chain.output_type(static_cast<int>(i)), inputs.symbol);
      if (outputs.empty()) {
        tensors.keep(c, i, values);
      } else {
        tensors.keep(c, i, std::move(outputs[i].bytes));
      }
      rows.push_back({part.chain.chain().name, operand.name, to_string(type),
                      std::string(gradient_kind_text(operand.kind)), num_elements(type),
                      compare(type, tensors.bytes(operand.kind, operand.index).data(), values)});
    }
  }
  return rows;
}

}  // namespace catenary::tools
