// SPDX-License-Identifier: Apache-2.0
// Compares a kernel's output with the oracle's intervals. One summary per tensor: counts, first and
// worst mismatch, and the largest share of the allowed error.
#pragma once

#include <optional>
#include <string>

#include "ir/reference/reference.h"

namespace catenary {

enum class CompareMode : u8 {
  kInterval,  // any value that accepts() accepts
  kExact,     // bit for bit round_to(dtype, value), whatever the interval's error; any NaN for NaN
};

struct Mismatch {
  i64 index = 0;  // row-major
  llvm::SmallVector<i64, 4> at;
  Interval expected;
  double got = 0;
};

struct CompareResult {
  DType dtype = DType::kF32;
  i64 checked = 0;    // all but those without a bound
  i64 unbounded = 0;  // any value is right (Interval)
  i64 mismatches = 0;
  i64 exact = 0;  // elements whose interval has error 0: compared bit for bit
  // The largest ratio over all elements with an error: the distance from the expected value to the
  // nearest value that rounds to the result, divided by the error. At most 1 if all are accepted.
  double worst_ratio = 0;
  std::optional<Mismatch> first;
  std::optional<Mismatch> worst;  // the largest distance, NaN and infinities first

  bool ok() const { return mismatches == 0; }
};

// Compares the tensor at `data` (dtype, strides and shape of `type`, no symbolic dimension) with
// `expected`. `indices`: the row-major index of each expected element; empty means that `expected`
// holds every element in order.
CompareResult compare(const TensorType& type, const void* data, llvm::ArrayRef<Interval> expected,
                      CompareMode mode = CompareMode::kInterval, llvm::ArrayRef<i64> indices = {});

// "4096 elements, 2 mismatches; first at [3, 7]: got 1.5, expected 1.25 +- 0.01; worst at ...".
std::string to_string(const CompareResult& result);

}  // namespace catenary
