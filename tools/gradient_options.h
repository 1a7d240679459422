// SPDX-License-Identifier: Apache-2.0
// The options of a gradient, of `gradient` and `check --gradient`.
#pragma once

#include "ir/gradient/gradient.h"

namespace CLI {
class App;
}

namespace catenary::tools {

struct GradientChoice {
  std::vector<std::string> wanted;
  std::vector<std::string> outputs;
  std::string recompute = "none";
  i64 save_budget = -1;  // none
  bool save_f32 = false;
  bool f32_weights = false;
  bool accumulate = false;
};
void add_gradient_options(CLI::App& command, GradientChoice& choice);

// kInvalidArgument: the options exclude each other.
Expected<GradientOptions> gradient_options(const GradientChoice& choice);

// True if any option is not its default.
bool is_given(const GradientChoice& choice);

}  // namespace catenary::tools
