// SPDX-License-Identifier: Apache-2.0
// `catenary gradient`: prints the chains of a gradient and what their operands are. Compiles
// nothing.
#include <CLI/CLI.hpp>

#include "ir/counted.h"
#include "ir/text/text.h"
#include "tools/chain_file.h"
#include "tools/command.h"
#include "tools/command_tree.h"
#include "tools/gradient_options.h"
#include "tools/output.h"
#include "tuner/number_option.h"

namespace catenary::tools {
namespace {

struct GradientCommand {
  std::string file;
  GradientChoice choice;
  int chain = -1;  // all
};

llvm::json::Value operand_json(const GradientChain& part, size_t i, const std::string& symbol) {
  const GradientOperand& operand = part.operands[i];
  const size_t parameters = part.chain.parameters().size();
  const TensorType& type = i < parameters
                               ? part.chain.info(part.chain.parameters()[i]).type
                               : part.chain.output_type(static_cast<int>(i - parameters));
  llvm::json::Object object{{"name", operand.name},
                            {"kind", llvm::StringRef(gradient_kind_text(operand.kind).data())},
                            {"index", operand.index},
                            {"is_output", i >= parameters},
                            {"type", to_string(type, symbol)}};
  if (!operand.dims.empty()) {
    llvm::json::Array dims;
    for (int dim : operand.dims) dims.push_back(dim);
    object["parameter_dims"] = std::move(dims);
  }
  return object;
}

void keep_json(const Gradient& gradient) {
  llvm::json::Array chains;
  for (const GradientChain& part : gradient.chains) {
    const Chain& chain = part.chain.chain();
    llvm::json::Array operands;
    for (size_t i = 0; i < part.operands.size(); ++i) {
      operands.push_back(operand_json(part, i, chain.symbol ? chain.symbol->name : "M"));
    }
    chains.push_back(
        llvm::json::Object{{"name", chain.name},
                           {"pass", llvm::StringRef(gradient_pass_text(part.pass).data())},
                           {"text", print(chain)},
                           {"operands", std::move(operands)}});
  }
  json_result()["chains"] = std::move(chains);
  json_result()["saved_bytes"] = gradient.saved_bytes;
}

Error print_gradient(const GradientCommand& command, const VerifiedChain& chain) {
  Expected<GradientOptions> options = gradient_options(command.choice);
  if (!options) return options.takeError();
  Expected<Gradient> gradient = make_gradient(chain, *options);
  if (!gradient) return gradient.takeError();
  if (command.chain >= static_cast<int>(gradient->chains.size())) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--chain is {}, and the gradient has {}: use 0 to {}", command.chain,
                      counted(gradient->chains.size(), "chain"), gradient->chains.size() - 1);
  }
  keep_json(*gradient);
  if (command.chain >= 0) {
    out("{}", print(gradient->chains[static_cast<size_t>(command.chain)].chain.chain()));
  } else {
    out("{}\n# Saved: {} bytes\n", gradient_text(*gradient), gradient->saved_bytes);
  }
  return Error::success();
}

}  // namespace

void add_gradient(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<GradientCommand>();
  CLI::App* command = app.add_subcommand(
      "gradient", "Print the forward and backward chains of a gradient, and their operands");
  command->add_option("file", options->file, "Chain file, - for standard input")
      ->required()
      ->type_name(kChainFile);
  add_gradient_options(*command, options->choice);
  command
      ->add_option("--chain", options->chain,
                   "Print only this chain's text: 0 is the forward, 1 the dgrad, 2 the wgrad")
      ->transform(whole_number(0, 2));
  add_output_options(*command);
  command->callback([options, &exit_code] {
    exit_code = with_chain(
        options->file, [&](const VerifiedChain& chain) { return print_gradient(*options, chain); });
  });
}

}  // namespace catenary::tools
