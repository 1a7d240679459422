// SPDX-License-Identifier: Apache-2.0
// The reference: all elements if that takes seconds, else a sample.
#pragma once

#include <vector>

#include "ir/reference/reference.h"

namespace catenary::tools {

// The multiply-adds of evaluating every element; an elementwise op counts as several.
double reference_work(const VerifiedChain& chain, i64 symbol);

// The reference's values of one output.
struct Expectation {
  std::vector<i64> indices;  // the row-major index of each value; empty: all elements in order
  std::vector<Interval> values;
};

struct EvaluateOptions {
  // 0: all elements if reference_work() is at most 2e9, else at most 16384 samples, and at most 10
  // s. Positive: that many samples of each output, without a time limit.
  i64 samples = 0;
  bool all = false;  // all elements, without a time limit
  u64 seed = 1;      // of the sampled indices
};

// One Expectation per output. Samples are on rows that are spread over the output, and include its
// first and last element. kInvalidArgument: the inputs do not fit the chain.
Expected<std::vector<Expectation>> evaluate(const VerifiedChain& chain,
                                            const ReferenceInputs& inputs,
                                            const EvaluateOptions& options);

}  // namespace catenary::tools
