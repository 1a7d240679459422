// SPDX-License-Identifier: Apache-2.0
// Sums of products in float64 with the error bound of an f32 sum, one at a time or in lanes that
// the host compiler vectorises. Both forms give the same numbers.
//
// Tensor cores align the products of a k-block and the partial sum to the largest exponent and
// truncate: E = 2^-23 * sum over blocks of 16 terms of (8.5 * m + |s|), m the largest magnitude
// among the block's products and the partial sum before it, s the partial sum after it. True f32
// rounds n times: E = n u S / (1 - n u), S the sum of magnitudes, u = 2^-24.
#pragma once

#include <optional>

#include "ir/reference/reference.h"

namespace catenary {

inline constexpr i64 kBlockTerms = 16;
inline constexpr int kLanes = 8;

// The most that a step adds to the error for each unit of a partial sum that it starts with: a step
// is a block of kBlockTerms on tensor cores (8.5 m + |s| above), a term in true f32.
inline constexpr double step_error(bool true_f32) { return true_f32 ? 0x1p-24 : 9.5 * 0x1p-23; }

// The general form: also handles infinities and overflows.
class Accumulator {
 public:
  explicit Accumulator(bool true_f32) : true_f32_(true_f32) {}
  void add(const Interval& left, const Interval& right);

  // `exact`: every order of summation gives the same f32.
  Interval result(bool exact);

 private:
  void close_block();

  bool true_f32_;
  i64 terms_ = 0;
  double sum_ = 0;
  double bound_ = 0;
  double carried_ = 0;     // from the operands' errors
  double block_ = 0;       // largest magnitude of the open block
  double largest_ = 0;     // of any product or partial sum
  double magnitudes_ = 0;  // S
  bool unknown_ = false;   // an operand's error decides whether an infinity appears
};

// Partial results of kLanes adjacent columns.
struct LaneSums {
  double sum[kLanes] = {};
  double bound[kLanes] = {};
  double carried[kLanes] = {};
};

// One row's terms, or a panel's (kLanes columns innermost). `error` is null where all are exact.
struct PackedTerms {
  const double* value;
  const double* error;
};

// Adds `terms` products of a row and a panel. All calls but the last for one LaneSums take a
// multiple of kBlockTerms.
void accumulate(bool true_f32, PackedTerms row, PackedTerms panel, i64 terms, LaneSums& sums);

// One lane's interval after `terms` products, or nothing if infinities or overflows need the
// general form.
std::optional<Interval> lane_result(bool true_f32, const LaneSums& sums, int lane, i64 terms,
                                    bool exact);

}  // namespace catenary
