// SPDX-License-Identifier: Apache-2.0
#include "tools/gradient_options.h"

#include <CLI/CLI.hpp>

#include "tuner/number_option.h"

namespace catenary::tools {

void add_gradient_options(CLI::App& command, GradientChoice& choice) {
  command
      .add_option("--wrt", choice.wanted,
                  "Parameters whose gradients are wanted, a,b,c; default: every float input and "
                  "weight")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--of", choice.outputs, "Outputs that the loss depends on, a,b; default: all")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--recompute", choice.recompute,
                  "none: the forward saves what a contraction or a sum computes; unstored: also "
                  "the operands that it stores for its own contractions; all: it saves nothing, "
                  "and the backward computes them again")
      ->check(CLI::IsMember({"none", "unstored", "all"}))
      ->capture_default_str();
  command
      .add_option("--save-budget", choice.save_budget,
                  "The forward saves at most this many bytes, and the backward computes the rest "
                  "again")
      ->transform(whole_number(0, kMaxI64));
  command.add_flag("--save-f32", choice.save_f32,
                   "Save f32 values as f32, not in the dtype of the operands");
  command.add_flag("--f32-weights", choice.f32_weights, "Gradients of weights are f32");
  command.add_flag("--accumulate", choice.accumulate,
                   "Add gradients of weights to tensors that the caller gives");
}

Expected<GradientOptions> gradient_options(const GradientChoice& choice) {
  GradientOptions options;
  options.wanted = choice.wanted;
  options.outputs = choice.outputs;
  options.recompute = choice.recompute == "all"        ? Recompute::kAll
                      : choice.recompute == "unstored" ? Recompute::kUnstored
                                                       : Recompute::kNone;
  options.save_f32 = choice.save_f32;
  options.f32_weights = choice.f32_weights;
  options.accumulate = choice.accumulate;
  if (choice.save_budget < 0) return options;
  if (options.recompute != Recompute::kNone) {
    return make_error(
        ErrorCode::kInvalidArgument,
        "--recompute {} says what is saved, and so does --save-budget {}: give one of "
        "them",
        choice.recompute, choice.save_budget);
  }
  options.recompute = Recompute::kBudget;
  options.save_budget = choice.save_budget;
  return options;
}

bool is_given(const GradientChoice& choice) {
  return !choice.wanted.empty() || !choice.outputs.empty() || choice.recompute != "none" ||
         choice.save_budget >= 0 || choice.save_f32 || choice.f32_weights || choice.accumulate;
}

}  // namespace catenary::tools
