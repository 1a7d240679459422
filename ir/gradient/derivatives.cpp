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

  Term apply(Op op) const { return with(graph_->elementwise(frame_, op, {at_})); }
  Term apply(Op op, const Term& other) const {
    return with(graph_->elementwise(frame_, op, {at_, other.at_}));
  }

 private:
  Term with(Placed at) const { return {*graph_, frame_, std::move(at)}; }
  Term number(double value) const { return with(graph_->constant(value)); }

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

std::optional<Placed> taken(const Term& term) { return term.placed(); }

}  // namespace

bool is_differentiable(Op, size_t) { return true; }

Expected<std::optional<Placed>> derivative(JointGraph& graph, ValueId frame, size_t i,
                                           const Placed& gradient) {
  const Value value = graph.node(frame).value;
  const auto operand = [&](size_t n) {
    return Term(graph, frame, graph.forward_operand(frame, n));
  };
  const Term dv(graph, frame, gradient);
  const Term v(graph, frame, graph.forward_value(frame));
  const Term x = operand(0);
  switch (value.op) {
    case Op::kParameter:
    case Op::kConstant:
    case Op::kContract:
    case Op::kSum:
    case Op::kCast:
      return make_error(ErrorCode::kInternal, "value {} is not elementwise", quoted(value.name));
    case Op::kAdd:
      return taken(dv);
    case Op::kSub:
      return taken(i == 0 ? dv : -dv);
    case Op::kMul:
    case Op::kScale:
      return taken(dv * operand(1 - i));
    case Op::kDiv:
      return taken(i == 0 ? dv / operand(1) : -(dv * v / operand(1)));
    case Op::kNeg:
      return taken(-dv);
    case Op::kQuickGelu:
      return taken(dv * swish_slope(x, 1.702));
    case Op::kGeluTanh:
      return taken(dv * gelu_tanh_slope(x));
    case Op::kSilu:
      return taken(dv * swish_slope(x, 1));
    case Op::kSigmoid:
      return taken(dv * (v * (1 - v)));
    case Op::kTanh:
      return taken(dv * (1 - square(v)));
    case Op::kSoftplus:
      return taken(dv * sigmoid(x));
    case Op::kExp:
      return taken(dv * v);
    case Op::kMin:
    case Op::kMax:
    case Op::kClamp:
    case Op::kRelu:
    case Op::kRelu2:
    case Op::kLeakyRelu:
    case Op::kGelu:
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
    case Op::kLt:
    case Op::kLe:
    case Op::kGt:
    case Op::kGe:
    case Op::kEq:
    case Op::kNe:
    case Op::kSelect:
      break;
  }
  return make_error(ErrorCode::kUnsupported,
                    "value {} is a '{}', which has no gradient: leave the parameters before it out "
                    "of the wanted ones",
                    quoted(value.name), op_info(value.op).text);
}

}  // namespace catenary::gradient
