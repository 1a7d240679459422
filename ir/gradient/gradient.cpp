// SPDX-License-Identifier: Apache-2.0
// make_gradient(): checks the options against the chain, then reverse mode and partition.
#include "ir/gradient/gradient.h"

#include "ir/gradient/derivatives.h"
#include "ir/gradient/partition.h"
#include "ir/names.h"
#include "llvm/ADT/STLExtras.h"

namespace catenary {
namespace {

using namespace gradient;

// May a parameter of this dtype have a gradient? fp8 has too few values for one.
bool has_gradient(DType dtype) {
  return dtype_info(dtype).kind == DTypeKind::kFloat && !is_fp8(dtype);
}

Expected<std::vector<ValueId>> wanted_parameters(const VerifiedChain& chain,
                                                 const GradientOptions& options) {
  std::vector<ValueId> wanted;
  for (ValueId id : chain.parameters()) {
    const Value& value = chain.value(id);
    const bool standard = value.role != Role::kScalar && has_gradient(value.type.dtype);
    if (options.wanted.empty() ? standard : llvm::is_contained(options.wanted, value.name)) {
      wanted.push_back(id);
    }
  }
  std::vector<std::string_view> names;
  for (ValueId id : chain.parameters()) names.push_back(chain.value(id).name);
  for (const std::string& name : options.wanted) {
    if (llvm::is_contained(names, name)) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is not a parameter of chain {}{}: want the gradient of a parameter",
                      quoted(name), quoted(chain.chain().name), suggestion(name, names));
  }
  for (ValueId id : wanted) {
    if (has_gradient(chain.value(id).type.dtype)) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "parameter {} is {}, which has no gradient: leave it out of the wanted ones",
                      quoted(chain.value(id).name), dtype_text(chain.value(id).type.dtype));
  }
  return wanted;
}

Expected<std::vector<int>> chosen_outputs(const VerifiedChain& chain,
                                          const GradientOptions& options) {
  std::vector<int> chosen;
  std::vector<std::string_view> names;
  for (const Output& output : chain.chain().outputs) {
    const std::string& name = chain.value(output.value).name;
    if (options.outputs.empty() || llvm::is_contained(options.outputs, name)) {
      chosen.push_back(static_cast<int>(names.size()));
    }
    names.push_back(name);
  }
  for (const std::string& name : options.outputs) {
    if (llvm::is_contained(names, name)) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is not an output of chain {}{}: name a value that it returns",
                      quoted(name), quoted(chain.chain().name), suggestion(name, names));
  }
  return chosen;
}

Error check_options(const GradientOptions& options) {
  if (options.save_budget < 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "the budget of saved values is {} bytes: give 0 bytes or more",
                      options.save_budget);
  }
  if (options.save_budget != 0 && options.recompute != Recompute::kBudget) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a budget of {} bytes is given, and saving is not by budget: choose a budget "
                      "or leave it out",
                      options.save_budget);
  }
  return Error::success();
}

// Has operand `i` of an elementwise value a dimension for the row and one for its group?
bool is_by_row_and_group(const ValueInfo& info, size_t i) {
  return !info.operand_group.empty() && info.operand_group[i] >= 0 &&
         info.operand_dims[i][info.rows->dim] >= 0;
}

// What reverse mode has no rule for.
Error check_supported(const VerifiedChain& chain) {
  for (const Output& output : chain.chain().outputs) {
    if (output.in_place < 0) continue;
    return make_error_at(
        output.at, ErrorCode::kUnsupported,
        "output {} is in place of {}, which the backward may have to read: return it "
        "into memory of its own",
        quoted(chain.value(output.value).name), quoted(chain.value(output.in_place).name));
  }
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    const Value& value = chain.value(id);
    if (value.op == Op::kDequant) {
      return make_error_at(value.at, ErrorCode::kUnsupported,
                           "'{}' of {} has no gradient: train with the weights in bf16 or f16",
                           op_info(value.op).text, quoted(value.name));
    }
    const bool multiplies_fp8 =
        value.op == Op::kContract && llvm::all_of(value.operands, [&](const Use& use) {
          return is_fp8(chain.info(use.value).type.dtype);
        });
    if (multiplies_fp8 || (value.op == Op::kCast && is_fp8(value.type.dtype))) {
      return make_error_at(
          value.at, ErrorCode::kUnsupported,
          "'{}' of {} {} {}, which has no gradient: train in bf16 or f16", op_info(value.op).text,
          quoted(value.name), multiplies_fp8 ? "multiplies" : "rounds to",
          dtype_text(multiplies_fp8 ? chain.info(value.operands[0].value).type.dtype
                                    : value.type.dtype));
    }
    for (size_t i = 0; i < value.operands.size(); ++i) {
      if (!is_by_row_and_group(chain.info(id), i)) continue;
      return make_error_at(
          value.at, ErrorCode::kUnsupported,
          "'{}' of {} takes {} by the row and by the group of the row, which has no "
          "gradient: give it one dimension for both",
          op_info(value.op).text, quoted(value.name),
          quoted(chain.value(value.operands[i].value).name));
    }
  }
  return Error::success();
}

// The op that ends every way of a gradient to `parameter`, or nothing.
std::optional<Op> blocking_op(const VerifiedChain& chain, ValueId parameter) {
  std::vector<bool> depends(chain.num_values());
  depends[parameter] = true;
  for (ValueId id = 0; id < chain.num_values(); ++id) {
    const Value& value = chain.value(id);
    for (size_t i = 0; i < value.operands.size(); ++i) {
      if (!depends[value.operands[i].value]) continue;
      if (!is_differentiable(value.op, i)) return value.op;
      depends[id] = true;
    }
  }
  return std::nullopt;
}

// Every wanted parameter must have a gradient if the caller has named it.
Error check_reached(const VerifiedChain& chain, const GradientOptions& options,
                    const Reversed& reversed) {
  if (reversed.gradients.empty() && options.wanted.empty()) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "chain {} has no gradient: let a chosen output depend on an input or a weight "
        "other than by a comparison",
        quoted(chain.chain().name));
  }
  for (ValueId id : chain.parameters()) {
    const std::string& name = chain.value(id).name;
    if (!llvm::is_contained(options.wanted, name)) continue;
    const bool reached = llvm::any_of(reversed.gradients,
                                      [&](const auto& gradient) { return gradient.first == id; });
    if (reached) continue;
    if (const auto op = blocking_op(chain, id)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "no gradient reaches {}, because '{}' has none: leave it out of the wanted "
                        "ones",
                        quoted(name), op_info(*op).text);
    }
    return make_error(ErrorCode::kInvalidArgument,
                      "no chosen output of chain {} depends on {}: leave it out of the wanted ones",
                      quoted(chain.chain().name), quoted(name));
  }
  return Error::success();
}

}  // namespace

std::string_view gradient_kind_text(GradientKind kind) {
  switch (kind) {
    case GradientKind::kInput:
      return "input";
    case GradientKind::kWeight:
      return "weight";
    case GradientKind::kScalar:
      return "scalar";
    case GradientKind::kOutput:
      return "output";
    case GradientKind::kSaved:
      return "saved value";
    case GradientKind::kOutputGradient:
      return "output gradient";
    case GradientKind::kInputGradient:
      return "input gradient";
    case GradientKind::kWeightGradient:
      return "weight gradient";
    case GradientKind::kScalarGradient:
      return "scalar gradient";
    case GradientKind::kIntermediate:
      return "intermediate";
    case GradientKind::kAccumulator:
      return "accumulator";
  }
  return "";
}

std::string_view gradient_pass_text(GradientPass pass) {
  switch (pass) {
    case GradientPass::kForward:
      return "forward";
    case GradientPass::kBackward:
      return "backward";
    case GradientPass::kDgrad:
      return "dgrad";
    case GradientPass::kWgrad:
      return "wgrad";
  }
  return "";
}

Expected<Gradient> make_gradient(const VerifiedChain& forward, const GradientOptions& options) {
  if (Error error = check_options(options)) return error;
  if (Error error = check_supported(forward)) return error;
  Expected<std::vector<ValueId>> wanted = wanted_parameters(forward, options);
  if (!wanted) return wanted.takeError();
  Expected<std::vector<int>> outputs = chosen_outputs(forward, options);
  if (!outputs) return outputs.takeError();
  JointGraph graph(forward);
  const Reversed reversed = reverse(graph, *wanted, *outputs);
  if (Error error = check_reached(forward, options, reversed)) return error;
  return partition(graph, reversed, options);
}

}  // namespace catenary
