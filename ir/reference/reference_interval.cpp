// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/reference_interval.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>

namespace catenary {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTiny = 0x1p-126;       // an approximate functor may flush smaller values to 0
constexpr double kSubnormal = 0x1p-149;  // a correctly rounded op has a smaller absolute error

// True if a kernel may have an infinity where this interval has a number, or any value at all.
bool uncertain(const Interval& x) {
  return std::isinf(x.error) ||
         (x.error > 0 && std::isfinite(x.value) && std::fabs(x.value) + x.error >= kOverflowF32);
}

bool may_be_zero(const Interval& x) { return x.error > 0 && std::fabs(x.value) <= x.error; }

// `carried`: how far the operands' errors move the exact result.
Interval finish(Op op, double value, double carried) {
  const OpInfo& info = op_info(op);
  if (info.error == 0 || !std::isfinite(value)) return settle_f32(value, carried);
  const bool representable = static_cast<double>(static_cast<float>(value)) == value;
  if (info.exact && carried == 0 && representable) return settle_f32(value, 0);
  const double own = info.error * kUnitF32 * (std::fabs(value) + carried);
  return settle_f32(value, carried + own + (info.exact ? kSubnormal : kTiny));
}

// The carried error of a monotone function, from its values at the interval's ends.
template <typename F>
Interval monotone(Op op, const Interval& x, F f) {
  const double value = f(x.value);
  if (x.error == 0) return finish(op, value, 0);
  return finish(
      op, value,
      std::max(std::fabs(f(x.value + x.error) - value), std::fabs(value - f(x.value - x.error))));
}

// A function with first derivative `slope` at x, |second derivative| <= 2 * bend, and
// |first derivative| <= steepest everywhere: Taylor's bound, or the mean value theorem's.
Interval smooth(Op op, const Interval& x, double value, double slope, double bend,
                double steepest) {
  if (x.error == 0) return finish(op, value, 0);
  return finish(op, value,
                std::min((std::fabs(slope) + bend * x.error) * x.error, steepest * x.error));
}

double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

// The larger, +0 above -0, NaN if either is: what max.NaN.f32 does.
double larger(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
double smaller(double a, double b) { return -larger(-a, -b); }

Interval multiply(Op op, const Interval& a, const Interval& b) {
  if ((std::isinf(a.value) && may_be_zero(b)) || (std::isinf(b.value) && may_be_zero(a))) {
    return {0, kInfinity};
  }
  const double value = a.value * b.value;
  if (!std::isfinite(a.value) || !std::isfinite(b.value)) return settle_f32(value, 0);
  return finish(op, value,
                std::fabs(a.value) * b.error + std::fabs(b.value) * a.error + a.error * b.error);
}

Interval divide(Op op, const Interval& a, const Interval& b) {
  const double value = a.value / b.value;
  if (may_be_zero(b) || (b.value == 0 && may_be_zero(a))) return {0, kInfinity};
  if (!std::isfinite(value) || !std::isfinite(b.value)) return settle_f32(value, 0);
  return finish(op, value, (a.error + std::fabs(value) * b.error) / (std::fabs(b.value) - b.error));
}

template <typename F>
Interval pick(Op op, const Interval& a, const Interval& b, F f) {
  const double value = f(a.value, b.value);
  if ((a.error == 0 && b.error == 0) || std::isnan(value)) return finish(op, value, 0);
  const double up = f(a.value + a.error, b.value + b.error) - value;
  const double down = value - f(a.value - a.error, b.value - b.error);
  if (std::isinf(value)) return settle_f32(value, 0);
  return finish(op, value, std::max(up, down));
}

Interval leaky_relu(const Interval& x, double slope) {
  const double value = x.value > 0 ? x.value : slope * x.value;
  double steepest = std::max(1.0, std::fabs(slope));
  if (x.value - x.error > 0) steepest = 1;
  if (x.value + x.error < 0) steepest = std::fabs(slope);
  return smooth(Op::kLeakyRelu, x, value, steepest, 0, steepest);
}

// A root or a logarithm: rises or falls over x >= 0, has a limit at 0, NaN below it.
template <typename F>
Interval above_zero(Op op, const Interval& x, F f) {
  if (x.value + x.error < 0) return {std::numeric_limits<double>::quiet_NaN(), 0};
  if (x.error > 0 && x.value - x.error <= 0) return {0, kInfinity};
  return monotone(op, x, f);
}

// A sine: no error moves it by more than 2.
Interval wave(Op op, const Interval& x, double value, double slope) {
  const double carried = std::min((std::fabs(slope) + 0.5 * x.error) * x.error, x.error);
  return finish(op, value, x.error == 0 ? 0 : std::min(carried, 2.0));
}

// x^n by multiplications: every power on the way to a result that f32 holds is exact as well.
bool power_is_exact(double x, int n) {
  double power = 1;
  for (int i = 0; i < n; ++i) {
    power *= x;
    if (static_cast<double>(static_cast<float>(power)) != power) return false;
  }
  return true;
}

// The integer power of pown in IEEE 754-2019: x^0 is 1 for every x.
Interval power(const Interval& x, int n) {
  const auto f = [n](double v) { return std::pow(v, n); };
  const double value = f(x.value);
  if (n == 0) return {1, 0};
  if (n < 0 && may_be_zero(x)) return {0, kInfinity};
  double carried = 0;
  if (x.error > 0 && std::isfinite(value)) {
    for (double v : {x.value - x.error, x.value + x.error, may_be_zero(x) ? 0 : x.value}) {
      carried = std::max(carried, std::fabs(f(v) - value));
    }
  }
  if (!std::isfinite(value)) return settle_f32(value, carried);
  // A reciprocal rounds unless x is a power of two; then so is the result.
  int exponent;
  const bool exact = x.error == 0 && (n > 0 ? power_is_exact(x.value, n)
                                            : std::fabs(std::frexp(x.value, &exponent)) == 0.5 &&
                                                  std::fabs(value) >= kSubnormal);
  if (exact) return settle_f32(value, 0);
  const double units = n > 0 ? n - 1 : -2 * n - 1;
  return settle_f32(value, carried + units * kUnitF32 * (std::fabs(value) + carried) + kTiny);
}

// 1 or 0. Where an error decides, either is right.
template <typename F>
Interval truth(const Interval& x, const Interval& y, F holds) {
  const double value = holds(x.value, y.value) ? 1 : 0;
  if (uncertain(x) || uncertain(y)) return {value, 1};
  const double error = x.error + y.error;
  const bool close =
      std::isfinite(x.value) && std::isfinite(y.value) && std::fabs(x.value - y.value) <= error;
  return {value, error > 0 && close ? 1.0 : 0.0};
}

Interval select(const Interval& condition, const Interval& a, const Interval& b) {
  const bool may_be_either = std::isinf(condition.error) || may_be_zero(condition);
  if (!may_be_either) return condition.value != 0 ? a : b;
  if (a.value == b.value) return {a.value, std::max(a.error, b.error)};
  const Interval& taken = condition.value != 0 ? a : b;
  const Interval& other = condition.value != 0 ? b : a;
  if (!std::isfinite(a.value) || !std::isfinite(b.value)) return {taken.value, kInfinity};
  return {taken.value, std::max(taken.error, std::fabs(a.value - b.value) + other.error)};
}

// x * gate(argument(x)): the functor rounds its argument a few times; in the tail of the gate a
// relative error of the argument is multiplied by |argument|. `sensitivity`: |x gate'(argument)
// argument|, the change per unit of relative error of the argument.
constexpr double kArgumentUnits = 4;

Interval gated(Op op, const Interval& x, double gate, double slope, double bend, double steepest,
               double sensitivity) {
  // A gate that is flushed to 0 has an error of up to 2^-126 before the multiplication by x.
  const double floor = kTiny * std::min(std::fabs(x.value), 128.0);
  if (x.value == -kInfinity) return {-0.0, 0};
  Interval result = smooth(op, x, x.value * gate, slope, bend, steepest);
  if (std::isfinite(result.value) && std::isfinite(result.error)) {
    result.error += kArgumentUnits * kUnitF32 * sensitivity + floor;
  }
  return result;
}

// x * Phi(x). erfc is accurate in the tail of negative x.
Interval gelu(const Interval& x) {
  const double z = x.value * std::numbers::sqrt2 / 2;
  const double gate = 0.5 * std::erfc(-z);
  const double tail = 0.5 * std::erfc(std::fabs(z));
  const double density = std::exp(-z * z) / std::sqrt(2 * std::numbers::pi);
  return gated(Op::kGelu, x, gate, gate + x.value * density, 0.4, 1.13,
               tail == 0 ? 0 : std::fabs(x.value) * tail * (z * z + 1));
}

// x * sigmoid(2 u), the same as x/2 * (1 + tanh(u)) without its cancellation.
Interval gelu_tanh(const Interval& x) {
  const double c = std::sqrt(2 / std::numbers::pi);
  const double argument = 2 * c * (x.value + 0.044715 * x.value * x.value * x.value);
  const double gate = sigmoid(argument);
  const double bump = gate * sigmoid(-argument);
  const double slope = gate + x.value * bump * 2 * c * (1 + 3 * 0.044715 * x.value * x.value);
  return gated(Op::kGeluTanh, x, gate, slope, 0.42, 1.14,
               bump == 0 ? 0 : std::fabs(x.value * bump * argument));
}

Interval swish(Op op, const Interval& x, double beta) {
  const double gate = sigmoid(beta * x.value);
  const double bump = gate * sigmoid(-beta * x.value);
  return gated(op, x, gate, gate + beta * x.value * bump, beta / 4, 1.1,
               bump == 0 ? 0 : std::fabs(beta * x.value * x.value * bump));
}

template <typename Round>
Interval round_interval(const Interval& x, Round round) {
  if (std::isnan(x.value)) return x;
  const double value = round(x.value);
  if (std::isinf(x.error)) return {value, kInfinity};
  if (x.error == 0 || std::isinf(x.value)) return {value, 0};
  const double low = round(x.value - x.error);
  const double high = round(x.value + x.error);
  if (low == high) return {value, 0};
  if (std::isinf(low) || std::isinf(high)) return {value, kInfinity};
  return {value, std::max(high - value, value - low)};
}

}  // namespace

Interval settle_f32(double value, double error) {
  if (!std::isfinite(error)) return {value, kInfinity};
  if (!std::isfinite(value)) return {value, 0};
  if (std::fabs(value) - error >= kOverflowF32) return {std::copysign(kInfinity, value), 0};
  return {value, error};
}

namespace {

// Ops whose result may be known although an operand is not. Nothing: another op.
std::optional<Interval> apply_predicate(Op op, llvm::ArrayRef<Interval> operands) {
  switch (op) {
    case Op::kLt:
      return truth(operands[0], operands[1], std::less<>());
    case Op::kLe:
      return truth(operands[0], operands[1], std::less_equal<>());
    case Op::kGt:
      return truth(operands[0], operands[1], std::greater<>());
    case Op::kGe:
      return truth(operands[0], operands[1], std::greater_equal<>());
    case Op::kEq:
      return truth(operands[0], operands[1], std::equal_to<>());
    case Op::kNe:
      return truth(operands[0], operands[1], std::not_equal_to<>());
    case Op::kSelect:
      return select(operands[0], operands[1], operands[2]);
    default:
      return std::nullopt;
  }
}

// Roots, powers, logarithm, error function, sine, cosine.
Interval apply_math(Op op, const Interval& x, const double (&attributes)[2]) {
  switch (op) {
    case Op::kAbs:
      return {std::fabs(x.value), x.error};
    case Op::kSquare:
      return multiply(op, x, x);
    case Op::kSqrt:
      return above_zero(op, x, [](double v) { return std::sqrt(v); });
    case Op::kRsqrt:
      return above_zero(op, x, [](double v) { return 1 / std::sqrt(v); });
    case Op::kRecip:
      return divide(op, {1, 0}, x);
    case Op::kPow:
      return power(x, static_cast<int>(attributes[0]));
    case Op::kExp2: {
      if (std::exp2(x.value - x.error) >= kOverflowF32) return {kInfinity, 0};
      const double e = std::exp2(x.value);
      return finish(op, e, x.error == 0 ? 0 : e * std::expm1(x.error * std::numbers::ln2));
    }
    case Op::kLog:
      return above_zero(op, x, [](double v) { return std::log(v); });
    case Op::kErf: {
      const double slope = 2 / std::sqrt(std::numbers::pi) * std::exp(-x.value * x.value);
      return smooth(op, x, std::erf(x.value), slope, 0.49, 1.13);
    }
    case Op::kSin:
      return wave(op, x, std::sin(x.value), std::cos(x.value));
    case Op::kCos:
      return wave(op, x, std::cos(x.value), std::sin(x.value));
    default:
      return {0, kInfinity};
  }
}

// Where the error is infinite, the value means nothing.
Interval apply_bounded(Op op, llvm::ArrayRef<Interval> operands, const double (&attributes)[2]) {
  if (const auto result = apply_predicate(op, operands)) return *result;
  for (const Interval& operand : operands) {
    if (uncertain(operand)) return {0, kInfinity};
  }
  const Interval x = operands.empty() ? Interval{} : operands[0];
  const Interval y = operands.size() < 2 ? Interval{} : operands[1];
  switch (op) {
    case Op::kParameter:
    case Op::kContract:
    case Op::kSum:
    case Op::kReduceMax:
    case Op::kCast:
    case Op::kDequant:
      return x;
    case Op::kConstant:
      return {static_cast<float>(attributes[0]), 0};
    case Op::kAdd:
      return finish(op, x.value + y.value, x.error + y.error);
    case Op::kSub:
      return finish(op, x.value - y.value, x.error + y.error);
    case Op::kMul:
    case Op::kScale:
      return multiply(op, x, y);
    case Op::kDiv:
      return divide(op, x, y);
    case Op::kMin:
      return pick(op, x, y, smaller);
    case Op::kMax:
      return pick(op, x, y, larger);
    case Op::kNeg:
      return {-x.value, x.error};
    case Op::kClamp: {
      const double lo = static_cast<float>(attributes[0]);
      const double hi = static_cast<float>(attributes[1]);
      return monotone(op, x, [&](double v) { return smaller(larger(v, lo), hi); });
    }
    case Op::kRelu:
      return monotone(op, x, [](double v) { return larger(v, 0); });
    case Op::kRelu2:
      return monotone(op, x, [](double v) { return larger(v, 0) * larger(v, 0); });
    case Op::kLeakyRelu:
      return leaky_relu(x, static_cast<float>(attributes[0]));
    case Op::kGelu:
      return gelu(x);
    case Op::kGeluTanh:
      return gelu_tanh(x);
    case Op::kQuickGelu:
      return swish(op, x, 1.702);
    case Op::kSilu:
      return swish(op, x, 1);
    case Op::kSigmoid: {
      const double s = sigmoid(x.value);
      return smooth(op, x, s, s * sigmoid(-x.value), 0.05, 0.25);
    }
    case Op::kTanh: {
      const double t = std::tanh(x.value);
      return smooth(op, x, t, 1 - t * t, 0.39, 1);
    }
    case Op::kSoftplus:
      return smooth(op, x, larger(x.value, 0) + std::log1p(std::exp(-std::fabs(x.value))),
                    sigmoid(x.value), 0.125, 1);
    case Op::kExp: {
      const double e = std::exp(x.value);
      if (std::exp(x.value - x.error) >= kOverflowF32) return {kInfinity, 0};
      return finish(op, e, x.error == 0 ? 0 : e * std::expm1(x.error));
    }
    case Op::kAbs:
    case Op::kSquare:
    case Op::kSqrt:
    case Op::kRsqrt:
    case Op::kRecip:
    case Op::kPow:
    case Op::kExp2:
    case Op::kLog:
    case Op::kErf:
    case Op::kSin:
    case Op::kCos:
      return apply_math(op, x, attributes);
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
    case Op::kEq:
    case Op::kNe:
    case Op::kSelect:
      break;  // apply_predicate() gave the result
  }
  return {0, kInfinity};
}

}  // namespace

Interval apply_op(Op op, llvm::ArrayRef<Interval> operands, const double (&attributes)[2]) {
  const Interval bounded = apply_bounded(op, operands, attributes);
  if (!std::isinf(bounded.error)) return bounded;
  llvm::SmallVector<Interval, 3> exact(operands.begin(), operands.end());
  for (Interval& operand : exact) operand.error = 0;
  return {apply_bounded(op, exact, attributes).value, kInfinity};
}

Interval cast_interval(DType dtype, const Interval& operand) {
  return round_interval(operand, [&](double v) { return round_to(dtype, v); });
}

Interval tf32_interval(const Interval& operand) {
  const auto rounded = [&](bool ties_to_even) {
    return round_interval(operand, [&](double v) { return round_to_tf32(v, ties_to_even); });
  };
  const Interval away = rounded(false);
  const Interval even = rounded(true);
  if (std::isinf(even.error)) return even;
  if (std::isinf(away.error) || !std::isfinite(away.value)) return away;
  if (away.value == even.value && away.error == even.error) return away;
  const double low = std::min(away.value - away.error, even.value - even.error);
  const double high = std::max(away.value + away.error, even.value + even.error);
  return {(low + high) / 2, (high - low) / 2};
}

Interval either_interval(const Interval& written, const Interval& other) {
  if (std::isnan(written.value) && std::isnan(other.value)) return written;
  if (written.value == other.value) return {written.value, std::max(written.error, other.error)};
  if (!std::isfinite(written.value) || !std::isfinite(other.value))
    return {written.value, kInfinity};
  const double away = std::fabs(written.value - other.value) + other.error;
  return {written.value, std::max(written.error, away)};
}

Interval sum_interval(double sum, double magnitudes, double errors, i64 terms, bool integers) {
  if (integers && magnitudes <= 0x1p24) return {sum, 0};
  if (std::isnan(sum)) return settle_f32(sum, std::isfinite(errors) ? 0 : kInfinity);
  // Beside an infinity, the finite terms may overflow to the other one in some order.
  if (std::isinf(sum)) {
    const bool sure = std::isfinite(errors) && magnitudes + errors < kOverflowF32;
    return settle_f32(sum, sure ? 0 : kInfinity);
  }
  // A partial sum may overflow f32, unless all terms have the same sign.
  if (magnitudes + errors >= kOverflowF32 && std::fabs(sum) < 0.99 * magnitudes) {
    return {sum, kInfinity};
  }
  const double steps = static_cast<double>(terms) * kUnitF32;
  if (steps >= 1) return {sum, kInfinity};
  return settle_f32(sum, steps / (1 - steps) * (magnitudes + errors) + errors +
                             static_cast<double>(terms) * kSubnormal);
}

}  // namespace catenary
