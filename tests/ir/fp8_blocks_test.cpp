// SPDX-License-Identifier: Apache-2.0
// fp8 operands with scales per block: what verify() rejects, values and error bounds of the
// reference, scales that are zero, NaN, infinite, subnormal and large.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "ir/reference/reference.h"
#include "tests/support/rejected_chain.h"

using namespace catenary;
using namespace catenary::testing;

namespace {

const Case kRejected[] = {
    {"input x: e4m3[4, 256], input s: bf16[4, 2], weight w: e4m3[8, 256], weight t: f32[1, 2]",
     "y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128)) "
     "return y: f32",
     "scale 's' of 't4' is bf16: declare it f32, as scales of fp8 are"},
    {"input x: e4m3[4, 256], input s: f32[4, 2], weight w: e4m3[8, 256], weight t: f32[1, 2], "
     "weight z: i8[1, 2]",
     "y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t, z) block (128, 128)) "
     "return y: f32",
     "'t6' has zeros, and 'w' is e4m3: leave them out, only integers have them"},
    {"input x: e4m3[4, 256], weight w: e4m3[8, 256], weight t: f32[1, 2]",
     "y = contract \"mk,nk->mn\"(x, dequant(w, t) block (128, 128)) return y: f32",
     "operand 'x' of 'y' is e4m3 and 't3' is e4m3 with scales: that is multiplied by e4m3 with "
     "scales, so dequant both"},
    {"input x: bf16[4, 256], weight w: e4m3[8, 256], weight t: f32[1, 2]",
     "y = contract \"nk,mk->nm\"(dequant(w, t) block (128, 128), x) return y: f32",
     "operand 'x' of 'y' is bf16 and 't3' is e4m3 with scales"},
    {"input x: e5m2[4, 256], input s: f32[4, 2], weight w: e4m3[8, 256], weight t: f32[1, 2]",
     "y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128)) "
     "return y: f32",
     "operand 't5' of 'y' is e4m3 and 't4' is e5m2 with scales"},
    {"input x: e4m3[4, 256], input s: f32[4, 2], weight w: i8[8, 256], weight t: f32[8, 2]",
     "y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (1, 128)) "
     "return y: f32",
     "operand 't5' of 'y' is i8 and 't4' is e4m3 with scales"},
    {"input x: e4m3[4, 256], input s: f32[4, 2], weight w: e4m3[8, 256], weight t: f32[1, 2]",
     "y = contract \"mk,nk->mn\" fast_accum (dequant(x, s) block (1, 128), dequant(w, t) block "
     "(128, 128)) return y: f32",
     "'y' asks for fast accumulation but its operands have scales per block"},
    {"input x: e4m3[4, 256], input s: f32[4, 2]", "w = dequant(x, s) block (1, 128) return w: f32",
     "output 'w' is a dequantised weight: only a contraction takes it"},
    {"input x: e4m3[4, 256] packed, input s: f32[4, 2]",
     "w = dequant(x, s) block (1, 128) return w: f32",
     "parameter 'x' is packed and e4m3: only i8, i4 and u4 have that layout"},
};

const Case kSymbols[] = {
    {"input x: e4m3[M, 256], input s: f32[1, 2], weight w: e4m3[8, 256], weight t: f32[1, 2]",
     "y = contract \"mk,nk->mn\"(dequant(x, s) block (128, 128), dequant(w, t) block (128, 128)) "
     "return y: f32",
     "operand 'x' of 't4' is e4m3[M, 256]: dequant takes a matrix whose number of rows may be a "
     "symbol where each has scales of its own"},
    {"input x: e4m3[4, M] strides[8, 1], input s: f32[4, M] strides[8, 1], "
     "weight w: e4m3[8, M] strides[8, 1], weight t: f32[1, M] strides[8, 1]",
     "y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 1), dequant(w, t) block (128, 1)) "
     "return y: f32",
     "operand 'x' of 't4' is e4m3[4, M]: dequant takes a matrix"},
};

constexpr const char* kChain =
    "chain c(input x: e4m3[1, 160], input s: f32[1, 2], weight w: e4m3[2, 160],\n"
    "        weight t: f32[1, 2]) {\n"
    "  y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128), dequant(w, t) block (128, 128))\n"
    "  return y: f32 }";

// Both results of x = 0.375 and w = 0.75, all elements alike; of whole outputs and of one element
// at a time, which must agree.
Interval result(const float (&s)[2], const float (&t)[2]) {
  const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(kChain))));
  const std::vector<u8> x(160, 0x2c), w(320, 0x34);
  const void* data[] = {x.data(), s, w.data(), t};
  ReferenceInputs inputs;
  for (size_t i = 0; i < 4; ++i)
    inputs.parameters.push_back({chain.info(chain.parameters()[i]).type, data[i]});
  Reference reference = llvm::cantFail(Reference::create(chain, inputs));
  const std::vector<Interval> all = reference.evaluate(1)[0];
  REQUIRE(all.size() == 2);
  const Interval one = reference.output_element(0, 1);
  if (!std::isnan(one.value)) CHECK(one.value == all[1].value);
  CHECK(std::isinf(one.error) == std::isinf(all[1].error));
  if (!std::isinf(one.error)) CHECK(one.error == doctest::Approx(all[1].error).epsilon(1e-9));
  return all[1];
}

}  // namespace

TEST_CASE("what verify() rejects") {
  for (const Case& bad : kRejected) check_case(bad, "");
  for (const Case& bad : kSymbols) check_case(bad, "[M in 1..8]");
}

TEST_CASE("rows with scales of their own may be a symbol, in either order of the scales") {
  for (const char* strides : {"", " strides[1, 300]"}) {
    auto chain = parse(fmt::format(
        "chain c[M in 0..300](input x: e4m3[M, 256], input s: f32[M, 2]{}, weight w: e4m3[8, "
        "256],\n"
        "  weight t: f32[1, 2]) {{ y = contract \"mk,nk->mn\"(dequant(x, s) block (1, 128),\n"
        "  dequant(w, t) block (128, 128)) return y: f32 }}",
        strides));
    REQUIRE(!!chain);
    CHECK(!!verify(std::move(*chain)));
  }
}

TEST_CASE("sums of 128 terms have the error of fp8 sums and that of the scales' product") {
  const double p = 0.375 * 0.75;
  // Scales that are no powers of two, each with a product that f32 rounds.
  const float s[2] = {1.1f, 0.3f}, t[2] = {0.7f, 1.9f};
  const double scale[2] = {static_cast<double>(s[0]) * t[0], static_cast<double>(s[1]) * t[1]};
  const Interval y = result(s, t);
  const double first = 128 * p * scale[0], second = 32 * p * scale[1];
  CHECK(y.value == doctest::Approx(first + second).epsilon(1e-12));
  double bound = 0;
  for (int i = 0; i < 4; ++i) bound += 33 * (i == 0 ? 1 : 32 * i) + 32 * (i + 1);
  bound = (bound * scale[0] + (33 + 32) * scale[1]) * p * 0x1p-13;
  const double least = bound + 0x1p-24 * (first + (first + second) + first + second);
  CHECK(y.error >= least * (1 - 1e-9));
  // The operands' own roundings to f32, which a kernel does not make, are little beside it.
  CHECK(y.error <= least + 0x1p-22 * (first + second));
}

TEST_CASE("integers with scales that are integers are exact") {
  const float s[2] = {2, -1}, t[2] = {4, 8};
  const VerifiedChain chain = llvm::cantFail(verify(llvm::cantFail(parse(kChain))));
  const std::vector<u8> x(160, 0x40), w(320, 0x38);  // 2 and 1
  const void* data[] = {x.data(), s, w.data(), t};
  ReferenceInputs inputs;
  for (size_t i = 0; i < 4; ++i)
    inputs.parameters.push_back({chain.info(chain.parameters()[i]).type, data[i]});
  const Interval y = llvm::cantFail(Reference::create(chain, inputs)).evaluate(1)[0][0];
  CHECK(y.value == 128 * 2 * 8 - 32 * 2 * 8);
  CHECK(y.error == 0);
  CHECK(chain_is_exact(chain));
}

TEST_CASE("scales that are zero, NaN, infinite, subnormal or large") {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(result({0, 0}, {1, 1}).value == 0);
  CHECK(std::isnan(result({1, kNan}, {1, 1}).value));
  CHECK(result({1, kNan}, {1, 1}).error == 0);
  CHECK(std::isinf(result({1, 1}, {kInfinity, 1}).error));
  // The product of two scales may overflow though the result does not.
  CHECK(std::isinf(result({0x1p63f, 1}, {0x1p-63f, 1}).error));
  CHECK_FALSE(std::isinf(result({0x1p62f, 1}, {0x1p62f, 1}).error));
  // A product of 2^-150, which f32 rounds to 0.
  const Interval small = result({0x1p-75f, 0}, {0x1p-75f, 0});
  CHECK(small.error >= small.value);
}
