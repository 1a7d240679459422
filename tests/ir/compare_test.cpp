// SPDX-License-Identifier: Apache-2.0
// Comparison of outputs with intervals, and the test data itself.
#include "ir/reference/compare.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "ir/random/fill.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

TensorType matrix(DType dtype, i64 rows, i64 columns, i64 row_step) {
  TensorType type;
  type.dtype = dtype;
  type.shape = {{rows, false}, {columns, false}};
  type.strides = {row_step, 1};
  return type;
}

std::vector<double> filled(const TensorType& type, const Fill& fill) {
  std::vector<std::byte> buffer(span_bytes(type));
  fill_tensor(type, buffer, fill);
  std::vector<double> values;
  for (i64 r = 0; r < type.shape[0].size; ++r) {
    for (i64 c = 0; c < type.shape[1].size; ++c) {
      values.push_back(load_element(type.dtype, buffer.data(), r * type.strides[0] + c));
    }
  }
  return values;
}

}  // namespace

TEST_SUITE("ir") {
  TEST_CASE("elements without a bound are counted, not checked") {
    const TensorType type = matrix(DType::kF32, 1, 3, 3);
    const float got[] = {1, 2, 3};
    const double unknown = std::numeric_limits<double>::infinity();
    const CompareResult result = compare(type, got, {{1, 0}, {7, unknown}, {3, 0.1}});
    CHECK(result.ok());
    CHECK(result.checked == 2);
    CHECK(result.unbounded == 1);
    CHECK(to_string(result).find("2 elements, 0 mismatches") == 0);
    CHECK(to_string(result).find("1 without a bound") != std::string::npos);
  }

  TEST_CASE("compare reports the first and the worst mismatch with coordinates") {
    const TensorType type = matrix(DType::kF32, 2, 3, 4);
    const float got[] = {1, 2, 3, -1, 4, 5.5, 9, -1};  // two elements of padding
    std::vector<Interval> expected = {{1, 0}, {2, 0.1}, {3.05, 0.1}, {4, 0}, {5, 0.1}, {6, 0.1}};
    const CompareResult result = compare(type, got, expected);
    CHECK(result.checked == 6);
    CHECK(result.exact == 2);
    CHECK(result.mismatches == 2);
    CHECK(result.worst_ratio == doctest::Approx(30).epsilon(1e-4));
    REQUIRE(result.first);
    CHECK(result.first->index == 4);
    CHECK(result.first->at == llvm::SmallVector<i64, 4>{1, 1});
    CHECK(result.first->got == 5.5);
    CHECK(result.worst->at == llvm::SmallVector<i64, 4>{1, 2});
    const std::string text = to_string(result);
    CAPTURE(text);
    CHECK(text.find("6 elements, 2 mismatches") == 0);
    CHECK(text.find("first at [1, 1]: got 5.5, expected 5 +- 0.1") != std::string::npos);
    CHECK(text.find("worst at [1, 2]: got 9") != std::string::npos);

    const i64 sampled[] = {2, 4};
    CHECK(compare(type, got, {expected[2], expected[4]}, CompareMode::kInterval, sampled)
              .mismatches == 1);
  }

  TEST_CASE("rounding to the output's dtype does not count as error") {
    const TensorType type = matrix(DType::kBF16, 1, 2, 2);
    u16 got[2];
    store_element(DType::kBF16, got, 0, 1.003);  // 1: off by 0.003, half a unit is 0.0039
    store_element(DType::kBF16, got, 1, 1.0);
    const CompareResult result = compare(type, got, {{1.003, 1e-6}, {1.0039072, 2e-6}});
    CHECK(result.ok());
    CHECK(result.worst_ratio > 0);
    CHECK(result.worst_ratio <= 1);
  }

  TEST_CASE("exact mode compares bits after rounding, whatever the error") {
    const TensorType type = matrix(DType::kBF16, 1, 3, 3);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    u16 got[3];
    for (int i = 0; i < 3; ++i) store_element(DType::kBF16, got, i, i == 2 ? nan : 257.0 - i);
    CHECK(compare(type, got, {{257, 9}, {256, 9}, {nan, 0}}, CompareMode::kExact).ok());
    CHECK(compare(type, got, {{258, 9}, {256, 9}, {1, 0}}, CompareMode::kExact).mismatches == 2);
    // Above 2^24 integers are rounded on the way.
    const float large = 99321152;
    CHECK(compare(matrix(DType::kF32, 1, 1, 1), &large, {{99321157, 11.8}}, CompareMode::kExact)
              .ok());
    CHECK(compare(matrix(DType::kF32, 1, 1, 1), &large, {{99321257, 11.8}}, CompareMode::kExact)
              .mismatches == 1);
    const float zero = -0.0f;
    const TensorType one = matrix(DType::kF32, 1, 1, 1);
    CHECK(compare(one, &zero, {{0, 0}}, CompareMode::kExact).mismatches == 1);
    CHECK(compare(one, &zero, {{0, 0}}).ok());
  }

  TEST_CASE("infinities and NaN are the worst mismatches") {
    const TensorType type = matrix(DType::kF32, 1, 2, 2);
    const float got[] = {1.5, std::numeric_limits<float>::infinity()};
    const CompareResult result = compare(type, got, {{1, 0.1}, {1, 0.1}});
    CHECK(result.mismatches == 2);
    CHECK(result.worst->index == 1);
    CHECK(std::isfinite(result.worst_ratio));
  }

  TEST_CASE("fills: the properties of each kind") {
    const TensorType type = matrix(DType::kF32, 100, 100, 100);
    const auto values = [&](FillKind kind) { return filled(type, {kind, 5, 0.5, 2}); };
    std::set<double> integers;
    for (double x : values(FillKind::kExactInteger)) integers.insert(x);
    CHECK(integers == std::set<double>{-2, -1, 0, 1, 2});
    double sum = 0, squares = 0;
    for (double x : values(FillKind::kNormal)) sum += x, squares += x * x;
    CHECK(std::fabs(sum / 1e4) < 0.02);
    CHECK(std::sqrt(squares / 1e4) == doctest::Approx(0.5).epsilon(0.03));
    for (double x : values(FillKind::kPositive)) CHECK_MESSAGE((x > 0 && x <= 0.5), x);
    i64 zeros = 0;
    for (double x : values(FillKind::kSparse)) zeros += x == 0;
    CHECK(zeros > 7000);
    CHECK(zeros < 8500);
    const auto hot = values(FillKind::kOneHot);
    for (int r = 0; r < 100; ++r) {
      double row = 0;
      for (int c = 0; c < 100; ++c) row += hot[r * 100 + c];
      CHECK(row == 1);
    }
    i64 nans = 0, infinities = 0;
    for (double x : values(FillKind::kNanPlant)) nans += std::isnan(x);
    for (double x : values(FillKind::kInfPlant)) infinities += std::isinf(x);
    CHECK(nans == 1);
    CHECK(infinities == 1);
  }

  TEST_CASE("fills: seeds differ, strides do not matter, padding keeps the poison") {
    for (FillKind kind : all_fills()) {
      CAPTURE(fill_text(kind));
      const auto plain = filled(matrix(DType::kF16, 9, 7, 7), {kind, 3, 1, 2});
      const auto padded = filled(matrix(DType::kF16, 9, 7, 12), {kind, 3, 1, 2});
      const auto other = filled(matrix(DType::kF16, 9, 7, 7), {kind, 4, 1, 2});
      CHECK(std::memcmp(plain.data(), padded.data(), plain.size() * sizeof(double)) == 0);
      CHECK(std::memcmp(plain.data(), other.data(), plain.size() * sizeof(double)) != 0);
    }
    const TensorType type = matrix(DType::kBF16, 3, 2, 4);
    std::vector<std::byte> buffer(32);
    fill_tensor(type, buffer, {FillKind::kExactInteger, 1, 1, 2}, 0x3f);
    for (size_t i : {4, 5, 6, 7, 12, 15, 20, 31}) CHECK(buffer[i] == std::byte{0x3f});
  }

  TEST_CASE("fills: the same numbers on every host") {
    const auto normal = filled(matrix(DType::kF32, 1, 3, 3), {FillKind::kNormal, 1, 1, 2});
    const auto integer = filled(matrix(DType::kF32, 1, 6, 6), {FillKind::kExactInteger, 1, 1, 2});
    CHECK(normal[0] == 0x1.09a7a2p-1);
    CHECK(normal[1] == -0x1.e1c8b6p-3);
    CHECK(integer == std::vector<double>{1, -2, -2, -1, -2, 1});
  }

  TEST_CASE("integer bounds keep sums below 2^24") {
    CHECK(exact_integer_bound(0) == 2);
    CHECK(exact_integer_bound(1 << 22) == 2);
    CHECK(exact_integer_bound((1 << 22) + 1) == 1);
  }

  TEST_CASE("a chain's data: ends ascend, scalars are not 0, weights are scaled, poison stays") {
    auto chain = parse(
        "chain c(input x: f32[32, 64] strides[65, 1], weight w: f32[4, 8, 64], input ends: i32[4], "
        "scalar s: f32) {\n"
        "  y = scale(contract \"mk,enk->mn\"(x, w) ragged m by ends over e, s)\n"
        "  return y: f32\n}");
    REQUIRE(!!chain);
    auto verified = verify(std::move(*chain));
    REQUIRE(!!verified);
    for (u64 seed = 0; seed < 50; ++seed) {
      const ChainData data = fill_chain(*verified, 0, FillKind::kNormal, seed, 0xa5);
      CHECK(!!Reference::create(*verified, data.inputs));
      CHECK(load_element(DType::kF32, data.inputs.parameters[3].data, 0) != 0);
      CHECK(data.buffers[0][64 * 4] == std::byte{0xa5});
      double squares = 0;
      for (i64 i = 0; i < 2048; ++i) {
        squares += std::pow(load_element(DType::kF32, data.inputs.parameters[1].data, i), 2);
      }
      CHECK(std::sqrt(squares / 2048) == doctest::Approx(0.125).epsilon(0.1));
    }
  }
}

TEST_CASE(
    "values beyond the range of a format that saturates are no distance from its largest one") {
  const std::vector<std::pair<DType, double>> formats = {{DType::kE4M3, 448},
                                                         {DType::kE5M2, 57344}};
  for (const auto& [dtype, largest] : formats) {
    CAPTURE(dtype_text(dtype));
    std::byte memory[2] = {};
    store_element(dtype, memory, 0, largest);
    store_element(dtype, memory, 1, -largest);
    const std::vector<Interval> expected = {{largest * 10, 1e-3}, {-largest * 1.5, 1e-3}};
    const CompareResult result = compare(matrix(dtype, 1, 2, 2), memory, expected);
    CHECK(result.ok());
    CHECK(result.worst_ratio == 0);
    // A result short of the largest one is wrong, and far away.
    store_element(dtype, memory, 0, largest / 2);
    const CompareResult wrong = compare(matrix(dtype, 1, 2, 2), memory, expected);
    CHECK(wrong.mismatches == 1);
    CHECK(wrong.worst_ratio > 1000);
  }
}
