// SPDX-License-Identifier: Apache-2.0
// Cases of convert.cu, half2.cu and math.cu, computed in float64.
#include "tests/instructions/bytes.h"

namespace catenary::instructions {
namespace {

constexpr size_t kValues = 1024;
constexpr u32 kNan = 0x7fffffff;  // of 32 bits; 0x7fff of 16

// Zeros, ones, subnormals, ties of every format, limits, infinities, NaNs; then random bits.
std::vector<u32> patterns(u64 seed) {
  std::vector<u32> list = {0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x00000001, 0x80000001,
                           0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
                           0x7fc00000, 0xffc00000, 0x7f800001, 0x3f808000, 0x3f818000, 0x3f801000,
                           0x3f803000, 0x3f808001, 0x3f807fff, 0x3f801001, 0x3f800fff, 0xbf801000,
                           0x477fe000, 0x477fefff, 0x477ff000, 0x47800000, 0x33000000, 0x33000001,
                           0x33800000, 0x33c00000, 0x387fc000, 0x387fe000, 0x387fffff, 0x38800000,
                           0x7f7fffff, 0x7f7f8000, 0x7f7f7fff, 0x7f7ff000, 0x7f7fefff, 0x00008000,
                           // Limits, ties and subnormals of e4m3 and e5m2.
                           0x43e00000, 0x43e7ffff, 0x43e80000, 0xc3f00000, 0x3f880000, 0x3f980000,
                           0x3a800000, 0x3a800001, 0x3ac00000, 0x3c7fffff, 0x47600000, 0x476fffff,
                           0x47700000, 0xc7800000, 0x3f900000, 0x3fb00000, 0x37000000, 0x37000001};
  Random random(seed);
  while (list.size() < kValues) {
    const u32 bits = random.word();
    // Half of them in the range of f16.
    list.push_back(list.size() % 2 == 0 ? bits
                                        : (bits & 0x80ffffff) | 0x38000000 | (bits & 0x7000000));
  }
  return list;
}

float number(u32 bits) { return std::bit_cast<float>(bits); }

// Rounds a finite value to `fraction` bits after the leading one, with exponents from `lowest` on.
double rounded(double value, int fraction, int lowest, bool ties_away) {
  int exponent;
  std::frexp(value, &exponent);
  const double quantum = std::ldexp(1.0, std::max(exponent - 1, lowest) - fraction);
  const double steps = value / quantum;
  return (ties_away ? std::round(steps) : std::nearbyint(steps)) * quantum;
}

u16 to_bf16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const double value = std::isinf(x) ? x : rounded(x, 7, -126, false);
  return static_cast<u16>(std::bit_cast<u32>(static_cast<float>(value)) >> 16);
}

u16 to_f16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const u16 sign = std::signbit(x) ? 0x8000 : 0;
  const double value = std::isinf(x) ? x : rounded(x, 10, -14, false);
  const double magnitude = std::abs(value);
  if (magnitude >= 65536) return sign | 0x7c00;
  if (magnitude < 0x1p-14) return sign | static_cast<u16>(magnitude * 0x1p24);
  int exponent;
  const double fraction = std::frexp(magnitude, &exponent);  // 0.5 .. 1
  return sign | static_cast<u16>(((exponent + 13) << 10) + static_cast<int>(fraction * 2048));
}

u32 to_tf32(float x) {
  // The payload is truncated, not rounded: a NaN with only low bits becomes infinite.
  if (std::isnan(x)) return std::bit_cast<u32>(x) & 0xffffe000;
  const double value = std::isinf(x) ? x : rounded(x, 10, -126, true);
  return std::bit_cast<u32>(static_cast<float>(value));
}

u32 from_f16(u16 bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  if (exponent == 31 && fraction != 0) return kNan;
  const double magnitude = exponent == 31  ? HUGE_VAL
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return std::bit_cast<u32>(static_cast<float>(bits >> 15 != 0 ? -magnitude : magnitude));
}

// A format of 8 bits: explicit fraction bits, bias, largest finite value.
struct Fp8 {
  int fraction, bias;
  double largest;
};
constexpr Fp8 kE4M3 = {3, 7, 448}, kE5M2 = {2, 15, 57344};

u32 to_fp8(const Fp8& f, float x) {
  if (std::isnan(x)) return 0x7f;
  const u32 sign = std::signbit(x) ? 0x80 : 0;
  const double finite = std::min(std::abs(static_cast<double>(x)), 2 * f.largest);
  const double value = std::min(rounded(finite, f.fraction, 1 - f.bias, false), f.largest);
  const double normal = std::ldexp(1.0, 1 - f.bias);
  if (value < normal) return sign | static_cast<u32>(value / std::ldexp(normal, -f.fraction));
  int exponent;
  const double fraction = std::frexp(value, &exponent);  // 0.5 .. 1
  return sign | static_cast<u32>(((exponent - 2 + f.bias) << f.fraction) +
                                 static_cast<int>(std::ldexp(fraction, f.fraction + 1)));
}

// As f16, which has all of its values.
u16 fp8_to_f16(const Fp8& f, u32 bits) {
  const u32 magnitude = bits & 0x7f;
  const int exponent = static_cast<int>(magnitude >> f.fraction);
  const int fraction = static_cast<int>(magnitude & ((1u << f.fraction) - 1));
  const bool e4m3 = f.fraction == 3;
  if (e4m3 ? magnitude == 0x7f : magnitude > 0x7c) return 0x7fff;
  double value = std::ldexp(exponent == 0 ? fraction : (1 << f.fraction) + fraction,
                            std::max(exponent, 1) - f.bias - f.fraction);
  if (!e4m3 && magnitude == 0x7c) value = HUGE_VAL;
  return to_f16(static_cast<float>((bits & 0x80) != 0 ? -value : value));
}

u32 pair(u32 low, u32 high, int bits) { return low | high << bits; }

Case convert_values() {
  Case c{.name = "conversions", .file = "convert.cu", .kernel = "convert_values"};
  c.ctas = 4;
  c.threads = 256;
  const std::vector<u32> list = patterns(30);
  Bytes in(4 * kValues);
  c.expected.assign(11 * 4 * kValues, 0);
  for (size_t t = 0; t < kValues; ++t) {
    put(in, 4 * t, list[t]);
    const float x = number(list[t]), y = number(list[kValues - 1 - t]);
    const u16 half = static_cast<u16>(list[t] >> 16);
    const u32 words[] = {to_f16(x),
                         to_bf16(x),
                         to_f16(x) | static_cast<u32>(to_f16(y)) << 16,
                         to_bf16(x) | static_cast<u32>(to_bf16(y)) << 16,
                         to_tf32(x),
                         from_f16(half),
                         static_cast<u32>(half) << 16,
                         pair(to_fp8(kE4M3, x), to_fp8(kE4M3, y), 8),
                         pair(to_fp8(kE5M2, x), to_fp8(kE5M2, y), 8),
                         pair(fp8_to_f16(kE4M3, half & 0xff), fp8_to_f16(kE4M3, half >> 8), 16),
                         pair(fp8_to_f16(kE5M2, half & 0xff), fp8_to_f16(kE5M2, half >> 8), 16)};
    for (size_t i = 0; i < 11; ++i) put(c.expected, 4 * (i * kValues + t), words[i]);
  }
  c.buffers = {input(in), output(11 * 4 * kValues)};
  return c;
}

float from_bf16(u16 bits) { return number(static_cast<u32>(bits) << 16); }

// A finite 16-bit number: one in two of an integer up to 256 beside a power of two, as integers are
// widened by their bits.
u16 finite_half(Random& random, u16 one, u16 infinity) {
  const u16 bits = static_cast<u16>(random.word());
  if (bits % 2 == 0) return static_cast<u16>(one | (bits >> 8));
  return (bits & infinity) == infinity ? static_cast<u16>(bits & ~infinity) : bits;
}

Case half2_pairs() {
  Case c{.name = "differences and products of pairs", .file = "half2.cu", .kernel = "half2_pairs"};
  c.ctas = 4;
  c.threads = 256;
  Random random(35);
  Bytes in(4 * 4 * kValues);
  c.expected.assign(5 * 4 * kValues, 0);
  for (size_t t = 0; t < 2 * kValues; ++t) {  // halves
    const u16 a = finite_half(random, 0x4300, 0x7f80), b = finite_half(random, 0x4300, 0x7f80);
    const u16 x = finite_half(random, 0x6400, 0x7c00), y = finite_half(random, 0x6400, 0x7c00);
    const u16 halves[] = {a, b, x, y};
    for (size_t s = 0; s < 4; ++s) put(in, 4 * s * kValues + 2 * t, halves[s]);
    put(c.expected, 2 * t, to_bf16(from_bf16(a) - from_bf16(b)));
    put(c.expected, 4 * kValues + 2 * t, to_f16(number(from_f16(x)) - number(from_f16(y))));
    put(c.expected, 2 * 4 * kValues + 2 * t, static_cast<u16>((a & b) ^ x));
    put(c.expected, 3 * 4 * kValues + 2 * t, to_bf16(from_bf16(a) * from_bf16(b)));
    put(c.expected, 4 * 4 * kValues + 2 * t, to_f16(number(from_f16(x)) * number(from_f16(y))));
  }
  c.buffers = {input(in), output(5 * 4 * kValues)};
  return c;
}

// The minimum, where -0 is less than +0.
float smaller(float a, float b) {
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}

Case math_exact() {
  Case c{.name = "exact functions", .file = "math.cu", .kernel = "math_exact"};
  c.ctas = 4;
  c.threads = 256;
  const std::vector<u32> as = patterns(31), others = patterns(32), cs = patterns(33);
  Bytes in(3 * 4 * kValues);
  c.expected.assign(11 * 4 * kValues, 0);
  for (size_t t = 0; t < kValues; ++t) {
    const float a = number(as[t]);
    // Special values are paired with each other.
    const float b = number(others[t < 42 ? (5 * t + t / 7) % 42 : t]);
    float third = number(cs[kValues - 1 - t]);
    if (std::isnan(third)) third = 3;
    put(in, 4 * t, a);
    put(in, 4 * (kValues + t), b);
    put(in, 4 * (2 * kValues + t), third);
    const bool any = std::isnan(a) || std::isnan(b);
    const float low = std::isnan(a) ? b : std::isnan(b) ? a : smaller(a, b);
    const float results[] = {a + b,
                             a - b,
                             a * b,
                             -third,
                             std::fma(a, b, third),
                             low,
                             any ? NAN : smaller(a, b),
                             any ? NAN : -smaller(-a, -b),
                             std::abs(third),
                             std::sqrt(a),
                             1 / a};
    for (size_t i = 0; i < 11; ++i) {
      const u32 bits = std::isnan(results[i]) ? kNan : std::bit_cast<u32>(results[i]);
      put(c.expected, 4 * (i * kValues + t), bits);
    }
  }
  c.buffers = {input(in), output(11 * 4 * kValues)};
  return c;
}

// Within the bounds of templates/ptx/math.cuh; results below 2^-126 are flushed to zero.
Case math_approximate() {
  Case c{.name = "approximate functions", .file = "math.cu", .kernel = "math_approximate"};
  c.ctas = 4;
  c.threads = 256;
  Random random(34);
  Bytes in(4 * 4 * kValues);
  c.approximate.resize(4 * kValues);
  const auto set = [&](size_t at, float x, double value, double error) {
    put(in, 4 * at, x);
    if (std::abs(value) < 0x1p-125 && at < 2 * kValues) error = 0x1p-126;
    // A result that no f32 holds is infinite.
    c.approximate[at] = {static_cast<float>(value) == HUGE_VALF ? HUGE_VAL : value, error};
  };
  for (size_t t = 0; t < kValues; ++t) {
    const float exponent = t < 4 ? 100.0f * (static_cast<float>(t) - 1.5f)
                                 : static_cast<float>(random.between(-13000, 12700)) / 100.0f;
    const double power = std::exp2(static_cast<double>(exponent));
    set(t, exponent, power, power * 0x1p-22);
    const float divisor =
        number((random.word() & 0x807fffff) | static_cast<u32>(random.between(1, 252)) << 23);
    const double inverse = 1 / static_cast<double>(divisor);
    set(kValues + t, divisor, inverse, std::abs(inverse) * 0x1p-23);
    const float argument =
        t % 2 == 0 ? number((random.word() & 0x7fffff) | static_cast<u32>(126 + t / 2 % 2) << 23)
                   : number(static_cast<u32>(random.between(0x00800000, 0x7f7fffff)));
    const double log = std::log2(static_cast<double>(argument));
    set(2 * kValues + t, argument, log, std::max(0x1p-22, std::abs(log) * 0x1p-22));
    // Subnormal numbers too; then the special ones.
    const float square = t < 8 ? number(std::array<u32, 8>{0, 0x80000000, 1, 0x007fffff, 0x7f800000,
                                                           0x7f7fffff, 0x00800000, 2}[t])
                               : number(static_cast<u32>(random.between(1, 0x7f7fffff)));
    const double root = 1 / std::sqrt(static_cast<double>(square));
    set(3 * kValues + t, square, root, std::isinf(root) ? 0 : root * std::exp2(-22.9));
  }
  c.buffers = {input(in), output(4 * 4 * kValues)};
  return c;
}

}  // namespace

void add_number_cases(std::vector<Case>& cases) {
  cases.push_back(convert_values());
  cases.push_back(half2_pairs());
  cases.push_back(math_exact());
  cases.push_back(math_approximate());
}

}  // namespace catenary::instructions
