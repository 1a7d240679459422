// SPDX-License-Identifier: Apache-2.0
// Storage formats <-> double. Every rounding goes directly from double to the format, so that no
// value is rounded twice.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "ir/reference/reference.h"

namespace catenary {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A binary format narrower than double. `fraction` counts the explicit fraction bits.
struct Format {
  int fraction;
  double smallest_normal;
  double smallest;         // subnormal
  double largest;          // finite
  bool saturates = false;  // values beyond the largest become it, infinities too
};
constexpr Format kBF16Format{7, 0x1p-126, 0x1p-133, 0x1.fep127};
constexpr Format kF16Format{10, 0x1p-14, 0x1p-24, 0x1.ffcp15};
constexpr Format kTF32Format{10, 0x1p-126, 0x1p-136, 0x1.ffcp127};
constexpr Format kE4M3Format{3, 0x1p-6, 0x1p-9, 0x1.cp8, true};
constexpr Format kE5M2Format{2, 0x1p-14, 0x1p-16, 0x1.cp15, true};

// Normal numbers: adding half of the last kept bit carries into the exponent if necessary.
// Subnormals are fixed point: scaling by a power of two turns their rounding into rounding to an
// integer.
template <bool kTiesAway>
double round_format(const Format& format, double value) {
  if (std::isnan(value) || (std::isinf(value) && !format.saturates)) return value;
  const double magnitude = std::fabs(value);
  double rounded;
  if (format.saturates && magnitude >= format.largest) {
    rounded = format.largest;
  } else if (magnitude < format.smallest_normal) {
    const double steps = magnitude / format.smallest;
    rounded = (kTiesAway ? std::round(steps) : std::nearbyint(steps)) * format.smallest;
  } else {
    const int dropped = 52 - format.fraction;
    std::uint64_t bits = std::bit_cast<std::uint64_t>(magnitude);
    const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
    bits += kTiesAway ? half : half - 1 + ((bits >> dropped) & 1);
    rounded = std::bit_cast<double>(bits >> dropped << dropped);
    if (rounded > format.largest) rounded = kInfinity;
  }
  return std::copysign(rounded, value);
}

double round_f32(double value) { return static_cast<double>(static_cast<float>(value)); }

// To the nearest integer in [lo, hi], ties to even; NaN is 0.
i32 round_integer(double value, double lo, double hi) {
  if (std::isnan(value)) return 0;
  return static_cast<i32>(std::clamp(std::nearbyint(value), lo, hi));
}
i32 round_i32(double value) { return round_integer(value, -0x1p31, 0x1p31 - 1); }
i32 round_i8(double value) { return round_integer(value, -128, 127); }
i32 round_i4(double value) { return round_integer(value, -8, 7); }
i32 round_u4(double value) { return round_integer(value, 0, 15); }

double decode_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double value;
  if (exponent == 31) {
    value = fraction ? std::numeric_limits<double>::quiet_NaN() : kInfinity;
  } else if (exponent == 0) {
    value = fraction * 0x1p-24;
  } else {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return std::copysign(value, bits & 0x8000 ? -1.0 : 1.0);
}

// `value` is one of the format's values.
std::uint16_t encode_f16(double value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7e00;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | 0x7c00;
  if (magnitude < kF16Format.smallest_normal) {
    return sign | static_cast<std::uint16_t>(magnitude / kF16Format.smallest);
  }
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(magnitude);
  const int exponent = static_cast<int>(bits >> 52) - 1023 + 15;
  return static_cast<std::uint16_t>(sign | exponent << 10 | (bits >> 42 & 1023));
}

// e4m3 has exponent bias 7 and 3 fraction bits, e5m2 15 and 2. All exponent bits set is infinity or
// NaN in e5m2; in e4m3 only with all fraction bits set, a NaN.
double decode_fp8(DType dtype, u8 bits) {
  const Format& format = dtype == DType::kE4M3 ? kE4M3Format : kE5M2Format;
  const int magnitude = bits & 0x7f;
  const int exponent = magnitude >> format.fraction;
  const int fraction = magnitude & ((1 << format.fraction) - 1);
  double value;
  if (dtype == DType::kE4M3 ? magnitude == 0x7f : magnitude > 0x7c) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (dtype == DType::kE5M2 && magnitude == 0x7c) {
    value = kInfinity;
  } else if (exponent == 0) {
    value = fraction * format.smallest;
  } else {
    value = std::ldexp((1 << format.fraction) + fraction, exponent - 1) * format.smallest;
  }
  return std::copysign(value, bits & 0x80 ? -1.0 : 1.0);
}

// `value` is one of the format's finite values, or NaN.
u8 encode_fp8(const Format& format, double value) {
  const u8 sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7f;
  const double steps = std::fabs(value) / format.smallest;
  const int one = 1 << format.fraction;
  if (steps < one) return sign | static_cast<u8>(steps);
  const int exponent = std::ilogb(steps) - format.fraction;
  return sign | static_cast<u8>((exponent << format.fraction) + std::ldexp(steps, -exponent));
}

// The bits of a 4-bit element: the low nibble of a byte first.
u8 read_nibble(const void* data, i64 index) {
  return static_cast<const u8*>(data)[index / 2] >> (index % 2 * 4) & 15;
}

void write_nibble(void* data, i64 index, i32 value) {
  u8& byte = static_cast<u8*>(data)[index / 2];
  const int shift = static_cast<int>(index % 2 * 4);
  byte = static_cast<u8>((byte & ~(15 << shift)) | (value & 15) << shift);
}

template <typename T>
T read(const void* data, i64 index) {
  T bits;
  std::memcpy(&bits, static_cast<const char*>(data) + index * static_cast<i64>(sizeof(T)),
              sizeof(T));
  return bits;
}

template <typename T>
void write(void* data, i64 index, T bits) {
  std::memcpy(static_cast<char*>(data) + index * static_cast<i64>(sizeof(T)), &bits, sizeof(T));
}

}  // namespace

double load_element(DType dtype, const void* data, i64 index) {
  switch (dtype) {
    case DType::kBF16:
      return std::bit_cast<float>(std::uint32_t{read<std::uint16_t>(data, index)} << 16);
    case DType::kF16:
      return decode_f16(read<std::uint16_t>(data, index));
    case DType::kF32:
      return read<float>(data, index);
    case DType::kI32:
      return read<i32>(data, index);
    case DType::kI8:
      return read<signed char>(data, index);
    case DType::kI4:
      return (read_nibble(data, index) ^ 8) - 8;
    case DType::kU4:
      return read_nibble(data, index);
    case DType::kE4M3:
    case DType::kE5M2:
      return decode_fp8(dtype, read<u8>(data, index));
  }
  return 0;
}

void store_element(DType dtype, void* data, i64 index, double value) {
  switch (dtype) {
    case DType::kBF16: {
      const float rounded = static_cast<float>(round_format<false>(kBF16Format, value));
      // A NaN with a payload only in the low half would become an infinity: set the quiet bit.
      const std::uint32_t quiet = std::isnan(rounded) ? 0x00400000 : 0;
      write(data, index,
            static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(rounded) | quiet) >> 16));
      return;
    }
    case DType::kF16:
      write(data, index, encode_f16(round_format<false>(kF16Format, value)));
      return;
    case DType::kF32:
      write(data, index, static_cast<float>(value));
      return;
    case DType::kI32:
      write(data, index, round_i32(value));
      return;
    case DType::kI8:
      write(data, index, static_cast<signed char>(round_i8(value)));
      return;
    case DType::kI4:
      write_nibble(data, index, round_i4(value));
      return;
    case DType::kU4:
      write_nibble(data, index, round_u4(value));
      return;
    case DType::kE4M3:
      write(data, index, encode_fp8(kE4M3Format, round_format<false>(kE4M3Format, value)));
      return;
    case DType::kE5M2:
      write(data, index, encode_fp8(kE5M2Format, round_format<false>(kE5M2Format, value)));
      return;
  }
}

double round_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kBF16:
      return round_format<false>(kBF16Format, value);
    case DType::kF16:
      return round_format<false>(kF16Format, value);
    case DType::kF32:
      return round_f32(value);
    case DType::kI32:
      return round_i32(value);
    case DType::kI8:
      return round_i8(value);
    case DType::kI4:
      return round_i4(value);
    case DType::kU4:
      return round_u4(value);
    case DType::kE4M3:
      return round_format<false>(kE4M3Format, value);
    case DType::kE5M2:
      return round_format<false>(kE5M2Format, value);
  }
  return value;
}

double round_to_tf32(double value, bool ties_to_even) {
  return ties_to_even ? round_format<false>(kTF32Format, value)
                      : round_format<true>(kTF32Format, value);
}

bool accepts(const Interval& expected, DType dtype, double got) {
  if (std::isinf(expected.error)) return true;
  if (std::isnan(expected.value)) return std::isnan(got);
  if (std::isinf(expected.value)) return got == round_to(dtype, expected.value);
  return round_to(dtype, expected.value - expected.error) <= got &&
         got <= round_to(dtype, expected.value + expected.error);
}

}  // namespace catenary
