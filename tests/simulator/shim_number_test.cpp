// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the host shims: conversions against the reference's formats at every rounding
// decision; approximate functions within the bounds that the wrappers document; NaN, zeros,
// subnormals; accumulators in flight.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "ir/reference/reference.h"
#include "sim/ptx/convert.cuh"
#include "sim/ptx/math.cuh"
#include "tests/support/sim_kernel.h"

namespace catenary {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

float as_float(u32 bits) { return std::bit_cast<float>(bits); }
u32 as_bits(float v) { return std::bit_cast<u32>(v); }

u16 reference_bits(DType dtype, float v) {
  u16 bits = 0;
  store_element(dtype, &bits, 0, v);
  return bits;
}

// All signs and exponents, with fractions around every rounding decision of 7, 10 and fewer bits.
std::vector<float> rounding_samples() {
  std::vector<u32> fractions;
  for (int bit = 0; bit < 23; ++bit) {
    for (const u32 upper : {0u, 1u, 2u, 3u, 0x7fffffu}) {
      for (const int beside : {-1, 0, 1}) {
        const u32 cut = 1u << bit;
        fractions.push_back(((upper << (bit + 1)) + cut + static_cast<u32>(beside)) & 0x7fffffu);
      }
    }
  }
  std::vector<float> samples;
  for (u32 head = 0; head < 512; ++head) {
    for (const u32 fraction : fractions) samples.push_back(as_float(head << 23 | fraction));
  }
  return samples;
}

bool same(float a, float b) { return as_bits(a) == as_bits(b) || (a != a && b != b); }

// Relative to the exact value; subnormals are compared after their flush to zero.
double relative_error(float got, long double exact) {
  if (fabsl(exact) < 0x1p-126L) return got == 0.0f ? 0.0 : 1.0;
  if (fabsl(exact) >= 0x1p128L) return std::isinf(got) ? 0.0 : 1.0;
  return static_cast<double>(fabsl((got - exact) / exact));
}

}  // namespace

TEST_CASE("16-bit conversions round as the reference does") {
  int wrong = 0;
  for (const float v : rounding_samples()) {
    const bool nan = v != v;
    const u16 bf16 = nan ? 0x7fff : reference_bits(DType::kBF16, v);
    const u16 f16 = nan ? 0x7fff : reference_bits(DType::kF16, v);
    wrong += f32_to_bf16(v) != bf16 || f32_to_f16(v) != f16;
    wrong += f32_to_bf16x2(v, 1.0f) != (0x3f800000u | bf16);
    wrong += f32_to_f16x2(1.0f, v) != (0x3c00u | static_cast<u32>(f16) << 16);
  }
  CHECK(wrong == 0);
  CHECK(f32_to_f16(65519.996f) == 0x7bff);
  CHECK(f32_to_f16(65520.0f) == 0x7c00);
  CHECK(f32_to_f16(-0x1p-25f) == 0x8000);
  CHECK(f32_to_bf16(as_float(0x7f7f8000)) == 0x7f80);
}

TEST_CASE("16-bit numbers become f32 exactly") {
  int wrong = 0;
  for (u32 i = 0; i < 65536; ++i) {
    const u16 bits = static_cast<u16>(i);
    wrong += !same(f16_to_f32(bits), static_cast<float>(load_element(DType::kF16, &bits, 0)));
    wrong += !same(bf16_to_f32(bits), static_cast<float>(load_element(DType::kBF16, &bits, 0)));
  }
  CHECK(wrong == 0);
}

TEST_CASE("tf32 rounds to nearest, ties away") {
  int wrong = 0;
  for (const float v : rounding_samples()) {
    const float rounded = as_float(f32_to_tf32(as_bits(v)));
    if (v != v) {
      wrong += as_bits(rounded) != (as_bits(v) & 0xffffe000u);
      continue;
    }
    wrong += !same(rounded, static_cast<float>(round_to_tf32(v)));
    wrong += (as_bits(rounded) & 0x1fff) != 0;
  }
  CHECK(wrong == 0);
  CHECK(f32_to_tf32(0x3f801000) == 0x3f802000);
  CHECK(f32_to_tf32(0x3f800fff) == 0x3f800000);
  CHECK(f32_to_tf32(0xff7fffff) == as_bits(-kInf));
}

TEST_CASE("approximate functions are within their bounds and flush subnormals") {
  std::mt19937 random(1);
  double ex2 = 0, rcp = 0, lg2 = 0, rsqrt = 0;
  for (int i = 0; i < 200000; ++i) {
    const float v = as_float(random() & 0x7fffffffu);
    if (!(v >= 0x1p-126f && v < kInf)) continue;
    const float exponent = std::uniform_real_distribution<float>(-130.0f, 130.0f)(random);
    ex2 = std::max(ex2, relative_error(ex2_approx(exponent), exp2l(exponent)));
    rcp = std::max(rcp, relative_error(rcp_approx(-v), -1.0L / v));
    lg2 = std::max(lg2, relative_error(lg2_approx(v), log2l(v)));
    rsqrt = std::max(rsqrt, relative_error(rsqrt_approx(v), 1 / sqrtl(v)));
  }
  CHECK(ex2 < 0x1p-22);
  CHECK(rcp < 0x1p-23);
  CHECK(lg2 < 0x1p-22);
  CHECK(rsqrt < 0x1p-23);
  CHECK(rsqrt_approx(0x1p-148f) == 0x1p74f);
  CHECK(rsqrt_approx(-0.0f) == -kInf);
  CHECK(as_bits(rsqrt_approx(-0x1p-149f)) == 0x7fffffffu);
  CHECK(as_bits(sqrt_rn(-1.0f)) == 0x7fffffffu);
  CHECK(as_bits(sqrt_rn(-0.0f)) == 0x80000000u);
  CHECK(rcp_rn(0x1p127f) == 0x1p-127f);
  CHECK(ex2_approx(-127.0f) == 0.0f);
  CHECK(ex2_approx(-kInf) == 0.0f);
  CHECK(ex2_approx(128.0f) == kInf);
  CHECK(ex2_approx(-0x1p-140f) == 1.0f);
  CHECK(as_bits(rcp_approx(-0x1.8p126f)) == 0x80000000u);
  CHECK(rcp_approx(-0x1p-127f) == -kInf);
  CHECK(rcp_approx(kInf) == 0.0f);
  CHECK(lg2_approx(0x1p-130f) == -kInf);
  CHECK(lg2_approx(-0.0f) == -kInf);
  CHECK(lg2_approx(kInf) == kInf);
  CHECK(as_bits(lg2_approx(-1.0f)) == 0x7fffffffu);
  CHECK(as_bits(ex2_approx(kNan)) == 0x7fffffffu);
}

TEST_CASE("minima, maxima and signs") {
  CHECK(as_bits(min_number(0.0f, -0.0f)) == 0x80000000u);
  CHECK(as_bits(min_number(-0.0f, 0.0f)) == 0x80000000u);
  CHECK(as_bits(max_nan(0.0f, -0.0f)) == 0);
  CHECK(as_bits(max_nan(-0.0f, 0.0f)) == 0);
  CHECK(min_number(kNan, 2.0f) == 2.0f);
  CHECK(min_number(2.0f, kNan) == 2.0f);
  CHECK(as_bits(min_number(kNan, kNan)) == 0x7fffffffu);
  CHECK(as_bits(min_nan(2.0f, kNan)) == 0x7fffffffu);
  CHECK(as_bits(max_nan(kNan, 2.0f)) == 0x7fffffffu);
  CHECK(min_nan(-3.0f, 2.0f) == -3.0f);
  CHECK(max_nan(-3.0f, 2.0f) == 2.0f);
  CHECK(abs_f32(-kInf) == kInf);
  CHECK(as_bits(neg_f32(0.0f)) == 0x80000000u);
}

TEST_CASE("arithmetic rounds once, keeps subnormals, and has one NaN") {
  CHECK(add_rn(0x1p-140f, 0x1p-140f) == 0x1p-139f);
  CHECK(mul_rn(0x1p-70f, 0x1p-70f) == 0x1p-140f);
  const float third = 1.0f / 3.0f;
  // 3 * f32(1/3) is 1 + 2^-25: one rounding keeps the difference from 1, two lose it.
  CHECK(fma_rn(third, 3.0f, -1.0f) == 0x1p-25f);
  CHECK(sub_rn(mul_rn(third, 3.0f), 1.0f) == 0.0f);
  CHECK(as_bits(add_rn(kInf, -kInf)) == 0x7fffffffu);
  CHECK(as_bits(mul_rn(0.0f, kInf)) == 0x7fffffffu);
  CHECK(as_bits(fma_rn(kNan, 1.0f, 1.0f)) == 0x7fffffffu);
}

TEST_CASE("an accumulator in flight as an operand of a host shim is a fault") {
  const u32 bits = sim::kAccumulatorInFlight;
  const float v = as_float(bits);
  const std::vector<std::function<void()>> uses = {
      [=] { add_rn(1.0f, v); },
      [=] { fma_rn(1.0f, 1.0f, -v); },
      [=] { max_nan(v, 0.0f); },
      [=] { min_number(0.0f, v); },
      [=] { ex2_approx(v); },
      [=] { f32_to_bits(v); },
      [=] { f32_to_bf16x2(1.0f, v); },
      [=] { f32_to_f16(v); },
      [=] { f32_to_tf32(bits); },
      [=] { abs_f32(v); },
      [=] { neg_f32(v); },
      [=] { rsqrt_approx(v); },
      [=] { sqrt_rn(v); },
      [=] { rcp_rn(v); },
  };
  for (size_t i = 0; i < uses.size(); ++i) {
    INFO("use ", i);
    sim::Memory memory;
    testing::SimKernel kernel;
    kernel.body = [&](sim::Machine& machine) {
      sim::machine = &machine;
      uses[i]();
    };
    std::string message;
    CHECK(testing::fault_of(memory, {kernel}, 1, &message) == "accumulator");
    CHECK(message.find("shim_number_test.cpp") != std::string::npos);
  }
}

}  // namespace catenary
