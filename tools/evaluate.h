// SPDX-License-Identifier: Apache-2.0
// The reference, whole where that takes seconds and by samples where it would take minutes.
#pragma once

#include <vector>

#include "ir/reference/reference.h"

namespace catenary::tools {

// Multiply-adds that evaluating every element takes, elementwise work included at its own weight.
double reference_work(const VerifiedChain& chain, i64 symbol);

// What the reference says of one output.
struct Expectation {
  std::vector<i64> indices;  // row-major, of each value; empty: every element in order
  std::vector<Interval> values;
};

struct EvaluateOptions {
  // 0: all elements where reference_work is at most 2e9, else as many samples as fit 10 s, 16384 at
  // most. Positive: that many samples of each output, however long it takes.
  i64 samples = 0;
  bool all = false;  // all elements, however long it takes
  u64 seed = 1;      // of the samples' places
};

// One Expectation per output. Samples lie on rows spread over the whole output, its first and last
// element among them. kInvalidArgument when the inputs do not fit the chain.
Expected<std::vector<Expectation>> evaluate(const VerifiedChain& chain,
                                            const ReferenceInputs& inputs,
                                            const EvaluateOptions& options);

}  // namespace catenary::tools
