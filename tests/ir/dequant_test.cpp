// SPDX-License-Identifier: Apache-2.0
// dequant and the packed layout: what verify() rejects, the text form, values of the reference.
#include <doctest/doctest.h>

#include <cmath>

#include "ir/gradient/gradient.h"
#include "ir/reference/reference.h"
#include "tests/support/rejected_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

const Case kDequants[] = {
    {"input x: bf16[4, 64], weight q: i4[8, 64], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, q) return y: f32",
     "'y' uses 'q', which is i4, as an operand: only dequant takes integers, so multiply by "
     "dequant(q, scale) block (rows, columns) with contract"},
    {"weight q: i8[8, 64], weight s: f32[8, 2]", "w = dequant(q, s) block (1, 32) return w: f32",
     "output 'w' is a dequantised weight: only a contraction or a cast to bf16 or f16 takes it, so "
     "return one of these"},
    {"weight q: i8[8, 64], weight s: f32[8, 2]",
     "w = dequant(q, s) block (1, 32) y = relu(w) return y: f32",
     "'y' uses 'w', a dequantised weight: only a contraction or a cast to bf16 or f16 takes it, so "
     "multiply by it with contract, or use a cast of it"},
    {"weight q: i8[8, 64], weight s: f32[8, 2]",
     "y = cast(dequant(q, s) block (1, 32), f32) return y: f32",
     "'y' uses 't2', a dequantised weight: only a contraction or a cast to bf16 or f16 takes it"},
    {"weight q: i8[8, 64], weight s: f32[8, 2]",
     "y = cast(dequant(q, s) block (1, 32), e4m3) return y: e4m3",
     "'y' uses 't2', a dequantised weight: only a contraction or a cast to bf16 or f16 takes it"},
    {"weight q: e4m3[8, 128], weight s: f32[8, 1]",
     "y = cast(dequant(q, s) block (1, 128), bf16) return y: bf16",
     "'y' uses 't2', which is dequantised from fp8: only a contraction takes it, so multiply by it "
     "with contract"},
    {"input x: bf16[4, 64], weight q: i8[8, 64], weight s: f32[8, 4]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "'s' of 't3' is f32[8, 4], and blocks of 1 x 32 of 'q' need f32[8, 2]: give one number"},
    {"input x: bf16[4, 64], weight q: i8[8, 64], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 0)) return y: f32",
     "'t3' has blocks of 1 x 0: a block has 1 to 2^40 rows and columns"},
    {"input x: bf16[4, 64], weight q: bf16[8, 64], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "weight 'q' of 't3' is bf16: declare it i8, i4, u4, e4m3 or e5m2"},
    {"input x: bf16[4, 64], weight q: i4[8, 64], weight s: i8[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "scale 's' of 't3' is i8: declare it bf16, f16 or f32"},
    {"input x: bf16[4, 512], weight q: u4[64, 512] packed, weight s: e4m3[64, 4]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 128)) return y: f32",
     "scale 's' of 't3' is e4m3: declare it bf16, f16 or f32"},
    {"input x: bf16[4, 64], weight q: i8[8, 64], weight s: e5m2[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "scale 's' of 't3' is e5m2: declare it bf16, f16 or f32"},
    {"input x: bf16[4, 64], weight q: i32[8, 64], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "weight 'q' of 't3' is i32: declare it i8, i4, u4, e4m3 or e5m2"},
    {"input x: bf16[4, 64], weight q: i8[8, 64], weight s: i32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "scale 's' of 't3' is i32: declare it bf16, f16 or f32"},
    {"input x: bf16[4, 64], weight q: i4[8, 64], weight s: f32[8, 2], weight z: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s, z) block (1, 32)) return y: f32",
     "zero 'z' of 't4' is f32: declare it i8, i4 or u4"},
    {"input x: bf16[4, 64], weight q: i4[8, 64], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, relu(s)) block (1, 32)) return y: f32",
     "operand 't3' of 't4' is a computed value: dequant reads tensors from memory"},
    {"input x: bf16[4, 64], weight q: i4[8, 64], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s @ \"nk\") block (1, 32)) return y: f32",
     "operand 's' of 't3' has labels: remove '@'"},
    {"input x: f32[4, 64], weight q: i4[8, 64], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "operand 'x' of 'y' is f32 and 't3' is a dequantised weight: that is multiplied by bf16"},
    {"input x: bf16[4, 64], weight q: i4[8, 64], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\" f32 (x, dequant(q, s) block (1, 32)) return y: f32",
     "'y' asks for f32 products but 't3' is a dequantised weight"},
    {"input x: bf16[4, 63], weight q: i4[8, 63], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "dimension 0 of parameter 'q' has stride 63 and two elements share a byte"},
    {"input x: bf16[4, 64], weight q: i4[8, 64] strides[1, 8], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "dimension 0 of parameter 'q' has stride 1 and two elements share a byte"},
    {"input x: bf16[4, 64] packed", "y = neg(x) return y: f32",
     "parameter 'x' is packed and bf16: only i8, i4 and u4 have that layout"},
    {"input x: bf16[4, 64], weight q: i4[64] packed, weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "parameter 'q' is packed and has fewer than two dimensions"},
    {"input x: bf16[4, 64], weight q: i4[8, 64] packed strides[128, 1], weight s: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(q, s) block (1, 32)) return y: f32",
     "parameter 'q' is packed and has strides: leave them out"},
    {"input x: bf16[8, 4, 1], weight q: i8[1099511627776, 1, 1] packed, weight s: f32[8, 1, 1]",
     "y = contract \"bmk,bnk->bmn\"(x, dequant(q, s) block (1, 64)) return y: f32",
     "parameter 'q' has more than 2^46 bytes with the padding of the packed layout",
     ErrorCode::kResourceLimit},
};

VerifiedChain verified(const std::string& text) {
  return llvm::cantFail(verify(llvm::cantFail(parse(text))));
}

// x[1, 4] times w[2, 4], with two columns a scale.
constexpr const char* kSmall =
    "chain c(input x: f16[1, 4], weight q: {}[2, 4]{}, weight s: f32[2, 2], weight z: i8[2, 2]) "
    "{{\n"
    "  w = dequant(q, s, z) block (1, 2)\n  y = contract \"mk,nk->mn\"(x, w)\n"
    "  return y: f32 }}";

// The result for q = {{-8, 7, 1, -1}, {0, 3, -2, 5}} (u4: modulo 16).
std::vector<Interval> small_result(DType dtype, bool packed) {
  const VerifiedChain chain =
      verified(fmt::format(kSmall, dtype_text(dtype), packed ? " packed" : ""));
  const int values[2][4] = {{-8, 7, 1, -1}, {0, 3, -2, 5}};
  const TensorType& type = chain.info(chain.parameters()[1]).type;
  std::vector<std::byte> q(static_cast<size_t>(span_bytes(type)), std::byte{0xa5});
  for (i64 n = 0; n < 2; ++n) {
    for (i64 k = 0; k < 4; ++k) {
      const int value = dtype == DType::kU4 ? values[n][k] & 15 : values[n][k];
      store_element(dtype, q.data(), element_index(type, {n, k}), value);
    }
  }
  std::vector<std::byte> x(8);
  for (i64 k = 0; k < 4; ++k) store_element(DType::kF16, x.data(), k, static_cast<double>(1 + k));
  const float s[4] = {2, 3, -1, 4};
  const signed char z[4] = {1, 0, -2, 100};
  ReferenceInputs inputs;
  const void* data[] = {x.data(), q.data(), s, z};
  for (size_t i = 0; i < 4; ++i)
    inputs.parameters.push_back({chain.info(chain.parameters()[i]).type, data[i]});
  return llvm::cantFail(Reference::create(chain, inputs)).evaluate(1)[0];
}

}  // namespace

TEST_CASE("dequantised weights and packed tensors") {
  for (const Case& bad : kDequants) check_case(bad, "");
}

TEST_CASE("values: (q - zero) * scale, exact for integers, in both layouts") {
  // (-9 + 6 * 2) * 2 + (1 * 3 - 4) * 3; (2 + 5 * 2) * -1 + (-102 * 3 - 95 * 4) * 4.
  for (const DType dtype : {DType::kI8, DType::kI4}) {
    for (const bool packed : {false, true}) {
      const auto y = small_result(dtype, packed);
      CHECK(y[0].value == 3);
      CHECK(y[0].error == 0);
      CHECK(y[1].value == -12 - 4 * (306 + 380));
    }
  }
  // 8, 7, 1, 15: (7 + 6 * 2) * 2 + (3 + 15 * 4) * 3.
  CHECK(small_result(DType::kU4, true)[0].value == 38 + 189);
}

TEST_CASE("a cast of a dequantised weight is a matrix of values that are rounded once") {
  const VerifiedChain chain = verified(
      "chain c(input x: bf16[3, 2], weight q: i8[2, 4], weight s: f32[2, 2], weight z: i8[2, 2]) "
      "{\n"
      "  w = cast(dequant(q, s, z) block (1, 2), bf16)\n  v = add(w @ \"nk\", sum \"nk->n\"(w) @ "
      "\"n\")\n  y = contract \"mn,nk->mk\"(x, w)\n  return w: f32, v: f32, y: f32 }");
  const signed char q[2][4] = {{-128, 127, 1, -1}, {0, 3, -2, 5}}, z[2][2] = {{1, 0}, {-2, 100}};
  const float s[2][2] = {{0.1F, 3}, {-1, 0.7F}};
  const double x[3][2] = {{1, 0}, {0, 1}, {2, -3}};
  std::vector<std::byte> rows(12);
  for (int i = 0; i < 6; ++i) store_element(DType::kBF16, rows.data(), i, x[i / 2][i % 2]);
  ReferenceInputs inputs;
  const void* data[] = {rows.data(), q, s, z};
  for (size_t i = 0; i < 4; ++i)
    inputs.parameters.push_back({chain.info(chain.parameters()[i]).type, data[i]});
  Reference reference = llvm::cantFail(Reference::create(chain, inputs));
  const auto all = reference.evaluate(1);
  double w[2][4], sum[2] = {0, 0};
  for (int n = 0; n < 2; ++n) {
    for (int k = 0; k < 4; ++k) {
      const auto product = static_cast<float>(q[n][k] - z[n][k / 2]) * s[n][k / 2];
      w[n][k] = round_to(DType::kBF16, product);
      CHECK(all[0][n * 4 + k].value == w[n][k]);
      CHECK(accepts(reference.output_element(0, n * 4 + k), DType::kBF16, w[n][k]));
      sum[n] += w[n][k];
    }
  }
  for (int n = 0; n < 2; ++n) {
    for (int k = 0; k < 4; ++k) CHECK(all[1][n * 4 + k].value == doctest::Approx(w[n][k] + sum[n]));
  }
  for (int m = 0; m < 3; ++m) {
    for (int k = 0; k < 4; ++k) {
      const double y = x[m][0] * w[0][k] + x[m][1] * w[1][k];
      CHECK(all[2][m * 4 + k].value == doctest::Approx(y));
      CHECK(reference.output_element(2, m * 4 + k).value == all[2][m * 4 + k].value);
    }
  }
}

TEST_CASE("traffic is that of runs in sectors, at most the span") {
  const auto traffic = [](std::initializer_list<i64> sizes, std::initializer_list<i64> strides) {
    TensorType type;
    type.dtype = DType::kBF16;
    for (const i64 size : sizes) type.shape.push_back({size, false});
    type.strides.assign(strides);
    return traffic_bytes(type);
  };
  CHECK(traffic({64, 4096}, {4096, 1}) == 64 * 8192);
  CHECK(traffic({64, 4096}, {1 << 20, 1}) == 64 * 8192);
  CHECK(traffic({4096, 64}, {1, 1 << 20}) == 64 * 8192);
  CHECK(traffic({8, 20}, {1000, 1}) == 8 * 64);
  CHECK(traffic({8, 20}, {24, 1}) == (7 * 24 + 20) * 2);
  CHECK(traffic({64, 64}, {128, 2}) == (63 * 128 + 63 * 2 + 1) * 2);
  CHECK(traffic({1 << 20, 16}, {0, 1}) == 32);
  CHECK(traffic({4, 0}, {8, 1}) == 0);
}

TEST_CASE("the packed layout holds every element once") {
  for (const DType dtype : {DType::kI8, DType::kI4}) {
    TensorType type;
    type.dtype = dtype;
    type.shape = {{3, false}, {37, false}, {96, false}};
    type.packed = true;
    CHECK(span_elements(type) == 3 * 48 * 128);
    CHECK(span_bytes(type) == storage_bytes(dtype, span_elements(type)));
    std::vector<bool> taken(static_cast<size_t>(span_elements(type)));
    for (i64 e = 0; e < 3; ++e) {
      for (i64 n = 0; n < 37; ++n) {
        for (i64 k = 0; k < 96; ++k) {
          const auto at = static_cast<size_t>(element_index(type, {e, n, k}));
          REQUIRE(at < taken.size());
          CHECK_FALSE(taken[at]);
          taken[at] = true;
        }
      }
    }
  }
}

// Words by hand from the table of shared/packed_weight.h.
TEST_CASE("golden positions of the packed layout") {
  // Row 0: lane 0, word 0, nibble 0; columns 1, 2, 8 and 16: the high half, lane 1, a2, the second
  // MMA.
  CHECK(packed_index(DType::kI4, 0, 0, 128) == 0);
  CHECK(packed_index(DType::kI4, 0, 1, 128) == 4);
  CHECK(packed_index(DType::kI4, 0, 2, 128) == 32);
  CHECK(packed_index(DType::kI4, 0, 4, 128) == 64);
  CHECK(packed_index(DType::kI4, 0, 8, 128) == 2);
  CHECK(packed_index(DType::kI4, 0, 16, 128) == 8);
  CHECK(packed_index(DType::kI4, 0, 32, 128) == 16);
  CHECK(packed_index(DType::kI4, 0, 64, 128) == 1024);
  CHECK(packed_index(DType::kI4, 1, 0, 128) == 4 * 32);
  CHECK(packed_index(DType::kI4, 8, 0, 128) == 1);
  CHECK(packed_index(DType::kI4, 16, 0, 128) == 2048);
  CHECK(packed_index(DType::kI8, 0, 1, 128) == 2);
  CHECK(packed_index(DType::kI8, 0, 2, 128) == 16);
  CHECK(packed_index(DType::kI8, 0, 4, 128) == 32);
  CHECK(packed_index(DType::kI8, 0, 8, 128) == 4);
  CHECK(packed_index(DType::kI8, 0, 16, 128) == 8);
  CHECK(packed_index(DType::kI8, 0, 32, 128) == 512);
  CHECK(packed_index(DType::kI8, 8, 0, 128) == 1);
}

TEST_CASE("a gradient is refused by the name of the op") {
  const VerifiedChain chain = verified(fmt::format(kSmall, "i4", ""));
  auto gradient = make_gradient(chain, {});
  REQUIRE(!gradient);
  const ErrorReport report = take_report(gradient.takeError());
  CHECK(report.code == ErrorCode::kUnsupported);
  CHECK(report.message.find("'dequant' of 'w' has no gradient") != std::string::npos);
}

TEST_CASE("text: the block, the zero and the layout tag round-trip") {
  const std::string text = fmt::format(kSmall, "i4", " packed align 32");
  const Chain chain = llvm::cantFail(parse(text));
  CHECK(print(chain).find("weight q: i4[2, 4] packed align 32") != std::string::npos);
  CHECK(print(chain).find("w = dequant(q, s, z) block (1, 2)\n") != std::string::npos);
  CHECK(llvm::cantFail(parse(print(chain))) == chain);
}
