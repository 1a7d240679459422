// SPDX-License-Identifier: Apache-2.0
// The gradient of a chain against central differences of the float64 reference.
#pragma once

#include <optional>
#include <string>

#include "ir/gradient/gradient.h"

namespace catenary {

// The same chain with every tensor, cast and output in f32, products in f32, no output in place.
Chain f32_chain(const Chain& chain);

// The same chain without a rounding: tensors and outputs are f32, products are in f32, and a cast
// is a neg. Where an operand must be positive or apart from 0 (a denominator, the argument of log),
// it becomes softplus(x) + 0.5. So the reference computes a function of real numbers, smooth but
// for corners.
Chain smooth_chain(const Chain& chain);

struct GradientCheck {
  int checked = 0;                   // parameters that were compared
  int unsettled = 0;                 // parameters at which the differences do not converge
  std::optional<std::string> wrong;  // the first mismatch
};

// Evaluates the chains of `gradient` on seeded data and, per parameter, compares the derivative in
// a random direction with (L(p + h d) - L(p - h d)) / 2h, L the sum of outputs times output
// gradients, for up to four steps h. A step is right if the two agree, so that a corner between
// p - h d and p + h d needs a smaller one. `chain` is smooth and `gradient` saves f32.
GradientCheck check_gradient(const VerifiedChain& chain, const Gradient& gradient, i64 symbol,
                             u64 seed);

}  // namespace catenary
