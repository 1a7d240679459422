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
