// SPDX-License-Identifier: Apache-2.0
// The oracle on operands that are taken by the group of a row, against values computed by hand.
#include <doctest/doctest.h>

#include <numeric>

#include "ir/reference/reference.h"
#include "ir/text/text.h"

using namespace catenary;

namespace {

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

std::vector<float> iota(size_t count, float first = 1) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

}  // namespace

TEST_CASE("operands by group: rows of no group read 0, whatever the operand is computed from") {
  const auto chain = llvm::cantFail(verify(llvm::cantFail(
      parse("chain c(input x: f32[5, 1], weight w: f32[3, 2, 1], input ends: i32[3],\n"
            "        weight b: f32[2, 3], weight s: f32[3]) {\n"
            "  c = contract \"mk,enk->mn\"(x, w) ragged m by ends over e\n"
            "  y = mul(add(relu(c), add(b, 10) @ \"ne\"), s @ \"e\")\n"
            "  z = add(add(c, 1), add(b, 10) @ \"ne\")\n  return y: f32, z: f32\n}"))));
  const auto x = iota(5), w = iota(6), b = iota(6), s = iota(3, 2);
  for (const std::vector<i32>& ends : std::vector<std::vector<i32>>{{2, 2, 3}, {0, 1, 5}}) {
    const ReferenceInputs inputs{{floats({5, 1}, x), floats({3, 2, 1}, w),
                                  tensor(DType::kI32, {3}, ends.data()), floats({2, 3}, b),
                                  floats({3}, s)}};
    auto reference = Reference::create(chain, inputs);
    REQUIRE(!!reference);
    const auto got = reference->evaluate(1);
    for (int m = 0; m < 5; ++m) {
      int e = 0;
      while (e < 3 && ends[e] <= m) ++e;
      for (int n = 0; n < 2; ++n) {
        const double c = e < 3 ? x[m] * w[e * 2 + n] : 0;
        const double bias = e < 3 ? b[n * 3 + e] + 10 : 0;
        const double y = e < 3 ? (c + bias) * s[e] : 0;
        CHECK(got[0][m * 2 + n].value == y);
        CHECK(got[1][m * 2 + n].value == c + 1 + bias);
        CHECK(reference->output_element(0, m * 2 + n).value == y);
      }
    }
  }
}

TEST_CASE("a sum by group adds the rows of the group, and none past the last end") {
  const auto chain = llvm::cantFail(
      verify(llvm::cantFail(parse("chain c(input x: f32[6, 2, 3], input ends: i32[4]) {\n"
                                  "  y = sum \"mkn->ne\"(mul(x, 2)) ragged m by ends over e\n"
                                  "  return y: f32\n}"))));
  const auto x = iota(36);
  for (const std::vector<i32>& ends :
       std::vector<std::vector<i32>>{{2, 2, 3, 5}, {0, 0, 0, 0}, {0, 6, 6, 6}, {1, 2, 3, 6}}) {
    const ReferenceInputs inputs{{floats({6, 2, 3}, x), tensor(DType::kI32, {4}, ends.data())}};
    auto reference = Reference::create(chain, inputs);
    REQUIRE(!!reference);
    const auto got = reference->evaluate(1);
    for (int n = 0; n < 3; ++n) {
      for (int e = 0; e < 4; ++e) {
        double want = 0;
        for (int m = e > 0 ? ends[e - 1] : 0; m < ends[e]; ++m)
          want += 2 * (x[m * 6 + n] + x[m * 6 + 3 + n]);
        CHECK(got[0][n * 4 + e].value == want);
        CHECK(got[0][n * 4 + e].error == 0);
        CHECK(reference->output_element(0, n * 4 + e).value == want);
      }
    }
  }
  const std::vector<i32> past = {0, 1, 2, 7};
  auto refused =
      Reference::create(chain, {{floats({6, 2, 3}, x), tensor(DType::kI32, {4}, past.data())}});
  REQUIRE_FALSE(!!refused);
  CHECK(take_report(refused.takeError()).message.find("entry 3 of ends 'ends' is 7") !=
        std::string::npos);
}

TEST_CASE("an elementwise value may say which group a row has") {
  const auto chain = llvm::cantFail(verify(
      llvm::cantFail(parse("chain c(input x: f32[2, 5], input ends: i32[2], input b: f32[2, 2]) {\n"
                           "  y = sub(b @ \"en\", x @ \"nm\") ragged m by ends over e\n"
                           "  z = mul(y, b @ \"en\")\n  return z: f32\n}"))));
  const auto x = iota(10), b = iota(4);
  const std::vector<i32> ends = {1, 3};
  auto reference = Reference::create(
      chain, {{floats({2, 5}, x), tensor(DType::kI32, {2}, ends.data()), floats({2, 2}, b)}});
  REQUIRE(!!reference);
  const auto got = reference->evaluate(1);
  for (int n = 0; n < 2; ++n) {
    for (int m = 0; m < 5; ++m) {
      const double own = m < 1 ? b[n] : m < 3 ? b[2 + n] : 0;
      CHECK(got[0][n * 5 + m].value == (own - x[n * 5 + m]) * own);
    }
  }
}

TEST_CASE("an operand by group that takes one by group itself: the group of a group") {
  const auto chain = llvm::cantFail(verify(llvm::cantFail(
      parse("chain c(input x: f32[8, 1], input ends: i32[3], input more: i32[2],\n"
            "        weight s: f32[3], weight u: f32[2]) {\n"
            "  v = mul(s @ \"p\", u @ \"f\") ragged p by more over f\n"
            "  y = mul(x @ \"mn\", v @ \"e\") ragged m by ends over e\n  return y: f32\n}"))));
  const std::vector<float> x(8, 1), s{10, 2, 3}, u{1, 100};
  const std::vector<i32> ends{3, 5, 8}, more{1, 3}, fewer{1, 2};
  for (const std::vector<i32>& groups : {more, fewer}) {
    const ReferenceInputs inputs{{floats({8, 1}, x), tensor(DType::kI32, {3}, ends.data()),
                                  tensor(DType::kI32, {2}, groups.data()), floats({3}, s),
                                  floats({2}, u)}};
    auto reference = Reference::create(chain, inputs);
    REQUIRE(!!reference);
    const auto got = reference->evaluate(1);
    for (int m = 0; m < 8; ++m) {
      const double last = groups[1] > 2 ? 300 : 0;  // a row of no group
      CHECK(got[0][m].value == (m < 3 ? 10 : m < 5 ? 200 : last));
      CHECK(reference->output_element(0, m).value == got[0][m].value);
    }
  }
}
