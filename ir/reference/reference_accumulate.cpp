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
constexpr double kCut = 0x1p-23;    // of the largest magnitude, per term of a block
constexpr double kHalfBlock = 8.5;  // (16 products + the partial sum) / 2
constexpr double kSubnormal = 0x1p-149;

// Above this an operand of the sum may have left f32's range (2^-23 * 2^127 is 2^104).
constexpr double kOverflowSuspect = 0x1p100;

double total_error(bool true_f32, double bound, double carried, i64 terms) {
  const double n = static_cast<double>(terms);
  if (!true_f32) return kCut * bound + carried + kSubnormal * (n / kBlockTerms + 1);
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

template <bool kTrueF32, bool kErrors>
void accumulate_lanes(PackedTerms row, PackedTerms panel, i64 terms, LaneSums& sums) {
  Pair sum[kPairs], bound[kPairs], carried[kPairs];
  std::memcpy(sum, sums.sum, sizeof sum);
  std::memcpy(bound, sums.bound, sizeof bound);
  std::memcpy(carried, sums.carried, sizeof carried);
  for (i64 first = 0; first < terms; first += kBlockTerms) {
    const i64 last = std::min(first + kBlockTerms, terms);
    Pair largest[kPairs];
    for (int j = 0; j < kPairs; ++j) largest[j] = magnitude(sum[j]);
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
      for (int j = 0; j < kPairs; ++j) bound[j] += kHalfBlock * largest[j] + magnitude(sum[j]);
    }
  }
  std::memcpy(sums.sum, sum, sizeof sum);
  std::memcpy(sums.bound, bound, sizeof bound);
  std::memcpy(sums.carried, carried, sizeof carried);
}

}  // namespace

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
  if (terms_ % kBlockTerms == 0) block_ = std::fabs(sum_);
  block_ = std::max(block_, magnitude);
  sum_ += product;
  magnitudes_ += magnitude;
  if (!infinite) largest_ = std::max({largest_, magnitude, std::fabs(sum_)});
  if (++terms_ % kBlockTerms == 0) close_block();
}

void Accumulator::close_block() { bound_ += kHalfBlock * block_ + std::fabs(sum_); }

Interval Accumulator::result(bool exact) {
  if (terms_ % kBlockTerms != 0) close_block();
  if (exact) return {sum_, 0};
  if (unknown_) return {std::isfinite(sum_) ? sum_ : 0, kInfinity};
  const bool overflows = std::isfinite(largest_) ? largest_ >= kOverflowF32 : false;
  if (!std::isfinite(sum_)) return overflows ? Interval{0, kInfinity} : Interval{sum_, 0};
  // Unless all terms have the same sign, an intermediate overflow depends on the order.
  if (overflows && std::fabs(sum_) < 0.99 * magnitudes_) return {0, kInfinity};
  const double bound = true_f32_ ? magnitudes_ : bound_;
  return settle_f32(sum_, total_error(true_f32_, bound, carried_, terms_));
}

void accumulate(bool true_f32, PackedTerms row, PackedTerms panel, i64 terms, LaneSums& sums) {
  const bool errors = row.error || panel.error;
  if (true_f32) {
    errors ? accumulate_lanes<true, true>(row, panel, terms, sums)
           : accumulate_lanes<true, false>(row, panel, terms, sums);
  } else {
    errors ? accumulate_lanes<false, true>(row, panel, terms, sums)
           : accumulate_lanes<false, false>(row, panel, terms, sums);
  }
}

std::optional<Interval> lane_result(bool true_f32, const LaneSums& sums, int lane, i64 terms,
                                    bool exact) {
  if (exact) return Interval{sums.sum[lane], 0};
  const double error = total_error(true_f32, sums.bound[lane], sums.carried[lane], terms);
  const bool plain = std::isfinite(sums.sum[lane]) && error < kOverflowSuspect &&
                     std::fabs(sums.sum[lane]) < kOverflowF32;
  if (!plain) return std::nullopt;
  return Interval{sums.sum[lane], error};
}

}  // namespace catenary
