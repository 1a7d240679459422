// SPDX-License-Identifier: Apache-2.0
// The oracle's maxima over labels, comparisons and select with operands of some error, and the
// derivatives of activations, written in the ops of the IR.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "ir/reference/reference_interval.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

// The first output of a chain of one f32 input x.
std::vector<Interval> evaluate(const std::string& text, llvm::ArrayRef<i64> sizes,
                               const std::vector<float>& x) {
  auto chain = parse(text);
  if (!chain) FAIL(take_report(chain.takeError()).message);
  auto verified = verify(std::move(*chain));
  if (!verified) FAIL(take_report(verified.takeError()).message);
  HostTensor tensor;
  for (i64 size : sizes) tensor.type.shape.push_back({size, false});
  tensor.data = x.data();
  auto reference = Reference::create(*verified, {{tensor}});
  if (!reference) FAIL(take_report(reference.takeError()).message);
  const auto result = reference->evaluate(1)[0];
  for (size_t i = 0; i < result.size(); ++i) {
    const Interval one = reference->output_element(0, static_cast<i64>(i));
    CHECK(one.error == result[i].error);
    CHECK((one.value == result[i].value || std::isnan(one.value)));
  }
  return result;
}

Interval apply(Op op, std::initializer_list<Interval> operands) {
  return apply_op(op, llvm::makeArrayRef(operands.begin(), operands.size()), {0, 0});
}

// The value of the elementwise expression in x.
double at(const std::string& expression, double x) {
  const auto result = evaluate("chain c(input x: f32[1]) { y = " + expression + " return y: f32 }",
                               {1}, {static_cast<float>(x)});
  return result[0].value;
}

}  // namespace

TEST_CASE("a maximum over labels: exact, NaN where an element is, -inf over nothing") {
  const std::vector<float> x = {-3, -1, -2, 7, static_cast<float>(kNan), 5};
  const std::string text =
      "chain c(input x: f32[2, 3]) { y = reduce_max \"mn->m\"(x) return y: f32 }";
  const auto rows = evaluate(text, {2, 3}, x);
  CHECK(rows[0].value == -1);
  CHECK(rows[0].error == 0);
  CHECK(std::isnan(rows[1].value));
  const auto columns = evaluate(
      "chain c(input x: f32[2, 3]) { y = reduce_max \"mn->n\"(x) return y: f32 }", {2, 3}, x);
  CHECK(columns[0].value == 7);
  CHECK(std::isnan(columns[1].value));
  CHECK(columns[2].value == 5);
  const auto none = evaluate(
      "chain c(input x: f32[0, 2]) { y = reduce_max \"mn->n\"(x) return y: f32 }", {0, 2}, {0});
  REQUIRE(none.size() == 2);
  CHECK(none[0].value == -kInf);
  CHECK(none[1].error == 0);
}

TEST_CASE("comparisons are exact, or either where errors decide") {
  CHECK(apply(Op::kLt, {{1, 0}, {2, 0.5}}).error == 0);
  CHECK(apply(Op::kLt, {{1, 0}, {2, 0.5}}).value == 1);
  CHECK(apply(Op::kLe, {{1, 0.5}, {2, 0.5}}).error == 1);
  CHECK(apply(Op::kEq, {{2, 0}, {2, 0}}).value == 1);
  CHECK(apply(Op::kEq, {{2, 0}, {2, 0}}).error == 0);
  CHECK(apply(Op::kEq, {{2, 0.25}, {2, 0}}).error == 1);
  CHECK(apply(Op::kNe, {{kNan, 0}, {kNan, 0}}).value == 1);
  CHECK(apply(Op::kGe, {{kInf, 0}, {kInf, 0}}).value == 1);
  CHECK(apply(Op::kGt, {{0, kInf}, {1, 0}}).error == 1);
}

TEST_CASE("select has the operand that it takes, with only its error") {
  const Interval taken = apply(Op::kSelect, {{1, 0.5}, {3, 0.25}, {0, kInf}});
  CHECK(taken.value == 3);
  CHECK(taken.error == 0.25);
  CHECK(apply(Op::kSelect, {{0, 0}, {kNan, 0}, {4, 0}}).value == 4);
  const Interval either = apply(Op::kSelect, {{0.25, 0.5}, {3, 0}, {5, 0.5}});
  CHECK(accepts(either, DType::kF32, 3));
  CHECK(accepts(either, DType::kF32, 5.5));
  CHECK(std::isinf(apply(Op::kSelect, {{0, 1}, {kNan, 0}, {4, 0}}).error));
}

// Equality of rounded values decides nothing, so any quotient is right.
TEST_CASE("a result without a bound has the value of its operands' values") {
  const auto shares = evaluate(
      "chain c(input x: f32[2, 3]) {\n  y = mul(x, 0.1)\n  m = reduce_max \"ab->a\"(y)\n"
      "  e = eq(y @ \"ab\", m @ \"a\")\n  n = sum \"ab->a\"(e)\n"
      "  g = div(e @ \"ab\", n @ \"a\")\n  return g: f32 }",
      {2, 3}, {1, 3, 2, 7, 5, 7});
  const std::vector<double> expected = {0, 1, 0, 0.5, 0, 0.5};
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(shares[i].value == expected[i]);
    CHECK(shares[i].error == kInf);
  }
  CHECK(apply(Op::kDiv, {{1, 0}, {0.25, 0.5}}).value == 4);
  CHECK(apply(Op::kAdd, {{1, kInf}, {2, 0}}).value == 3);
}

TEST_CASE("sin and cos of an unknown angle are between -1 and 1, roots below 0 are unknown") {
  CHECK(apply(Op::kSin, {{1, 1000}}).error < 2.001);
  CHECK(std::isinf(apply(Op::kSqrt, {{0.5, 0.5}}).error));
  CHECK(std::isnan(apply(Op::kLog, {{-1, 0.5}}).value));
  CHECK(std::isinf(apply(Op::kRecip, {{0.5, 1}}).error));
}

TEST_CASE("the derivative of every activation is an expression of ops") {
  const std::pair<const char*, const char*> kDerivatives[] = {
      {"relu(x)", "gt(x, 0)"},
      {"relu2(x)", "scale(relu(x), 2)"},
      {"leaky_relu(x, slope = 0.25)", "select(lt(x, 0), 0.25, gt(x, 0))"},
      {"clamp(x, lo = -1, hi = 2)", "mul(ge(x, -1), le(x, 2))"},
      {"abs(x)", "sub(gt(x, 0), lt(x, 0))"},
      {"gelu(x)",
       "add(scale(add(erf(scale(x, 0.7071067811865476)), 1), 0.5), "
       "mul(scale(x, 0.3989422804014327), exp(scale(square(x), -0.5))))"},
      {"gelu_tanh(x)",
       "add(sigmoid(mul(scale(x, 1.5957691216057308), add(scale(square(x), 0.044715), 1))), "
       "mul(mul(x, mul(scale(add(scale(square(x), 0.134145), 1), 1.5957691216057308), "
       "sigmoid(mul(scale(x, 1.5957691216057308), add(scale(square(x), 0.044715), 1))))), "
       "sigmoid(mul(scale(x, -1.5957691216057308), add(scale(square(x), 0.044715), 1)))))"},
      {"quick_gelu(x)",
       "mul(sigmoid(scale(x, 1.702)), add(mul(scale(x, 1.702), sigmoid(scale(x, -1.702))), 1))"},
      {"silu(x)", "mul(sigmoid(x), add(mul(x, sigmoid(neg(x))), 1))"},
      {"sigmoid(x)", "mul(sigmoid(x), sigmoid(neg(x)))"},
      {"tanh(x)", "sub(1, square(tanh(x)))"},
      {"softplus(x)", "sigmoid(x)"},
      {"exp(x)", "exp(x)"},
      {"exp2(x)", "scale(exp2(x), 0.6931471805599453)"},
      {"erf(x)", "scale(exp(neg(square(x))), 1.1283791670955126)"},
      {"square(x)", "scale(x, 2)"},
      {"pow(x, exponent = -3)", "scale(pow(x, exponent = -4), -3)"},
      {"recip(x)", "neg(square(recip(x)))"},
      {"sqrt(abs(x))", "mul(scale(rsqrt(abs(x)), 0.5), sub(gt(x, 0), lt(x, 0)))"},
      {"rsqrt(abs(x))",
       "mul(scale(pow(rsqrt(abs(x)), exponent = 3), -0.5), "
       "sub(gt(x, 0), lt(x, 0)))"},
      {"log(abs(x))", "recip(x)"},
      {"sin(x)", "cos(x)"},
      {"cos(x)", "neg(sin(x))"},
  };
  for (const auto& [function, derivative] : kDerivatives) {
    for (double x : {-2.75, -0.625, 0.375, 1.5, 3.25}) {
      CAPTURE(function);
      CAPTURE(x);
      const double h = 0x1p-12;
      const double slope = (at(function, x + h) - at(function, x - h)) / (2 * h);
      CHECK(at(derivative, x) == doctest::Approx(slope).epsilon(1e-4));
    }
  }
}

TEST_CASE("a gate that a functor flushes to 0 is accepted, a lost normal result is not") {
  const auto gelu = [](double x) { return apply_op(Op::kGelu, Interval{x, 0}, {0, 0}); };
  CHECK(std::fabs(gelu(-13.0959).value) > 0x1p-126);
  CHECK(accepts(gelu(-13.0959), DType::kF32, 0));
  CHECK_FALSE(accepts(gelu(-12.5), DType::kF32, 0));
  CHECK(gelu(-kInf).error == 0);
}
