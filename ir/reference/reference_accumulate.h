// SPDX-License-Identifier: Apache-2.0
// Sums of products in float64 with the error bound of an f32 sum, one at a time or in lanes that
// the host compiler vectorises. Both forms give the same numbers.
//
// Tensor cores align the products of a k-block and the partial sum to the largest exponent and
// truncate: E = cut * sum over blocks of (share * m + |s|), m the largest magnitude among the
// block's products and the partial sum before it, s the partial sum after it.
//   16 bits, tf32  blocks of 16 terms, cut 2^-23, share 8.5 = (16 products + the partial sum) / 2
//   fp8            blocks of 32 terms, cut 2^-13, share 33: each operand of the sum loses less than
//                  2^-13 m, and the sum is truncated to 13 fraction bits (simulator/model/matrix.h)
// fp8 sums of 128 terms start from 0 and are added to a sum in f32, which costs 2^-24 of it; fast
// ones do not. With scales per block, each is first multiplied by the product of two scales, which
// is rounded to f32: that costs 2^-24 of it, or 2^-125 where the product is subnormal. True f32
// rounds n times: E = n u S / (1 - n u), S the sum of magnitudes, u = 2^-24.
#pragma once

#include <optional>

#include "ir/reference/reference.h"

namespace catenary {

// How a contraction is summed.
enum class SumRule { kTensor, kTrueF32, kFp8, kFp8Fast, kFp8Scaled };

// What a rule says: terms of a block, the cut, its share, terms of a partial sum (0: all), and
// whether partial sums are scaled.
struct SumFacts {
  i64 block_terms;
  double cut;
  double share;
  i64 partial_terms;
  bool scaled = false;
};
inline constexpr SumFacts sum_facts(SumRule rule) {
  switch (rule) {
    case SumRule::kTensor:
      return {16, 0x1p-23, 8.5, 0};
    case SumRule::kTrueF32:
      return {1, 0x1p-24, 0, 0};
    case SumRule::kFp8:
      return {32, 0x1p-13, 33, 128};
    case SumRule::kFp8Fast:
      return {32, 0x1p-13, 33, 0};
    case SumRule::kFp8Scaled:
      return {32, 0x1p-13, 33, 128, true};
  }
  return {};
}

inline constexpr int kLanes = 8;

// What accumulate() takes a multiple of, with any rule.
inline constexpr i64 kWholeTerms = 128;

// The rule of contraction `id`.
SumRule sum_rule(const VerifiedChain& chain, ValueId id);

// The most that `terms` terms add to the error for each unit of another sum in their accumulator.
double error_beside(SumRule rule, i64 terms);

// Whether every order of summation is exact: integers of at most these magnitudes.
bool is_exact_sum(SumRule rule, i64 terms, double left, double right);

// The general form: also handles infinities and overflows.
class Accumulator {
 public:
  explicit Accumulator(SumRule rule) : rule_(rule), facts_(sum_facts(rule)) {}
  void add(const Interval& left, const Interval& right);

  // `exact`: every order of summation gives the same f32.
  Interval result(bool exact);

 private:
  void close_block();
  void close_partial();

  SumRule rule_;
  SumFacts facts_;
  i64 terms_ = 0;
  double sum_ = 0;
  double start_ = 0;  // of the partial sum
  double bound_ = 0;
  double carried_ = 0;     // from the operands' errors
  double block_ = 0;       // largest magnitude of the open block
  double largest_ = 0;     // of any product or partial sum
  double magnitudes_ = 0;  // S
  double finite_ = 0;      // the same of the finite products
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
// multiple of kWholeTerms.
void accumulate(SumRule rule, PackedTerms row, PackedTerms panel, i64 terms, LaneSums& sums);

// One lane's interval after `terms` products, or nothing if infinities or overflows need the
// general form.
std::optional<Interval> lane_result(SumRule rule, const LaneSums& sums, int lane, i64 terms,
                                    bool exact);

}  // namespace catenary
