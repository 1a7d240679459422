// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ir/gradient/gradient.h"
#include "ir/text/text.h"

namespace catenary {
namespace {

std::string_view pass_purpose(GradientPass pass) {
  switch (pass) {
    case GradientPass::kForward:
      return "the forward, with the values that it saves";
    case GradientPass::kBackward:
      return "the gradients";
    case GradientPass::kDgrad:
      return "gradients of the inputs, and sums";
    case GradientPass::kWgrad:
      return "gradients of the weights; may run any time after the dgrad";
  }
  return "";
}

// What the operand is of; nothing where its own name says it.
std::string subject(const Gradient& gradient, const GradientOperand& operand) {
  const VerifiedChain& forward = gradient.chains[0].chain;
  switch (operand.kind) {
    case GradientKind::kInput:
    case GradientKind::kWeight:
    case GradientKind::kScalar:
    case GradientKind::kOutput:
    case GradientKind::kSaved:
    case GradientKind::kIntermediate:
      return "";
    case GradientKind::kOutputGradient:
      return " of " + forward.value(forward.chain().outputs[operand.index].value).name;
    case GradientKind::kInputGradient:
    case GradientKind::kWeightGradient:
    case GradientKind::kScalarGradient:
    case GradientKind::kAccumulator:
      return " of " + forward.value(forward.parameters()[operand.index]).name;
  }
  return "";
}

}  // namespace

std::string gradient_text(const Gradient& gradient) {
  std::string text;
  for (size_t i = 0; i < gradient.chains.size(); ++i) {
    const GradientChain& part = gradient.chains[i];
    if (i > 0) text += "\n";
    text += fmt::format("# Chain {}: {}\n", i, pass_purpose(part.pass));
    size_t width = 0;
    for (const GradientOperand& operand : part.operands)
      width = std::max(width, operand.name.size());
    const size_t parameters = part.chain.parameters().size();
    for (size_t n = 0; n < part.operands.size(); ++n) {
      const GradientOperand& operand = part.operands[n];
      text += fmt::format("# {} {:<{}}  {}{}\n", n < parameters ? "in " : "out", operand.name,
                          width, gradient_kind_text(operand.kind), subject(gradient, operand));
    }
    text += print(part.chain.chain());
  }
  return text;
}

}  // namespace catenary
