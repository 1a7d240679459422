// SPDX-License-Identifier: Apache-2.0
// Every functor of templates/epilogue on the host shims, over all of f32: against the oracle's
// intervals, against its bound in ops.def in long double, and at special values.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "epilogue/ops.cuh"
#include "ir/random/random.h"
#include "ir/reference/reference_interval.h"

namespace catenary {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr double kPi = 3.14159265358979323846;

float as_float(u32 bits) { return std::bit_cast<float>(bits); }
u32 as_bits(float v) { return std::bit_cast<u32>(v); }

// A functor with three operands and its attributes.
using Functor = std::function<float(float, float, float)>;

struct Sample {
  Op op;
  Functor apply;
  double attributes[2] = {0, 0};
};

#define UNARY(op, name)                                               \
  {                                                                   \
    Op::op, [](float x, float, float) { return op_##name::apply(x); } \
  }
#define BINARY(op, name)                                                   \
  {                                                                        \
    Op::op, [](float x, float y, float) { return op_##name::apply(x, y); } \
  }

std::vector<Sample> samples() {
  std::vector<Sample> list = {
      BINARY(kAdd, add),
      BINARY(kSub, sub),
      BINARY(kMul, mul),
      BINARY(kDiv, div),
      BINARY(kMin, min),
      BINARY(kMax, max),
      BINARY(kScale, scale),
      UNARY(kNeg, neg),
      {Op::kClamp, [](float x, float, float) { return op_clamp::apply(x, -1.5f, 2); }, {-1.5, 2}},
      UNARY(kRelu, relu),
      UNARY(kRelu2, relu2),
      {Op::kLeakyRelu,
       [](float x, float, float) { return op_leaky_relu::apply(x, 0.25f); },
       {0.25}},
      UNARY(kGelu, gelu),
      UNARY(kGeluTanh, gelu_tanh),
      UNARY(kQuickGelu, quick_gelu),
      UNARY(kSilu, silu),
      UNARY(kSigmoid, sigmoid),
      UNARY(kTanh, tanh),
      UNARY(kSoftplus, softplus),
      UNARY(kExp, exp),
      UNARY(kAbs, abs),
      UNARY(kSquare, square),
      UNARY(kSqrt, sqrt),
      UNARY(kRsqrt, rsqrt),
      UNARY(kRecip, recip),
      UNARY(kExp2, exp2),
      UNARY(kLog, log),
      UNARY(kErf, erf),
      UNARY(kSin, sin),
      UNARY(kCos, cos),
      BINARY(kLt, lt),
      BINARY(kLe, le),
      BINARY(kGt, gt),
      BINARY(kGe, ge),
      BINARY(kEq, eq),
      BINARY(kNe, ne),
      {Op::kSelect, [](float x, float y, float z) { return op_select::apply(x, y, z); }},
  };
  for (int n : {-64, -63, -3, -2, -1, 0, 1, 2, 3, 5, 7, 31, 64}) {
    const auto exponent = static_cast<float>(n);
    list.push_back({Op::kPow,
                    [exponent](float x, float, float) { return op_pow::apply(x, exponent); },
                    {static_cast<double>(n)}});
  }
  return list;
}

#undef UNARY
#undef BINARY

// Special values, then every exponent of both signs with `per_exponent` fractions, then numbers
// where activations bend.
std::vector<float> inputs(int per_exponent, u64 seed) {
  std::vector<float> list = {0.0f,
                             -0.0f,
                             1.0f,
                             -1.0f,
                             kInf,
                             -kInf,
                             kNan,
                             -kNan,
                             0x1p-149f,
                             -0x1p-149f,
                             0x1p-126f,
                             -0x1p-126f,
                             0x1.fffffep127f,
                             -0x1.fffffep127f,
                             65536.0f,
                             65535.996f,
                             4.0f,
                             -4.0f,
                             0.99999994f,
                             2.0f};
  Random random(seed);
  for (u32 head = 0; head < 512; ++head) {
    for (int i = 0; i < per_exponent; ++i) {
      const u32 fraction = i == 0   ? 0
                           : i == 1 ? 0x7fffff
                                    : static_cast<u32>(random.next()) & 0x7fffff;
      list.push_back(as_float(head << 23 | fraction));
    }
  }
  for (int i = 0; i < 64 * per_exponent; ++i) {
    list.push_back(static_cast<float>(random.range(-1 << 24, 1 << 24)) * 0x1p-20f);
    list.push_back(static_cast<float>(random.range(-1 << 24, 1 << 24)) * 0x1p-17f);
  }
  return list;
}

// The nearest f32 to multiples of pi / 2, where reduced angles are smallest.
std::vector<float> angles() {
  std::vector<float> list;
  for (int i = 1; i < 200000; i += i < 1000 ? 1 : 37) {
    list.push_back(static_cast<float>(i * (kPi / 2)));
    list.push_back(static_cast<float>(-i * (kPi / 4)));
  }
  // Among all f32 the closest to a multiple of pi / 2 (found with continued fractions).
  list.push_back(as_float(0x6f79be45));
  for (u32 bits = 0x477ff000; bits < 0x47801000; ++bits) list.push_back(as_float(bits));
  return list;
}

// |got - exact| in units of 2^-24 of the exact value; 0 where both are beyond f32, or below 2^-126.
double units(float got, long double exact) {
  if (std::isnan(got) || std::isnan(exact)) return std::isnan(got) == std::isnan(exact) ? 0 : 1e9;
  if (std::fabs(exact) < 0x1p-126L) return std::fabs(got) <= 0x1p-126f ? 0 : 1e9;
  if (std::fabs(exact) >= 0x1.fffffep127L) return std::fabs(got) >= 0x1.fffffcp127f ? 0 : 1e9;
  return static_cast<double>(std::fabs((got - exact) / exact) * 0x1p24L);
}

double largest_error(float (*functor)(float), long double (*exact)(long double),
                     const std::vector<float>& list) {
  double largest = 0;
  for (float x : list) largest = std::max(largest, units(functor(x), exact(x)));
  return largest;
}

}  // namespace

TEST_CASE("every elementwise op has a functor here") {
  for (Op op : all_ops()) {
    if (!is_elementwise(op)) continue;
    CAPTURE(op_info(op).text);
    bool found = false;
    for (const Sample& sample : samples()) found |= sample.op == op;
    CHECK(found);
  }
}

TEST_CASE("the oracle accepts what functors give over all of f32") {
  std::vector<float> xs = inputs(24, 1);
  for (float x : angles()) xs.push_back(x);
  const std::vector<float> others = inputs(24, 2);
  for (const Sample& sample : samples()) {
    CAPTURE(op_info(sample.op).text);
    CAPTURE(sample.attributes[0]);
    int refused = 0, unknown = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      const float x = xs[i];
      const float y = i % 5 == 0 ? x : others[(7 * i + i / 20) % others.size()];
      const float z = others[(11 * i + 3) % others.size()];
      const Interval all[] = {{x, 0}, {y, 0}, {z, 0}};
      const Interval expected =
          apply_op(sample.op, llvm::makeArrayRef(all, op_info(sample.op).arity), sample.attributes);
      unknown += std::isinf(expected.error);
      const float got = sample.apply(x, y, z);
      if (accepts(expected, DType::kF32, got)) continue;
      if (refused++ == 0) MESSAGE(x << ", " << y << ", " << z << ": " << got);
    }
    CHECK(refused == 0);
    CHECK(unknown == 0);
  }
}

// An rsqrt or a quotient after a zero makes its sign that of an infinity.
TEST_CASE("zeros have the sign that the oracle gives them") {
  std::vector<float> xs = inputs(4, 4);
  for (const Sample& sample : samples()) {
    if (op_info(sample.op).arity != 1) continue;
    CAPTURE(op_info(sample.op).text);
    CAPTURE(sample.attributes[0]);
    for (float x : xs) {
      const Interval argument = {x, 0};
      const Interval expected = apply_op(sample.op, argument, sample.attributes);
      const float got = sample.apply(x, x, x);
      if (got != 0 || expected.value != 0) continue;
      CAPTURE(x);
      CHECK(std::signbit(got) == std::signbit(expected.value));
    }
  }
}

TEST_CASE("bounds of ops.def hold, and are not loose, where a functor is a polynomial") {
  std::vector<float> list = inputs(2000, 3);
  for (float x : angles()) list.push_back(x);
  const auto check = [&](Op op, float (*functor)(float), long double (*exact)(long double)) {
    CAPTURE(op_info(op).text);
    const double largest = largest_error(functor, exact, list);
    CAPTURE(largest);
    CHECK(largest < op_info(op).error);
    CHECK(largest > 0.2 * op_info(op).error);
  };
  check(Op::kLog, op_log::apply, [](long double x) { return std::log(x); });
  check(Op::kErf, op_erf::apply, [](long double x) { return std::erf(x); });
  check(Op::kSin, op_sin::apply, [](long double x) { return std::sin(x); });
  check(Op::kCos, op_cos::apply, [](long double x) { return std::cos(x); });
  check(Op::kSqrt, op_sqrt::apply, [](long double x) { return std::sqrt(x); });
  check(Op::kRecip, op_recip::apply, [](long double x) { return 1 / x; });
}

TEST_CASE("special values of roots, powers and logarithms") {
  CHECK(std::isnan(op_sqrt::apply(-1)));
  CHECK(as_bits(op_sqrt::apply(-0.0f)) == kSignBit);
  CHECK(std::isnan(op_rsqrt::apply(-0x1p-149f)));
  CHECK(op_rsqrt::apply(0.0f) == kInf);
  CHECK(op_rsqrt::apply(-0.0f) == -kInf);
  CHECK(op_rsqrt::apply(kInf) == 0);
  CHECK(op_rsqrt::apply(0x1p-148f) == 0x1p74f);
  CHECK(op_recip::apply(-0.0f) == -kInf);
  CHECK(op_recip::apply(0x1p127f) == 0x1p-127f);
  CHECK(op_log::apply(1) == 0);
  CHECK(op_log::apply(0.0f) == -kInf);
  CHECK(op_log::apply(-0.0f) == -kInf);
  CHECK(op_log::apply(kInf) == kInf);
  CHECK(std::isnan(op_log::apply(-kInf)));
  CHECK(std::isnan(op_log::apply(-0x1p-149f)));
  CHECK(std::isnan(op_log::apply(kNan)));
  CHECK(op_log::apply(0x1p-149f) == doctest::Approx(-149 * std::log(2.0)));
  CHECK(op_pow::apply(kNan, 0) == 1);
  CHECK(op_pow::apply(-0.0f, -3) == -kInf);
  CHECK(op_pow::apply(-0.0f, -2) == kInf);
  CHECK(op_pow::apply(-2, 5) == -32);
  CHECK(op_pow::apply(-2, -2) == 0.25f);
  CHECK(op_pow::apply(0x1p-2f, 64) == 0x1p-128f);
  CHECK(op_exp2::apply(128) == kInf);
  CHECK(op_exp2::apply(-kInf) == 0);
}

TEST_CASE("special values of erf, sine and cosine") {
  CHECK(op_erf::apply(4) == 1);
  CHECK(op_erf::apply(-kInf) == -1);
  CHECK(as_bits(op_erf::apply(-0.0f)) == kSignBit);
  CHECK(std::isnan(op_erf::apply(kNan)));
  CHECK(as_bits(op_sin::apply(-0.0f)) == kSignBit);
  CHECK(op_cos::apply(0) == 1);
  for (float x : {kInf, -kInf, kNan}) {
    CHECK(std::isnan(op_sin::apply(x)));
    CHECK(std::isnan(op_cos::apply(x)));
  }
  CHECK(op_sin::apply(0x1p-149f) == 0x1p-149f);
  CHECK(op_sin::apply(0x1.fffffep127f) == doctest::Approx(std::sin(double{0x1.fffffep127f})));
}

TEST_CASE("comparisons with NaN are false but for ne, select does not mix its operands") {
  CHECK(op_lt::apply(kNan, 1) == 0);
  CHECK(op_le::apply(1, kNan) == 0);
  CHECK(op_gt::apply(kNan, 1) == 0);
  CHECK(op_ge::apply(kNan, kNan) == 0);
  CHECK(op_eq::apply(kNan, kNan) == 0);
  CHECK(op_ne::apply(kNan, kNan) == 1);
  CHECK(op_eq::apply(0.0f, -0.0f) == 1);
  CHECK(op_lt::apply(-0x1p-149f, 0) == 1);
  CHECK(op_select::apply(0, kNan, 2) == 2);
  CHECK(op_select::apply(1, 3, kInf) == 3);
  CHECK(op_select::apply(-0.0f, 3, 4) == 4);
  CHECK(op_select::apply(kNan, 3, 4) == 3);
}

}  // namespace catenary
