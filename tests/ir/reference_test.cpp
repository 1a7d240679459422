// SPDX-License-Identifier: Apache-2.0
// The oracle: values computed by hand, every label class, ragged contractions, error propagation
// against sampled operands and against a simple f32 interpreter, rejected bindings.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "ir/random/fill.h"
#include "ir/random/random.h"
#include "ir/random/random_chain.h"
#include "ir/reference/reference_accumulate.h"
#include "ir/reference/reference_interval.h"
#include "ir/text/text.h"
#include "tests/support/float_kernel.h"

using namespace catenary;
using test::FloatKernel;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

VerifiedChain chain_of(const std::string& text) {
  auto chain = parse(text);
  if (!chain) FAIL(take_report(chain.takeError()).message);
  auto verified = verify(std::move(*chain));
  if (!verified) FAIL(take_report(verified.takeError()).message);
  return std::move(*verified);
}

HostTensor tensor(DType dtype, llvm::ArrayRef<i64> sizes, const void* data) {
  HostTensor result;
  result.type.dtype = dtype;
  for (i64 size : sizes) result.type.shape.push_back({size, false});
  result.data = data;
  return result;
}
HostTensor floats(llvm::ArrayRef<i64> sizes, const std::vector<float>& data) {
  return tensor(DType::kF32, sizes, data.data());
}
HostTensor ints(const std::vector<i32>& data) {
  return tensor(DType::kI32, {static_cast<i64>(data.size())}, data.data());
}

std::vector<float> iota(size_t count, float first = 1) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<double> values_of(const VerifiedChain& chain, const ReferenceInputs& inputs) {
  auto reference = Reference::create(chain, inputs);
  if (!reference) FAIL(take_report(reference.takeError()).message);
  std::vector<double> values;
  const auto outputs = reference->evaluate(1);
  for (const Interval& x : outputs[0]) values.push_back(x.value);
  return values;
}

void check_rejected(const VerifiedChain& chain, const ReferenceInputs& inputs,
                    const std::string& named) {
  auto reference = Reference::create(chain, inputs);
  REQUIRE_FALSE(!!reference);
  const ErrorReport report = take_report(reference.takeError());
  CHECK(report.code == ErrorCode::kInvalidArgument);
  CAPTURE(report.message);
  CHECK(report.message.find(named) != std::string::npos);
}

}  // namespace

TEST_SUITE("ir") {
  TEST_CASE("a linear layer with bias and ReLU, by hand") {
    const auto chain = chain_of(
        "chain c(input x: f32[2, 3], weight w: f32[2, 3], weight b: f32[2]) {\n"
        "  y = relu(add(contract \"mk,nk->mn\" f32(x, w), b))\n  return y: f32\n}");
    const auto x = iota(6), w = iota(6, -2), b = iota(2, -9);
    // x w^T: [1 2 3; 4 5 6] by [-2 -1 0; 1 2 3].
    CHECK(values_of(chain, {{floats({2, 3}, x), floats({2, 3}, w), floats({2}, b)}}) ==
          std::vector<double>{0, 6, 0, 24});
  }

  TEST_CASE("a leading size of 1 and a symbol: [1, S, k] as torch's users write it") {
    const auto chain = chain_of(
        "chain c[S in 1..8](input x: f32[1, S, 3], weight w: f32[2, 3]) {\n"
        "  y = contract \"bsk,nk->bsn\" f32(x, w)\n  return y: f32\n}");
    const auto x = iota(6), w = iota(6, -2);
    ReferenceInputs inputs;
    inputs.symbol = 2;
    inputs.parameters = {floats({1, 2, 3}, x), floats({2, 3}, w)};
    CHECK(values_of(chain, inputs) == std::vector<double>{-4, 14, -13, 32});
  }

  TEST_CASE("every label class at once, in any order, with strides") {
    const auto chain = chain_of(
        "chain c(input x: f32[3, 2, 4] strides[1, 3, 7], weight w: f32[5, 3, 4]) {\n"
        "  y = contract \"kbm,nkm->nbm\" f32(x, w)\n  return y: f32\n}");
    const auto x = iota(64), w = iota(60);
    HostTensor left = floats({3, 2, 4}, x);
    left.type.strides = {1, 3, 7};
    const auto got = values_of(chain, {{left, floats({5, 3, 4}, w)}});
    for (int n = 0; n < 5; ++n) {
      for (int b = 0; b < 2; ++b) {
        for (int m = 0; m < 4; ++m) {
          double sum = 0;
          for (int k = 0; k < 3; ++k) sum += x[k + 3 * b + 7 * m] * w[n * 12 + k * 4 + m];
          CHECK(got[n * 8 + b * 4 + m] == sum);
        }
      }
    }
  }

  TEST_CASE("an empty K gives 0, an outer product has one term") {
    const auto none = chain_of(
        "chain c(input x: f32[2, 0], weight w: f32[3, 0]) {\n"
        "  y = add(contract \"mk,nk->mn\"(x, w), 2)\n  return y: f32\n}");
    CHECK(values_of(none, {{floats({2, 0}, {}), floats({3, 0}, {})}}) == std::vector<double>(6, 2));
    const auto outer = chain_of(
        "chain c(input x: f32[2], weight w: f32[2]) {\n"
        "  y = contract \"m,n->mn\"(x, w)\n  return y: f32\n}");
    const auto x = iota(2), w = iota(2, 3);
    CHECK(values_of(outer, {{floats({2}, x), floats({2}, w)}}) == std::vector<double>{3, 4, 6, 8});
  }

  TEST_CASE("a symbolic dimension has the size of the launch, also 0") {
    const auto chain = chain_of(
        "chain c[M in 0..8](input x: f32[M, 2], weight r: f32[M]) {\n"
        "  y = sum \"mn->m\"(mul(x @ \"mn\", r @ \"m\"))\n  return y: f32\n}");
    const auto x = iota(16), r = iota(8);
    ReferenceInputs inputs{{floats({3, 2}, x), floats({3}, r)}, 3};
    CHECK(values_of(chain, inputs) == std::vector<double>{3, 14, 33});
    inputs = {{floats({0, 2}, x), floats({0}, r)}, 0};
    CHECK(values_of(chain, inputs).empty());
  }

  TEST_CASE("M-grouped: empty groups, rows after the last end are 0") {
    const auto chain = chain_of(
        "chain c(input x: f32[5, 2], weight w: f32[3, 2, 2], input ends: i32[3]) {\n"
        "  y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n  return y: f32\n}");
    const auto x = iota(10), w = iota(12);
    const std::vector<i32> ends = {2, 2, 4};
    const ReferenceInputs inputs{{floats({5, 2}, x), floats({3, 2, 2}, w), ints(ends)}};
    const auto got = values_of(chain, inputs);
    auto reference = Reference::create(chain, inputs);
    REQUIRE(!!reference);
    for (int m = 0; m < 5; ++m) {
      const int e = m < 2 ? 0 : 2;
      for (int n = 0; n < 2; ++n) {
        double sum = 0;
        for (int k = 0; k < 2; ++k) sum += m < 4 ? x[m * 2 + k] * w[e * 4 + n * 2 + k] : 0;
        CHECK(got[m * 2 + n] == sum);
        CHECK(reference->output_element(0, m * 2 + n).value == sum);
      }
    }
  }

  TEST_CASE("K-grouped: an empty group sums to 0") {
    const auto chain = chain_of(
        "chain c(input d: f32[5, 2], input x: f32[5, 3], input ends: i32[3]) {\n"
        "  y = contract \"mn,mk->enk\"(d, x) ragged m by ends over e\n  return y: f32\n}");
    const auto d = iota(10), x = iota(15);
    const std::vector<i32> ends = {3, 3, 4};
    const ReferenceInputs inputs{{floats({5, 2}, d), floats({5, 3}, x), ints(ends)}};
    const auto got = values_of(chain, inputs);
    auto reference = Reference::create(chain, inputs);
    REQUIRE(!!reference);
    const int first[] = {0, 3, 3, 4};
    for (int e = 0; e < 3; ++e) {
      for (int n = 0; n < 2; ++n) {
        for (int k = 0; k < 3; ++k) {
          double sum = 0;
          for (int m = first[e]; m < first[e + 1]; ++m) sum += d[m * 2 + n] * x[m * 3 + k];
          CHECK(got[e * 6 + n * 3 + k] == sum);
          CHECK(reference->output_element(0, e * 6 + n * 3 + k).value == sum);
        }
      }
    }
  }

  TEST_CASE("f32 operands are rounded to tf32, unless the contraction is marked f32") {
    const std::string head = "chain c(input x: f32[1, 1], weight w: f32[1, 1]) {\n  y = contract ";
    const std::string tail = "(x, w)\n  return y: f32\n}";
    const std::vector<float> x = {1 + 0x1.8p-11f}, one = {1};
    const ReferenceInputs inputs{{floats({1, 1}, x), floats({1, 1}, one)}};
    CHECK(values_of(chain_of(head + "\"mk,nk->mn\"" + tail), inputs)[0] == 1 + 0x1p-10);
    CHECK(values_of(chain_of(head + "\"mk,nk->mn\" f32" + tail), inputs)[0] == 1 + 0x1.8p-11);
  }

  TEST_CASE("a tie of tf32 may round either way in a contraction") {
    // The interval of a tie covers both, for stored and for computed operands.
    const std::string text =
        "chain c(input x: f32[1, 1], weight w: f32[1, 1]) {\n"
        "  y = contract \"mk,nk->mn\"(x, w)\n  z = contract \"mk,nk->mn\"(neg(x), w)\n"
        "  return y: f32, z: f32\n}";
    const std::vector<float> x = {1 + 0x1p-11f}, one = {1};
    const ReferenceInputs inputs{{floats({1, 1}, x), floats({1, 1}, one)}};
    const VerifiedChain chain = chain_of(text);
    auto reference = Reference::create(chain, inputs);
    if (!reference) FAIL(take_report(reference.takeError()).message);
    const auto outputs = reference->evaluate(1);
    CHECK(accepts(outputs[0][0], DType::kF32, 1));
    CHECK(accepts(outputs[0][0], DType::kF32, 1 + 0x1p-10));
    CHECK_FALSE(accepts(outputs[0][0], DType::kF32, 1 - 0x1p-10));
    CHECK(accepts(outputs[1][0], DType::kF32, -1));
    CHECK(accepts(outputs[1][0], DType::kF32, -1 - 0x1p-10));
  }

  TEST_CASE("the errors of a contraction are the stated bounds") {
    const i64 k = 40;
    const std::vector<float> x(k, 0.375f), w(k, 0.75f);  // integers would have no error at all
    const std::string text =
        "chain c(input x: f32[1, 40], weight w: f32[1, 40]) {\n  y = contract ";
    const ReferenceInputs inputs{{floats({1, k}, x), floats({1, k}, w)}};
    const double p = 0.375 * 0.75;
    const auto error = [&](const char* equation) {
      const auto chain = chain_of(text + equation + "(x, w)\n  return y: f32\n}");
      auto reference = Reference::create(chain, inputs);
      REQUIRE(!!reference);
      return reference->evaluate(1)[0][0].error;
    };
    // Blocks of 16, 16 and 8 terms; the largest magnitude of a block is the partial sum before it.
    const double tensor_core = 0x1p-23 * (8.5 * (p + 16 * p + 32 * p) + 16 * p + 32 * p + 40 * p);
    CHECK(error("\"mk,nk->mn\"") == doctest::Approx(tensor_core).epsilon(1e-12));
    const double n = 40 * 0x1p-24;
    CHECK(error("\"mk,nk->mn\" f32") == doctest::Approx(n / (1 - n) * 40 * p).epsilon(1e-12));
  }

  TEST_CASE("elementwise ops at points that need a numerically stable form") {
    const auto f = [](Op op, double x, double a = 0, double b = 0) {
      const Interval operand{x, 0};
      return apply_op(op, operand, {a, b}).value;
    };
    CHECK(f(Op::kGelu, -10) == doctest::Approx(-7.619853024160526e-23).epsilon(1e-12));
    CHECK(f(Op::kGelu, 1) == doctest::Approx(0.8413447460685429));
    CHECK(f(Op::kGeluTanh, 1) == doctest::Approx(0.8411919906082768));
    CHECK(f(Op::kGeluTanh, -1) == doctest::Approx(-0.15880800939172324));
    CHECK(f(Op::kQuickGelu, 1) == doctest::Approx(0.8457957659328212));
    CHECK(f(Op::kSilu, -60) == doctest::Approx(-60 * std::exp(-60.0)));
    CHECK(f(Op::kSigmoid, 1000) == 1);
    CHECK(f(Op::kSigmoid, -50) == doctest::Approx(std::exp(-50.0)));
    CHECK(f(Op::kSoftplus, 1000) == 1000);
    CHECK(f(Op::kSoftplus, -40) == doctest::Approx(std::exp(-40.0)));
    CHECK(f(Op::kTanh, 0.5) == doctest::Approx(0.46211715726000975));
    CHECK(f(Op::kExp, 1) == doctest::Approx(2.718281828459045));
    CHECK(f(Op::kExp, 89) == kInf);
    CHECK(f(Op::kRelu2, -3) == 0);
    CHECK(f(Op::kRelu2, 3) == 9);
    CHECK(f(Op::kLeakyRelu, -4, 0.25) == -1);
    CHECK(f(Op::kClamp, 9, -1, 7) == 7);
    CHECK(f(Op::kNeg, 2) == -2);
    for (Op op : {Op::kRelu, Op::kClamp, Op::kRelu2, Op::kGelu, Op::kSilu, Op::kTanh}) {
      CHECK(std::isnan(f(op, kNan, -1, 1)));
    }
    for (Op op : {Op::kGelu, Op::kGeluTanh, Op::kQuickGelu, Op::kSilu}) {
      CHECK(f(op, -kInf) == 0);
      CHECK(f(op, kInf) == kInf);
    }
    CHECK(std::isnan(apply_op(Op::kMax, {{kNan, 0}, {1, 0}}, {0, 0}).value));
    CHECK_FALSE(std::signbit(f(Op::kRelu, -0.0)));
  }

  TEST_CASE("the error of an op covers every operand within its error") {
    Random random(1);
    for (Op op : all_ops()) {
      if (!is_elementwise(op)) continue;
      CAPTURE(op_info(op).text);
      int outside = 0;
      for (int i = 0; i < 4000; ++i) {
        const auto number = [&] { return static_cast<double>(random.range(-8000, 8000)) / 1000; };
        const double attributes[2] = {-1.5, 2};
        Interval x[3];
        for (Interval& operand : x) {
          operand = {number(), std::ldexp(1, static_cast<int>(random.range(-20, 1)))};
        }
        const int arity = op_info(op).arity;
        const Interval whole = apply_op(op, llvm::makeArrayRef(x, arity), attributes);
        for (Interval& operand : x) {
          operand = {operand.value + operand.error * static_cast<double>(random.range(-4, 4)) / 4,
                     0};
        }
        const Interval point = apply_op(op, llvm::makeArrayRef(x, arity), attributes);
        // Values are float64: equal numbers may differ by 1e-14.
        outside += std::fabs(point.value - whole.value) > whole.error + 1e-14;
      }
      CHECK(outside == 0);
    }
  }

  TEST_CASE("a cast's error is a whole unit if the operand's interval contains a midpoint") {
    CHECK(cast_interval(DType::kBF16, {1, 0x1p-20}).error == 0);
    const Interval flips = cast_interval(DType::kBF16, {1 + 0x1p-8, 0x1p-20});
    CHECK(flips.error == 0x1p-7);
    CHECK(std::isinf(cast_interval(DType::kF16, {65520, 1}).error));
    CHECK(cast_interval(DType::kF16, {65520, 0}).value == kInf);
  }

  TEST_CASE("a contraction propagates the errors of a rounded operand") {
    const auto chain = chain_of(
        "chain c(input x: f32[1, 1], input y: f32[1, 1], weight w: bf16[1, 1]) {\n"
        "  h = cast(add(x, y), bf16)\n  z = contract \"mk,nk->mn\"(h, w)\n  return z: f32\n}");
    // The sum is slightly above a midpoint of bf16, and f32 rounds it to the midpoint: kernels get
    // 1, the float64 sum gives 1 + 2^-7.
    const std::vector<float> x = {1 + 0x1p-8f}, y = {0x1p-30f};
    const u16 three = 0x4040;
    auto reference = Reference::create(
        chain, {{floats({1, 1}, x), floats({1, 1}, y), tensor(DType::kBF16, {1, 1}, &three)}});
    REQUIRE(!!reference);
    for (const Interval& z : {reference->evaluate(1)[0][0], reference->output_element(0, 0)}) {
      CHECK(z.value == 3 * (1 + 0x1p-7));
      CHECK(z.error == doctest::Approx(3 * 0x1p-7).epsilon(1e-3));
      CHECK(accepts(z, DType::kF32, 3));
      CHECK_FALSE(accepts(z, DType::kF32, 2.99));
    }
  }

  TEST_CASE("a certain overflow is an infinity, an uncertain one accepts any result") {
    CHECK(settle_f32(1e39, 1e30).value == kInf);
    CHECK(settle_f32(0x1.ffffffp127, 1e35).error == 1e35);
    CHECK(std::isinf(apply_op(Op::kNeg, Interval{0x1.ffffffp127, 1e35}, {0, 0}).error));
    CHECK(std::isinf(apply_op(Op::kDiv, {{1, 0}, {0.5, 1}}, {0, 0}).error));
    CHECK(apply_op(Op::kDiv, {{1, 0}, {0, 0}}, {0, 0}).value == kInf);
    CHECK(std::isnan(apply_op(Op::kMul, {{kInf, 0}, {0, 0}}, {0, 0}).value));
  }

  TEST_CASE("beside an infinity, what overflows in some order accepts any result") {
    const auto of = [](std::initializer_list<double> terms, bool contracts) {
      if (!contracts) {
        double sum = 0, magnitudes = 0;
        for (const double x : terms) {
          sum += x;
          if (std::isfinite(x)) magnitudes += std::fabs(x);
        }
        return sum_interval(sum, magnitudes, 0, static_cast<i64>(terms.size()), false);
      }
      Accumulator sum(SumRule::kTrueF32);
      for (const double x : terms) sum.add({x, 0}, {1, 0});
      return sum.result(false);
    };
    for (const bool contracts : {false, true}) {
      CHECK(of({1, 2, -kInf}, contracts).value == -kInf);
      CHECK(of({1, 2, -kInf}, contracts).error == 0);
      CHECK(of({3e38, 1, -kInf, 5}, contracts).error == 0);
      CHECK(std::isinf(of({3e38, 3e38, -kInf, 1}, contracts).error));
      CHECK(std::isinf(of({-kInf, 3e38, 1, 3e38}, contracts).error));
      CHECK(std::isnan(of({kInf, 3e38, -kInf, 3e38}, contracts).value));
    }
  }

  TEST_CASE("the largest finite operands overflow to infinity, or to any result") {
    const auto chain = chain_of(
        "chain c(input x: bf16[1, 20], weight w: bf16[2, 20]) {\n"
        "  y = contract \"mk,nk->mn\"(x, w)\n  return y: f32\n}");
    std::vector<u16> x(20, 0x7f7f), w(40, 0x7f7f);
    for (size_t k = 20; k < 40; k += 2) w[k] |= 0x8000;  // column 1 cancels
    auto reference = Reference::create(chain, {{tensor(DType::kBF16, {1, 20}, x.data()),
                                                tensor(DType::kBF16, {2, 20}, w.data())}});
    REQUIRE(!!reference);
    const auto y = reference->evaluate(1)[0];
    CHECK(y[0].value == kInf);
    CHECK(y[0].error == 0);
    CHECK(std::isinf(y[1].error));
    CHECK(reference->output_element(0, 0).value == kInf);
  }

  TEST_CASE("a correct f32 kernel is accepted, for every chain and kind of data") {
    RandomChainOptions options;
    options.max_elements = 600;
    i64 checked = 0;
    for (u64 seed = 0; seed < 400; ++seed) {
      options.no_dequant = seed % 4 != 3;
      const Chain chain = random_chain(seed, options);
      auto verified = verify(chain);
      REQUIRE(!!verified);
      const i64 symbol = chain.symbol ? chain.symbol->hi : 0;
      const ChainData data =
          fill_chain(*verified, symbol, all_fills()[seed % all_fills().size()], seed);
      auto reference = Reference::create(*verified, data.inputs);
      REQUIRE(!!reference);
      const FloatKernel kernel(*verified, data.inputs);
      for (size_t i = 0; i < chain.outputs.size(); ++i) {
        const TensorType type = with_symbol(verified->output_type(static_cast<int>(i)), symbol);
        const i64 size = num_elements(type);
        for (i64 j = 0; j < size; j += 1 + size / 3) {
          llvm::SmallVector<i64, 4> at(type.rank());
          i64 rest = j;
          for (int d = type.rank(); d-- > 0; rest /= type.shape[d].size) {
            at[d] = rest % type.shape[d].size;
          }
          const double got = round_to(type.dtype, kernel.element(chain.outputs[i].value, at));
          const Interval expected = reference->output_element(static_cast<int>(i), j);
          ++checked;
          if (accepts(expected, type.dtype, got)) continue;
          FAIL("seed " << seed << " output " << i << " element " << j << ": got " << got
                       << ", expected " << expected.value << " +- " << expected.error << "\n"
                       << print(chain));
        }
      }
    }
    CHECK(checked > 800);
  }

  TEST_CASE("exact chains: no cast and no tf32 rounding feeds an op, no approximate op") {
    const std::string head = "chain c(input x: bf16[4, 4], weight w: bf16[4, 4]) {\n";
    const auto exact = [&](const char* body) { return chain_is_exact(chain_of(head + body)); };
    CHECK(exact("y = relu(contract \"mk,nk->mn\"(x, w))\nreturn y: bf16\n}"));
    CHECK(exact("y = cast(contract \"mk,nk->mn\"(x, w), f16)\nreturn y: bf16\n}"));
    CHECK_FALSE(exact("y = gelu(contract \"mk,nk->mn\"(x, w))\nreturn y: bf16\n}"));
    CHECK_FALSE(exact("y = add(contract \"mk,nk->mn\"(x, w), 0.5)\nreturn y: bf16\n}"));
    CHECK_FALSE(
        exact("h = cast(contract \"mk,nk->mn\"(x, w), bf16)\n"
              "y = contract \"mk,nk->mn\"(h, w)\nreturn y: bf16\n}"));
    CHECK_FALSE(
        exact("h = contract \"mk,nk->mn\"(x, w)\n"
              "y = contract \"mk,nk->mn\"(h, h)\nreturn y: bf16\n}"));
    CHECK(
        exact("h = contract \"mk,nk->mn\"(x, w)\n"
              "y = contract \"mk,nk->mn\" f32(h, h)\nreturn y: bf16\n}"));
  }

  TEST_CASE("wrong bindings are rejected by name") {
    const auto chain = chain_of(
        "chain c[M in 1..4](input x: f32[M, 2], weight w: f32[3, 2, 2], input ends: i32[3]) {\n"
        "  y = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n  return y: f32\n}");
    const auto x = iota(8), w = iota(12);
    const std::vector<i32> good = {1, 2, 4}, falling = {2, 1, 4}, beyond = {1, 2, 5},
                           below = {-1, 2, 4};
    const HostTensor xs = floats({4, 2}, x), ws = floats({3, 2, 2}, w);
    CHECK(!!Reference::create(chain, {{xs, ws, ints(good)}, 4}));
    check_rejected(chain, {{xs, ws}, 4}, "3 parameters");
    check_rejected(chain, {{xs, ws, ints(good)}, 5}, "'M' is 5");
    check_rejected(chain, {{floats({3, 2}, x), ws, ints(good)}, 4}, "'x'");
    check_rejected(chain, {{xs, floats({3, 4}, w), ints(good)}, 4}, "'w'");
    check_rejected(chain, {{xs, tensor(DType::kBF16, {3, 2, 2}, w.data()), ints(good)}, 4}, "'w'");
    check_rejected(chain, {{xs, tensor(DType::kF32, {3, 2, 2}, nullptr), ints(good)}, 4}, "null");
    check_rejected(chain, {{xs, ws, ints(falling)}, 4}, "entry 1 of ends 'ends' is 1");
    check_rejected(chain, {{xs, ws, ints(beyond)}, 4}, "entry 2 of ends 'ends' is 5");
    check_rejected(chain, {{xs, ws, ints(below)}, 4}, "entry 0 of ends 'ends' is -1");
  }
}
