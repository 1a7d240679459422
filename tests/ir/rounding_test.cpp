// SPDX-License-Identifier: Apache-2.0
// Storage formats: every 16-bit encoding, every midpoint between adjacent values, double rounding.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "ir/reference/reference.h"
#include "ir/reference/reference_interval.h"
#include "shared/fp8.h"

using namespace catenary;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

double decode(DType dtype, std::uint16_t bits) { return load_element(dtype, &bits, 0); }

std::uint16_t encode(DType dtype, double value) {
  std::uint16_t bits = 0;
  store_element(dtype, &bits, 0, value);
  return bits;
}

// A format's values by definition: sign, exponent, fraction.
double decode_slowly(DType dtype, std::uint16_t bits) {
  const int fraction_bits = dtype == DType::kF16 ? 10 : 7;
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  double value = std::ldexp(fraction, 1 - bias - fraction_bits);
  if (exponent == (1 << exponent_bits) - 1) {
    value = fraction ? kNan : kInf;
  } else if (exponent > 0) {
    value = std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  }
  return bits & 0x8000 ? -value : value;
}

void check_all_encodings(DType dtype) {
  int wrong = 0;
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const double value = decode(dtype, bits);
    const double expected = decode_slowly(dtype, bits);
    if (std::isnan(expected)) {
      wrong += !std::isnan(value) || !std::isnan(decode(dtype, encode(dtype, value))) ||
               !std::isnan(round_to(dtype, value));
    } else {
      wrong += value != expected || encode(dtype, value) != bits || round_to(dtype, value) != value;
    }
  }
  CHECK(wrong == 0);
}

// For each pair of adjacent values: the midpoint rounds to even, a value next to it to the nearer
// one.
void check_all_midpoints(DType dtype) {
  const int last = dtype == DType::kF16 ? 0x7bff : 0x7f7f;  // largest finite
  int wrong = 0;
  for (int i = 0; i <= last; ++i) {
    const double low = decode_slowly(dtype, static_cast<std::uint16_t>(i));
    const double step = low - decode_slowly(dtype, static_cast<std::uint16_t>(i ? i - 1 : 1));
    const double high =
        i == last ? low + step : decode_slowly(dtype, static_cast<std::uint16_t>(i + 1));
    const double middle = (low + high) / 2;
    const int even = i % 2 ? i + 1 : i;
    for (int sign : {0, 0x8000}) {
      const double s = sign ? -1 : 1;
      wrong += encode(dtype, s * middle) != (even | sign);
      wrong += encode(dtype, s * std::nextafter(middle, 0)) != (i | sign);
      wrong += encode(dtype, s * std::nextafter(middle, kInf)) != ((i + 1) | sign);
      wrong += round_to(dtype, s * middle) != s * decode(dtype, static_cast<std::uint16_t>(even));
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_SUITE("ir") {
  TEST_CASE("bf16 and f16: all 65,536 encodings decode, encode and round to themselves") {
    check_all_encodings(DType::kBF16);
    check_all_encodings(DType::kF16);
  }

  TEST_CASE("bf16 and f16: all midpoints go to even, into subnormals and infinity too") {
    check_all_midpoints(DType::kBF16);
    check_all_midpoints(DType::kF16);
  }

  // The values of fp8 by definition: sign, exponent, fraction.
  double fp8_slowly(DType dtype, int bits) {
    const bool e4m3 = dtype == DType::kE4M3;
    const int fraction_bits = e4m3 ? 3 : 2, bias = e4m3 ? 7 : 15;
    const int exponent = (bits & 127) >> fraction_bits;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    double value = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                 : std::ldexp((1 << fraction_bits) + fraction,
                                              exponent - bias - fraction_bits);
    if (e4m3 && (bits & 127) == 127) value = kNan;
    if (!e4m3 && exponent == 31) value = fraction ? kNan : kInf;
    return bits & 128 ? -value : value;
  }

  TEST_CASE("e4m3 and e5m2: all encodings, all midpoints to even, saturation, NaN") {
    for (const DType dtype : {DType::kE4M3, DType::kE5M2}) {
      const int last = dtype == DType::kE4M3 ? 0x7e : 0x7b;  // largest finite
      const Fp8Format& format = dtype == DType::kE4M3 ? kE4M3Bits : kE5M2Bits;
      for (int bits = 0; bits < 256; ++bits) {
        const double value = fp8_slowly(dtype, bits);
        const double decoded = decode(dtype, static_cast<std::uint16_t>(bits));
        const double device = fp8_to_f32(format, static_cast<u32>(bits));
        CAPTURE(bits);
        if (std::isnan(value)) {
          CHECK(std::isnan(decoded));
          CHECK(std::isnan(device));
          continue;
        }
        CHECK(decoded == value);
        CHECK(device == value);
        if (std::isinf(value)) continue;
        CHECK(encode(dtype, value) == bits);
        CHECK(f32_to_fp8(format, static_cast<float>(value)) == static_cast<u32>(bits));
        if ((bits & 127) == last) continue;
        const double next = fp8_slowly(dtype, bits + 1);
        const double middle = (value + next) / 2;
        const int even = bits % 2 ? bits + 1 : bits;
        CHECK(encode(dtype, middle) == even);
        CHECK(encode(dtype, std::nextafter(middle, value)) == bits);
        CHECK(encode(dtype, std::nextafter(middle, next)) == bits + 1);
        CHECK(f32_to_fp8(format, static_cast<float>(middle)) == static_cast<u32>(even));
        const float below = std::nextafter(static_cast<float>(middle), static_cast<float>(value));
        CHECK(f32_to_fp8(format, below) == static_cast<u32>(bits));
      }
      const double largest = fp8_slowly(dtype, last);
      for (const double beyond : {largest * 1.01, largest * 1.2, 1e30, kInf}) {
        CHECK(encode(dtype, beyond) == last);
        CHECK(encode(dtype, -beyond) == (last | 128));
        CHECK(round_to(dtype, -beyond) == -largest);
        CHECK(f32_to_fp8(format, static_cast<float>(-beyond)) == static_cast<u32>(last | 128));
      }
      CHECK(std::isnan(round_to(dtype, kNan)));
      CHECK(f32_to_fp8(format, static_cast<float>(kNan)) == 0x7f);
      CHECK(encode(dtype, kNan) == 0x7f);
      // An infinity is stored as the largest value; nothing else is accepted for it.
      CHECK(accepts({kInf, 0}, dtype, largest));
      CHECK_FALSE(accepts({kInf, 0}, dtype, -largest));
      CHECK(cast_interval(dtype, {kInf, 0}).value == largest);
    }
  }

  TEST_CASE("a value is rounded once, not first to f32") {
    // 1 + 2^-8 is a bf16 midpoint (to even: 1). A value slightly above it rounds up, but is that
    // midpoint in f32.
    CHECK(round_to(DType::kBF16, 1 + 0x1p-8) == 1);
    CHECK(round_to(DType::kBF16, 1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7);
    CHECK(round_to(DType::kF16, 1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10);
    CHECK(round_to_tf32(1 + 0x1p-11 - 0x1p-40) == 1);
  }

  TEST_CASE("f32: nearest even, overflow, subnormals") {
    CHECK(round_to(DType::kF32, 1 + 0x1p-24) == 1);
    CHECK(round_to(DType::kF32, 1 + 0x1.8p-23) == 1 + 0x1p-22);
    CHECK(round_to(DType::kF32, 0x1.ffffffp127) == kInf);
    CHECK(round_to(DType::kF32, 0x1.fffffefp127) == 0x1.fffffep127);
    CHECK(round_to(DType::kF32, 0x1p-150) == 0);
    CHECK(round_to(DType::kF32, 0x1.8p-150) == 0x1p-149);
  }

  TEST_CASE("tf32: ten fraction bits, ties away from zero") {
    CHECK(round_to_tf32(1 + 0x1p-11) == 1 + 0x1p-10);
    CHECK(round_to_tf32(-1 - 0x1p-11) == -1 - 0x1p-10);
    CHECK(round_to_tf32(1 + 0x1.8p-10) == 1 + 0x1p-9);
    CHECK(round_to_tf32(0x1.fffffep127) == kInf);
    CHECK(round_to_tf32(0x1p-137) == 0x1p-136);
    CHECK(round_to_tf32(0x1.fp-138) == 0);
    CHECK(std::isnan(round_to_tf32(kNan)));
    // The same as adding half of the last kept bit to the bits of an f32 and truncating.
    std::uint32_t state = 1;
    int wrong = 0;
    for (int i = 0; i < 200000; ++i) {
      state = state * 1664525 + 1013904223;
      const float x = std::bit_cast<float>(state & 0xbfffffff);
      const float expected = std::bit_cast<float>(((state & 0xbfffffff) + 0x1000) & 0xffffe000);
      wrong += round_to_tf32(x) != expected;
    }
    CHECK(wrong == 0);
  }

  TEST_CASE("i32 keeps integers and saturates") {
    CHECK(round_to(DType::kI32, -7) == -7);
    CHECK(round_to(DType::kI32, 1e12) == 2147483647);
    i32 stored = 0;
    store_element(DType::kI32, &stored, 0, -2147483648.0);
    CHECK(stored == -2147483647 - 1);
    CHECK(load_element(DType::kI32, &stored, 0) == -2147483648.0);
  }

  TEST_CASE("load and store address elements, aligned or not") {
    std::vector<unsigned char> bytes(1 + 4 * 4, 0);
    store_element(DType::kF32, bytes.data() + 1, 3, 2.5);
    CHECK(load_element(DType::kF32, bytes.data() + 1, 3) == 2.5);
    CHECK(load_element(DType::kF32, bytes.data() + 1, 2) == 0);
  }

  TEST_CASE("accepts: exactly the values that the interval may round to") {
    const DType bf16 = DType::kBF16;
    CHECK(accepts({1, 0}, bf16, 1));
    CHECK_FALSE(accepts({1, 0}, bf16, 1 + 0x1p-7));
    CHECK(accepts({1 + 0x1p-8, 0x1p-20}, bf16, 1));  // contains the midpoint
    CHECK(accepts({1 + 0x1p-8, 0x1p-20}, bf16, 1 + 0x1p-7));
    CHECK_FALSE(accepts({1 + 0x1p-8, 0x1p-20}, bf16, 1 + 0x1p-6));
    CHECK(accepts({kNan, 0}, bf16, kNan));
    CHECK_FALSE(accepts({kNan, 0}, bf16, 1));
    CHECK_FALSE(accepts({1, 0.5}, bf16, kNan));
    CHECK(accepts({kInf, 0}, bf16, kInf));
    CHECK_FALSE(accepts({kInf, 0}, bf16, -kInf));
    CHECK_FALSE(accepts({kInf, 0}, bf16, 1e38));
    // At the limit of overflow both results are correct.
    CHECK(accepts({65520, 1}, DType::kF16, 65504));
    CHECK(accepts({65520, 1}, DType::kF16, kInf));
    CHECK_FALSE(accepts({65520, 1}, DType::kF16, -kInf));
    CHECK(accepts({0, kInf}, bf16, kNan));
  }
}

TEST_CASE("a tie of tf32 may round either way, unless both agree") {
  const auto is = [](const Interval& x, double low, double high) {
    return x.value - x.error == low && x.value + x.error == high;
  };
  // The lower neighbour is even, so that both roundings differ; above it they agree.
  CHECK(is(tf32_interval({1 + 0x1p-11, 0}), 1, 1 + 0x1p-10));
  CHECK(is(tf32_interval({-1 - 0x1p-11, 0}), -1 - 0x1p-10, -1));
  CHECK(is(tf32_interval({1 + 0x1.8p-10, 0}), 1 + 0x1p-9, 1 + 0x1p-9));
  CHECK(is(tf32_interval({1 + 0x1.1p-11, 0}), 1 + 0x1p-10, 1 + 0x1p-10));
  CHECK(is(tf32_interval({1, 0x1p-11}), 1 - 0x1p-10, 1 + 0x1p-10));
  CHECK(std::isnan(tf32_interval({std::nan(""), 0}).value));
  CHECK(std::isinf(tf32_interval({0x1.fffp127, 0}).value));
  CHECK(std::isinf(tf32_interval({1, std::numeric_limits<double>::infinity()}).error));
}
