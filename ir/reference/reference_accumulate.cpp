// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/reference_accumulate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "ir/reference/reference_interval.h"

namespace catenary {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSubnormal = 0x1p-149;
// A product of scales that is subnormal has an error of 2^-150, and what it scales, the sum of 128
// products of fp8 (up to 57,344 each way), is less than 2^39: the error of one partial sum.
constexpr double kScaledSubnormal = 0x1p-111;

// Above this an operand of the sum may have left f32's range (2^-23 * 2^127 is 2^104).
constexpr double kOverflowSuspect = 0x1p100;

double total_error(SumRule rule, double bound, double carried, i64 terms) {
  const double n = static_cast<double>(terms);
  if (rule != SumRule::kTrueF32) {
    const SumFacts facts = sum_facts(rule);
    const double blocks = n / static_cast<double>(facts.block_terms) + 1;
    return facts.cut * bound + carried + (facts.scaled ? kScaledSubnormal : kSubnormal) * blocks;
  }
  if (n * kUnitF32 >= 1) return kInfinity;
  return n * kUnitF32 / (1 - n * kUnitF32) * (bound + carried) + carried + n * kSubnormal;
}

// Two lanes: one vector register of every 64-bit host.
using Pair = double __attribute__((vector_size(16)));
using PairBits = long long __attribute__((vector_size(16)));
constexpr int kPairs = kLanes / 2;

inline Pair magnitude(Pair x) { return (Pair)((PairBits)x & 0x7fffffffffffffff); }
inline Pair larger(Pair a, Pair b) { return a < b ? b : a; }
inline Pair load(const double* from) {
  Pair pair;
  std::memcpy(&pair, from, sizeof pair);
  return pair;
}

template <SumRule kRule, bool kErrors>
void accumulate_lanes(PackedTerms row, PackedTerms panel, i64 terms, LaneSums& sums) {
  constexpr SumFacts kFacts = sum_facts(kRule);
  constexpr bool kTrueF32 = kRule == SumRule::kTrueF32;
  constexpr i64 kBlock = kTrueF32 ? kWholeTerms : kFacts.block_terms;
  Pair sum[kPairs], bound[kPairs], carried[kPairs];
  Pair start[kPairs] = {};
  std::memcpy(sum, sums.sum, sizeof sum);
  std::memcpy(bound, sums.bound, sizeof bound);
  std::memcpy(carried, sums.carried, sizeof carried);
  for (i64 first = 0; first < terms; first += kBlock) {
    const i64 last = std::min(first + kBlock, terms);
    if constexpr (kFacts.partial_terms > 0) {
      if (first % kFacts.partial_terms == 0) std::memcpy(start, sum, sizeof start);
    }
    Pair largest[kPairs];
    for (int j = 0; j < kPairs; ++j) largest[j] = magnitude(sum[j] - start[j]);
    for (i64 k = first; k < last; ++k) {
      const double a = row.value[k];
      const double a_error = kErrors && row.error ? row.error[k] : 0;
      for (int j = 0; j < kPairs; ++j) {
        const i64 at = k * kLanes + 2 * j;
        const Pair b = load(panel.value + at);
        const Pair product = a * b;
        sum[j] += product;
        if constexpr (kTrueF32) {
          bound[j] += magnitude(product);
        } else {
          largest[j] = larger(largest[j], magnitude(product));
        }
        if constexpr (kErrors) {
          const Pair b_error = panel.error ? load(panel.error + at) : Pair{};
          carried[j] += std::fabs(a) * b_error + a_error * (magnitude(b) + b_error);
        }
      }
    }
    if constexpr (!kTrueF32) {
      for (int j = 0; j < kPairs; ++j)
        bound[j] += kFacts.share * largest[j] + magnitude(sum[j] - start[j]);
    }
    if constexpr (kFacts.partial_terms > 0) {
      if (last % kFacts.partial_terms != 0 && last != terms) continue;
      for (int j = 0; j < kPairs; ++j) {
        bound[j] += kUnitF32 / kFacts.cut * magnitude(sum[j]);
        if constexpr (kFacts.scaled)
          bound[j] += kUnitF32 / kFacts.cut * magnitude(sum[j] - start[j]);
      }
    }
  }
  std::memcpy(sums.sum, sum, sizeof sum);
  std::memcpy(sums.bound, bound, sizeof bound);
  std::memcpy(sums.carried, carried, sizeof carried);
}

template <SumRule kRule>
void accumulate_by(PackedTerms row, PackedTerms panel, i64 terms, LaneSums& sums) {
  row.error || panel.error ? accumulate_lanes<kRule, true>(row, panel, terms, sums)
                           : accumulate_lanes<kRule, false>(row, panel, terms, sums);
}

}  // namespace

SumRule sum_rule(const VerifiedChain& chain, ValueId id) {
  const Value& value = chain.value(id);
  if (value.true_f32) return SumRule::kTrueF32;
  const Value& operand = chain.value(value.operands[0].value);
  const bool scaled = operand.op == Op::kDequant;
  const ValueId stored = scaled ? operand.operands[0].value : value.operands[0].value;
  if (!is_fp8(chain.info(stored).type.dtype)) return SumRule::kTensor;
  if (scaled) return SumRule::kFp8Scaled;
  return value.fast_accum ? SumRule::kFp8Fast : SumRule::kFp8;
}

double error_beside(SumRule rule, i64 terms) {
  const SumFacts facts = sum_facts(rule);
  if (rule == SumRule::kTrueF32) return facts.cut * static_cast<double>(terms);
  // A partial sum starts from 0, and the other one is in the sum in f32.
  if (facts.partial_terms > 0)
    return kUnitF32 * static_cast<double>(ceil_div(terms, facts.partial_terms));
  return facts.cut * (facts.share + 1) * static_cast<double>(ceil_div(terms, facts.block_terms));
}

// Below 2^24 every f32 sum of integers is exact; fp8 sums keep 14 bits.
bool is_exact_sum(SumRule rule, i64 terms, double left, double right) {
  const bool fp8 = sum_facts(rule).block_terms == 32;
  const i64 partial = sum_facts(rule).partial_terms;
  const i64 in_tensor_core = partial > 0 ? std::min(terms, partial) : terms;
  const double product = left * right;
  return static_cast<double>(terms) * product <= 0x1p24 &&
         (!fp8 || static_cast<double>(in_tensor_core) * product <= 0x1p14);
}

void Accumulator::add(const Interval& left, const Interval& right) {
  const double product = left.value * right.value;
  const double magnitude = std::fabs(product);
  const bool infinite = !std::isfinite(left.value) || !std::isfinite(right.value);
  const bool blurred = (left.error > 0 && std::fabs(left.value) <= left.error) ||
                       (right.error > 0 && std::fabs(right.value) <= right.error);
  unknown_ |= std::isinf(left.error) || std::isinf(right.error) || (infinite && blurred);
  if (!infinite) {
    carried_ +=
        std::fabs(left.value) * right.error + left.error * (std::fabs(right.value) + right.error);
  }
  if (facts_.partial_terms > 0 && terms_ % facts_.partial_terms == 0) start_ = sum_;
  if (terms_ % facts_.block_terms == 0) block_ = std::fabs(sum_ - start_);
  block_ = std::max(block_, magnitude);
  sum_ += product;
  magnitudes_ += magnitude;
  if (!infinite) {
    finite_ += magnitude;
    largest_ = std::max({largest_, magnitude, std::fabs(sum_)});
  }
  if (++terms_ % facts_.block_terms == 0) close_block();
}

void Accumulator::close_block() {
  bound_ += facts_.share * block_ + std::fabs(sum_ - start_);
  if (facts_.partial_terms > 0 && terms_ % facts_.partial_terms == 0) close_partial();
}

void Accumulator::close_partial() {
  bound_ += kUnitF32 / facts_.cut * std::fabs(sum_);
  if (facts_.scaled) bound_ += kUnitF32 / facts_.cut * std::fabs(sum_ - start_);
}

Interval Accumulator::result(bool exact) {
  if (terms_ % facts_.block_terms != 0) close_block();
  if (facts_.partial_terms > 0 && terms_ % facts_.partial_terms != 0) close_partial();
  if (exact) return {sum_, 0};
  if (unknown_) return {sum_, kInfinity};
  // Beside an infinity, the finite products may overflow to the other one in some order.
  if (std::isinf(sum_)) return {sum_, finite_ >= kOverflowF32 ? kInfinity : 0};
  if (std::isnan(sum_)) return {sum_, 0};
  const bool overflows = largest_ >= kOverflowF32;
  // Unless all terms have the same sign, an intermediate overflow depends on the order.
  if (overflows && std::fabs(sum_) < 0.99 * magnitudes_) return {sum_, kInfinity};
  const double bound = rule_ == SumRule::kTrueF32 ? magnitudes_ : bound_;
  return settle_f32(sum_, total_error(rule_, bound, carried_, terms_));
}

void accumulate(SumRule rule, PackedTerms row, PackedTerms panel, i64 terms, LaneSums& sums) {
  switch (rule) {
    case SumRule::kTensor:
      return accumulate_by<SumRule::kTensor>(row, panel, terms, sums);
    case SumRule::kTrueF32:
      return accumulate_by<SumRule::kTrueF32>(row, panel, terms, sums);
    case SumRule::kFp8:
      return accumulate_by<SumRule::kFp8>(row, panel, terms, sums);
    case SumRule::kFp8Fast:
      return accumulate_by<SumRule::kFp8Fast>(row, panel, terms, sums);
    case SumRule::kFp8Scaled:
      return accumulate_by<SumRule::kFp8Scaled>(row, panel, terms, sums);
  }
}

std::optional<Interval> lane_result(SumRule rule, const LaneSums& sums, int lane, i64 terms,
                                    bool exact) {
  if (exact) return Interval{sums.sum[lane], 0};
  const double error = total_error(rule, sums.bound[lane], sums.carried[lane], terms);
  const bool plain = std::isfinite(sums.sum[lane]) && error < kOverflowSuspect &&
                     std::fabs(sums.sum[lane]) < kOverflowF32;
  if (!plain) return std::nullopt;
  return Interval{sums.sum[lane], error};
}

}  // namespace catenary
