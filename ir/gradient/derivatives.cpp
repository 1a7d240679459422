// SPDX-License-Identifier: Apache-2.0
// Closed forms that use the value itself (v) or its operand (x), whichever needs the fewer
// operations and loses no digits. Where a function has a corner or a tie, the rule is PyTorch's.
#include "ir/gradient/derivatives.h"

#include <cmath>
#include <numbers>

#include "ir/names.h"

namespace catenary::gradient {
namespace {

// A value in the frame of the op, or a number; formulas below read as in print. Multiplying by 1
// and adding 0 give the other operand.
class Term {
 public:
  Term(JointGraph& graph, ValueId frame, Placed at)
      : graph_(&graph), frame_(frame), at_(std::move(at)) {}

  const Placed& placed() const { return at_; }

  friend Term operator+(const Term& a, const Term& b) { return a.apply(Op::kAdd, b); }
  friend Term operator-(const Term& a, const Term& b) { return a.apply(Op::kSub, b); }
  friend Term operator*(const Term& a, const Term& b) { return a.apply(Op::kMul, b); }
  friend Term operator/(const Term& a, const Term& b) { return a.apply(Op::kDiv, b); }
  friend Term operator+(double a, const Term& b) { return a == 0 ? b : b.number(a) + b; }
  friend Term operator-(double a, const Term& b) { return b.number(a) - b; }
  friend Term operator*(double a, const Term& b) { return a == 1 ? b : b.number(a) * b; }
  friend Term operator-(const Term& a) { return a.apply(Op::kNeg); }

  Term apply(Op op, llvm::ArrayRef<double> attributes = {}) const {
    return with(graph_->elementwise(frame_, op, {at_}, attributes));
  }
  Term apply(Op op, const Term& other) const {
    return with(graph_->elementwise(frame_, op, {at_, other.at_}));
  }

  // `a` where this is not 0, else `b`. A value that is not taken has no effect, even if infinite.
  Term choose(const Term& a, const Term& b) const {
    return with(graph_->elementwise(frame_, Op::kSelect, {at_, a.at_, b.at_}));
  }
  Term number(double value) const { return with(graph_->constant(value)); }

 private:
  Term with(Placed at) const { return {*graph_, frame_, std::move(at)}; }

  JointGraph* graph_;
  ValueId frame_;
  Placed at_;
};

Term square(const Term& x) { return x * x; }
Term sigmoid(const Term& x) { return x.apply(Op::kSigmoid); }

// d/dx of x * sigmoid(beta x).
Term swish_slope(const Term& x, double beta) {
  const Term gate = sigmoid(beta * x);
  return gate * (1 + beta * x * (1 - gate));
}

// d/dx of x * sigmoid(2 u), u = c (x + 0.044715 x^3), c = sqrt(2 / pi): the same function as
// 0.5 x (1 + tanh(u)) without its cancellation.
Term gelu_tanh_slope(const Term& x) {
  constexpr double kCubic = 0.044715;
  const double c = std::sqrt(2 / std::numbers::pi);
  const Term squared = square(x);
  const Term gate = sigmoid(2 * c * x * (1 + kCubic * squared));
  return gate * (1 + 2 * c * x * (1 - gate) * (1 + 3 * kCubic * squared));
}

// d/dx of x Phi(x): Phi(x) + x phi(x).
Term gelu_slope(const Term& x) {
  const double root = std::sqrt(0.5);
  const double density = 1 / std::sqrt(2 * std::numbers::pi);
  return 0.5 * (1 + (root * x).apply(Op::kErf)) + density * x * (-0.5 * square(x)).apply(Op::kExp);
}

// n x^(n - 1) for a whole number n. Nothing for x^0; x^-65 is not an op.
std::optional<Term> power_slope(const Term& x, const Term& v, double n) {
  if (n == 0) return std::nullopt;
  if (n == 1) return x.number(1);
  if (n == 2) return 2 * x;
  if (n == -64) return n * (v / x);
  return n * x.apply(Op::kPow, {n - 1});
}

// What reaches one of two operands, which is taken unless a > b; half of it if they are equal.
Term of_smaller(const Term& a, const Term& b, const Term& dv) {
  const Term zero = dv.number(0);
  return a.apply(Op::kGt, b).choose(zero, a.apply(Op::kEq, b).choose(0.5 * dv, dv));
}

// `operands`: those of the op; `v`: its value; `dv`: the gradient of the value.
struct Site {
  const Value& value;
  llvm::SmallVector<Term, 3> operands;
  Term v, dv;
};

// What operand `i` of an op with several has.
std::optional<Term> of_several(const Site& site, size_t i) {
  const Term& dv = site.dv;
  const auto zero = [&] { return dv.number(0); };
  const Term& own = site.operands[i];
  const Term& other = site.operands[i == 0 ? 1 : 0];
  switch (site.value.op) {
    case Op::kAdd:
      return dv;
    case Op::kSub:
      return i == 0 ? dv : -dv;
    case Op::kMul:
    case Op::kScale:
      return dv * other;
    case Op::kDiv:
      return i == 0 ? dv / other : -(dv * site.v / own);
    case Op::kMin:
      return of_smaller(own, other, dv);
    case Op::kMax:
      return of_smaller(other, own, dv);
    case Op::kSelect:
      return i == 1 ? other.choose(dv, zero()) : other.choose(zero(), dv);
    default:
      return std::nullopt;
  }
}

// The slope of a smooth activation.
std::optional<Term> activation_slope(const Site& site) {
  const Term& x = site.operands[0];
  const Term& v = site.v;
  switch (site.value.op) {
    case Op::kRelu2:
      return 2 * x.apply(Op::kRelu);
    case Op::kGelu:
      return gelu_slope(x);
    case Op::kGeluTanh:
      return gelu_tanh_slope(x);
    case Op::kQuickGelu:
      return swish_slope(x, 1.702);
    case Op::kSilu:
      return swish_slope(x, 1);
    case Op::kSigmoid:
      return v * (1 - v);
    case Op::kTanh:
      return 1 - square(v);
    case Op::kSoftplus:
      return sigmoid(x);
    default:
      return std::nullopt;
  }
}

// The slope of a root, a power, an exponential or trigonometric function.
std::optional<Term> function_slope(const Site& site) {
  const Term& x = site.operands[0];
  const Term& v = site.v;
  switch (site.value.op) {
    case Op::kExp:
      return v;
    case Op::kExp2:
      return std::numbers::ln2 * v;
    case Op::kErf:
      return 2 / std::sqrt(std::numbers::pi) * (-square(x)).apply(Op::kExp);
    case Op::kSquare:
      return 2 * x;
    case Op::kRsqrt:
      return -0.5 * (square(v) * v);
    case Op::kRecip:
      return -square(v);
    case Op::kPow:
      return power_slope(x, v, site.value.attributes[0]);
    case Op::kSin:
      return x.apply(Op::kCos);
    case Op::kCos:
      return -x.apply(Op::kSin);
    default:
      return std::nullopt;
  }
}

// Ops with a corner, whose gradient is chosen, not multiplied; and quotients.
std::optional<Term> of_corner(const Site& site) {
  const Term& x = site.operands[0];
  const Term& dv = site.dv;
  const auto zero = [&] { return dv.number(0); };
  switch (site.value.op) {
    case Op::kNeg:
      return -dv;
    case Op::kAbs:
      return x.apply(Op::kGt, zero()).choose(dv, x.apply(Op::kLt, zero()).choose(-dv, zero()));
    case Op::kRelu:
      return site.v.apply(Op::kLe, zero()).choose(zero(), dv);
    case Op::kLeakyRelu:
      return x.apply(Op::kGt, zero()).choose(dv, site.value.attributes[0] * dv);
    case Op::kClamp:
      // Not where x equals v: one of them may be computed again from rounded values.
      return x.apply(Op::kGe, dv.number(site.value.attributes[0]))
          .choose(x.apply(Op::kLe, dv.number(site.value.attributes[1])).choose(dv, zero()), zero());
    case Op::kSqrt:
      return dv / (2 * site.v);
    case Op::kLog:
      return dv / x;
    default:
      return std::nullopt;
  }
}

std::optional<Term> product(const Term& dv, const std::optional<Term>& slope) {
  return slope ? std::optional<Term>(dv * *slope) : std::nullopt;
}

// Every op is here: a new one without a rule does not compile.
std::optional<Term> rule(const Site& site, size_t i) {
  switch (site.value.op) {
    case Op::kParameter:
    case Op::kConstant:
    case Op::kContract:
    case Op::kSum:
    case Op::kReduceMax:
    case Op::kCast:     // these six: reverse.cpp
    case Op::kDequant:  // refused before (gradient.cpp)
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
    case Op::kEq:
    case Op::kNe:
      return std::nullopt;
    case Op::kAdd:
    case Op::kSub:
    case Op::kMul:
    case Op::kScale:
    case Op::kDiv:
    case Op::kMin:
    case Op::kMax:
    case Op::kSelect:
      return of_several(site, i);
    case Op::kNeg:
    case Op::kAbs:
    case Op::kRelu:
    case Op::kLeakyRelu:
    case Op::kClamp:
    case Op::kSqrt:
    case Op::kLog:
      return of_corner(site);
    case Op::kRelu2:
    case Op::kGelu:
    case Op::kGeluTanh:
    case Op::kQuickGelu:
    case Op::kSilu:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kSoftplus:
      return product(site.dv, activation_slope(site));
    case Op::kExp:
    case Op::kExp2:
    case Op::kErf:
    case Op::kSquare:
    case Op::kRsqrt:
    case Op::kRecip:
    case Op::kPow:
    case Op::kSin:
    case Op::kCos:
      return product(site.dv, function_slope(site));
  }
  return std::nullopt;
}

}  // namespace

bool is_differentiable(Op op, size_t i) {
  switch (op) {
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
    case Op::kEq:
    case Op::kNe:
      return false;
    case Op::kSelect:
      return i > 0;
    default:
      return true;
  }
}

std::optional<Placed> derivative(JointGraph& graph, ValueId frame, size_t i,
                                 const Placed& gradient) {
  const Value value = graph.node(frame).value;
  const auto term = [&](Placed at) { return Term(graph, frame, std::move(at)); };
  Site site{value, {}, term(graph.forward_value(frame)), term(gradient)};
  for (size_t n = 0; n < value.operands.size(); ++n) {
    site.operands.push_back(term(graph.forward_operand(frame, n)));
  }
  const std::optional<Term> passed = rule(site, i);
  return passed ? std::optional<Placed>(passed->placed()) : std::nullopt;
}

}  // namespace catenary::gradient
