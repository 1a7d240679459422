// SPDX-License-Identifier: Apache-2.0
// Fragments, multiply-accumulate and matrix descriptors of the simulated tensor cores, against
// inverse tables and formulas: from an element to the lane that holds it, from the bytes that a TMA
// load writes to the chunk that a descriptor reads.
#include "simulator/model/matrix.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

using namespace catenary;
using namespace catenary::sim;

namespace {

struct Slot {
  u32 lane;
  u32 index;  // element of the lane's registers
  bool operator==(const Slot&) const = default;
};

// The figures of PTX ISA 9.7.14.5: which lane and register holds (row, column).
Slot mma_a_16(u32 row, u32 k) {
  const bool low_row = row < 8, low_k = k < 8;
  const u32 pair = low_row ? (low_k ? 0 : 4) : (low_k ? 2 : 6);
  return {(row % 8) * 4 + (k % 8) / 2, pair + k % 2};
}
Slot mma_a_32(u32 row, u32 k) {
  const u32 index = k < 4 ? (row < 8 ? 0 : 1) : (row < 8 ? 2 : 3);
  return {(row % 8) * 4 + k % 4, index};
}
Slot mma_b_16(u32 k, u32 n) { return {n * 4 + (k % 8) / 2, (k < 8 ? 0u : 2u) + k % 2}; }
Slot mma_b_32(u32 k, u32 n) { return {n * 4 + k % 4, k < 4 ? 0u : 1u}; }
Slot mma_d(u32 row, u32 n) { return {(row % 8) * 4 + n / 2, (row < 8 ? 0u : 2u) + n % 2}; }
Slot wgmma_d(u32 row, u32 n) {
  const Slot in_block = mma_d(row % 16, n % 8);
  return {row / 16 * 32 + in_block.lane, n / 8 * 4 + in_block.index};
}

// Every element of rows x columns is in exactly the slot of `where`.
template <typename Of, typename Where>
void check_layout(u32 lanes, u32 per_lane, u32 rows, u32 columns, Of of, Where where) {
  u32 found = 0;
  for (u32 lane = 0; lane < lanes; ++lane) {
    for (u32 i = 0; i < per_lane; ++i) {
      const Element e = of(lane, i);
      REQUIRE(e.row < rows);
      REQUIRE(e.column < columns);
      if (where(e.row, e.column) == Slot{lane, i}) ++found;
    }
  }
  CHECK(found == rows * columns);
  CHECK(lanes * per_lane == rows * columns);
}

u16 to_bf16(float v) { return static_cast<u16>(std::bit_cast<u32>(v) >> 16); }  // exact values
u16 to_f16(i32 v) {                                                             // small integers
  if (v == 0) return 0;
  int exponent;
  const double fraction = std::frexp(std::abs(v), &exponent);  // [0.5, 1)
  const u32 mantissa = static_cast<u32>(fraction * 2048) & 0x3ff;
  return static_cast<u16>((v < 0 ? 0x8000 : 0) | (exponent + 14) << 10 | mantissa);
}

void set_operand(Number number, u32* registers, u32 index, i32 value) {
  if (number == Number::kTF32) {
    registers[index] = std::bit_cast<u32>(static_cast<float>(value)) | 0x1fff;  // ignored bits
    return;
  }
  const u16 bits = number == Number::kBF16 ? to_bf16(static_cast<float>(value)) : to_f16(value);
  u32& r = registers[index / 2];
  const u32 shift = 16 * (index % 2);
  r = (r & ~(0xffffu << shift)) | static_cast<u32>(bits) << shift;
}

std::string error_of(Error error) {
  const ErrorReport report = take_report(std::move(error));
  if (report.code != ErrorCode::kOk) CHECK(report.code == ErrorCode::kSimulatorFault);
  return report.message;
}

u64 encode(u32 start, u32 leading, u32 stride, u32 base, u32 mode) {
  return u64{start / 16} | u64{leading / 16} << 16 | u64{stride / 16} << 32 | u64{base} << 49 |
         u64{mode} << 62;
}

MatrixDescriptor descriptor(u32 start, u32 leading, u32 stride, u32 mode, u32 base = 0) {
  Expected<MatrixDescriptor> d = decode_descriptor(encode(start, leading, stride, base, mode));
  REQUIRE(static_cast<bool>(d));
  return *d;
}

// The offset at which a TMA load with a swizzle of `span` bytes puts byte `byte` of line `line` of
// a box with lines of `span` bytes: the number of the 128-byte line is the XOR term.
u32 copied_to(u32 base, u32 span, u32 line, u32 byte) {
  const u32 chunk = byte / 16;
  const u32 with = span == 128 ? line % 8 : span == 64 ? line / 2 % 4 : line / 4 % 2;
  return base + line * span + (chunk ^ with) * 16 + byte % 16;
}

u32 mode_of(u32 span) { return span == 128 ? 1 : span == 64 ? 2 : 3; }

}  // namespace

TEST_CASE("fragments of mma.sync are as in the figures of the PTX ISA") {
  for (const Number number : {Number::kBF16, Number::kF16}) {
    check_layout(
        32, 8, 16, 16, [&](u32 l, u32 i) { return mma_a_element(number, l, i); }, mma_a_16);
    check_layout(
        32, 4, 16, 8, [&](u32 l, u32 i) { return mma_b_element(number, l, i); }, mma_b_16);
  }
  const auto a32 = [](u32 l, u32 i) { return mma_a_element(Number::kTF32, l, i); };
  const auto b32 = [](u32 l, u32 i) { return mma_b_element(Number::kTF32, l, i); };
  check_layout(32, 4, 16, 8, a32, mma_a_32);
  check_layout(32, 2, 8, 8, b32, mma_b_32);
  check_layout(32, 4, 16, 8, mma_d_element, mma_d);
  // Read from the figures.
  CHECK(mma_a_element(Number::kF16, 31, 7) == Element{15, 15});
  CHECK(mma_a_element(Number::kF16, 5, 2) == Element{9, 2});
  CHECK(mma_a_element(Number::kF16, 5, 4) == Element{1, 10});
  CHECK(mma_b_element(Number::kF16, 6, 3) == Element{13, 1});
  CHECK(mma_a_element(Number::kTF32, 7, 3) == Element{9, 7});
  CHECK(mma_b_element(Number::kTF32, 7, 1) == Element{7, 1});
  CHECK(mma_d_element(9, 2) == Element{10, 2});
}

TEST_CASE("fragments of wgmma are four warps of sixteen rows") {
  for (u32 n = 8; n <= 256; n += 8) check_layout(128, n / 2, 64, n, wgmma_d_element, wgmma_d);
  CHECK(wgmma_d_element(127, 127) == Element{63, 255});
  CHECK(wgmma_d_element(32, 4) == Element{16, 8});
  CHECK(wgmma_a_element(Number::kBF16, 96, 2) == Element{56, 0});
  CHECK(wgmma_a_element(Number::kTF32, 64, 2) == Element{32, 4});
}

TEST_CASE(
    "ldmatrix gives lane l two neighbours of row l / 4, or of column l / 4; stmatrix undoes it") {
  u16 matrix[8][8];
  for (u32 r = 0; r < 8; ++r) {
    for (u32 c = 0; c < 8; ++c) matrix[r][c] = static_cast<u16>(100 * r + c);
  }
  std::array<const u8*, 8> rows;
  for (u32 r = 0; r < 8; ++r) rows[r] = reinterpret_cast<const u8*>(matrix[r]);
  for (const bool trans : {false, true}) {
    u32 got[32];
    std::array<u32*, 32> to;
    std::array<const u32*, 32> from;
    for (u32 l = 0; l < 32; ++l) from[l] = to[l] = &got[l];
    load_matrix(rows, trans, to);
    for (u32 l = 0; l < 32; ++l) {
      const u32 line = l / 4, at = 2 * (l % 4);
      CHECK((got[l] & 0xffff) == (trans ? 100 * at + line : 100 * line + at));
      CHECK(got[l] / 65536 == (trans ? 100 * (at + 1) + line : 100 * line + at + 1));
    }
    u16 back[8][8] = {};
    std::array<u8*, 8> back_rows;
    for (u32 r = 0; r < 8; ++r) back_rows[r] = reinterpret_cast<u8*>(back[r]);
    store_matrix(back_rows, trans, from);
    CHECK(std::memcmp(back, matrix, sizeof matrix) == 0);
  }
}

TEST_CASE("every bf16 and f16 has its value; tf32 ignores its low bits") {
  for (u32 bits = 0; bits < 0x10000; ++bits) {
    const double sign = bits & 0x8000 ? -1 : 1;
    const u32 e16 = bits >> 10 & 31, m16 = bits & 0x3ff;
    const u32 e = bits >> 7 & 255, m = bits & 0x7f;
    const double f16 = e16 == 0 ? std::ldexp(m16, -24) : std::ldexp(1024 + m16, int(e16) - 25);
    const double bf16 = e == 0 ? std::ldexp(m, -133) : std::ldexp(128 + m, int(e) - 134);
    const auto check = [&](double got, double finite, bool special, bool nan) {
      if (nan) return std::isnan(got);
      if (special) return std::isinf(got) && std::signbit(got) == (sign < 0);
      return std::bit_cast<u64>(got) == std::bit_cast<u64>(sign * finite);
    };
    REQUIRE(check(f16_value(static_cast<u16>(bits)), f16, e16 == 31, e16 == 31 && m16 != 0));
    REQUIRE(check(bf16_value(static_cast<u16>(bits)), bf16, e == 255, e == 255 && m != 0));
  }
  CHECK(tf32_value(std::bit_cast<u32>(1.5f) | 0x1fff) == 1.5);
  CHECK(tf32_value(0x3f802000) == 1.0 + 0x1p-10);
  CHECK(tf32_value(0x00002000) == 0x1p-136);  // subnormal
  CHECK(tf32_value(0x80001fff) == 0.0);
}

TEST_CASE("a sum is rounded once, to nearest, ties to even, down to the subnormal range") {
  const auto sum = [](double x, double y, float c) {
    double a[2] = {x, y};
    double b[16];
    for (double& v : b) v = 1;
    float d[8];
    for (float& v : d) v = c;
    multiply(Number::kBF16, a, b, d, 1, 8, 2, true);
    for (const float v : d) CHECK(std::bit_cast<u32>(v) == std::bit_cast<u32>(d[0]));
    return d[0];
  };
  CHECK(sum(0x1p-24, 0, 1.0f) == 1.0f);  // a tie, to even
  CHECK(sum(0x1p-24, 0, 1.0f + 0x1p-23f) == 1.0f + 0x1p-22f);
  CHECK(sum(0x1p-24, 0x1p-48, 1.0f) == 1.0f + 0x1p-23f);    // just over a tie
  CHECK(sum(0x1p-25, 0x1p-25, 1.0f) == 1.0f);               // not rounded in between
  CHECK(sum(0x1p-25, 0x1.8p-25, 1.0f) == 1.0f + 0x1p-23f);  // would be lost one by one
  CHECK(sum(0x1p-150, 0, 0) == 0.0f);                       // half the least subnormal
  CHECK(sum(0x1p-150, 0x1p-170, 0) == 0x1p-149f);
  CHECK(sum(0x1p-133, 0x1p-140, 0) == 0x1p-133f + 0x1p-140f);
  CHECK(std::isinf(sum(0x1p127, 0x1p127, 0)));
  CHECK(std::bit_cast<u32>(sum(std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(), 0)) == 0x7fffffffu);
}

// The sum of products and accumulator of one instruction of fp8.
float fp8_sum(std::vector<double> terms, float before, bool accumulate = true) {
  terms.resize(32);
  double b[32 * 8];
  for (double& v : b) v = 1;
  float d[8];
  for (float& v : d) v = before;
  multiply(Number::kE4M3, terms.data(), b, d, 1, 8, 32, accumulate);
  for (const float v : d) CHECK(std::bit_cast<u32>(v) == std::bit_cast<u32>(d[0]));
  return d[0];
}

TEST_CASE("fp8 sums keep 13 fraction bits of the largest exponent, and of their own") {
  CHECK(fp8_sum({1, 2, -3.5}, 0.25f) == -0.25f);
  CHECK(fp8_sum({1, 2}, 5, false) == 3);
  CHECK(fp8_sum({}, 0) == 0);
  // 2^-13 of the largest stays, less is cut towards zero, whatever its sign.
  CHECK(fp8_sum({256, 0x1p-5}, 0) == 256 + 0x1p-5f);
  CHECK(fp8_sum({256, 0x1.8p-6}, 0) == 256);
  CHECK(fp8_sum({256, -0x1.8p-6}, 0) == 256);
  CHECK(fp8_sum({-256, 0x1.8p-6, 0x1.8p-6}, 0) == -256);
  // The accumulator is an operand like the products: it is cut, too, and may be the largest.
  CHECK(fp8_sum({0x1p-6}, 256) == 256);
  CHECK(fp8_sum({}, 256 + 0x1p-6f) == 256);
  CHECK(fp8_sum({256}, 0x1.fp-5f) == 256 + 0x1p-5f);
  // The sum has 14 significant bits.
  CHECK(fp8_sum({256, 256, 0x1p-5}, 0) == 512);
  CHECK(std::isnan(fp8_sum({256}, std::nanf(""))));
  CHECK(std::isinf(fp8_sum({1, HUGE_VAL}, 0)));
}

TEST_CASE("fp8: an element depends on its own row and column, whatever is in the others") {
  std::mt19937 random(3);
  constexpr u32 kM = 2, kN = 24, kK = 32;
  for (const Number number : {Number::kE4M3, Number::kE5M2}) {
    const auto draw = [&] {
      const double value = fp8_value(number, static_cast<u8>(random()));
      return std::isfinite(value) ? value : 0.0;
    };
    double a[kM * kK], b[kK * kN];
    float d[kM * kN];
    for (double& v : a) v = draw();
    for (double& v : b) v = draw();
    for (float& v : d) v = static_cast<float>(draw() * 0x1p-9);
    b[5] = HUGE_VAL;
    b[kN + 6] = std::nan("");
    d[7] = -HUGE_VALF;
    for (u32 i = 0; i < kK; ++i) b[i * kN + 8] = 0;
    d[8] = 0x1p-140f;
    float together[kM * kN];
    std::memcpy(together, d, sizeof d);
    multiply(number, a, b, together, kM, kN, kK, true);
    for (u32 e = 0; e < kM * kN; ++e) {
      double column[kK * 8];
      float alone[8];
      for (u32 i = 0; i < kK * 8; ++i) column[i] = b[i / 8 * kN + e % kN];
      for (float& v : alone) v = d[e];
      multiply(number, a + e / kN * kK, column, alone, 1, 8, kK, true);
      CHECK(std::bit_cast<u32>(alone[0]) == std::bit_cast<u32>(together[e]));
    }
    CHECK(!std::isfinite(together[5]));
    CHECK(std::isnan(together[6]));
    CHECK(together[7] == -HUGE_VALF);
    CHECK(together[8] == 0x1p-140f);
  }
}

TEST_CASE("mma.sync gives the result of the triple loop, for each operand type") {
  std::mt19937 random(7);
  const auto draw = [&] { return static_cast<i32>(random() % 33) - 16; };
  for (const Number number : {Number::kBF16, Number::kF16, Number::kTF32}) {
    const bool wide = number == Number::kTF32;
    const u32 k = wide ? 8 : 16;
    i32 a[16][16], b[16][8], c[16][8];
    u32 a_registers[32][4] = {}, b_registers[32][2] = {};
    float d[32][4];
    for (u32 r = 0; r < 16; ++r) {
      for (u32 i = 0; i < k; ++i) {
        a[r][i] = draw();
        const Slot at = wide ? mma_a_32(r, i) : mma_a_16(r, i);
        set_operand(number, a_registers[at.lane], at.index, a[r][i]);
      }
      for (u32 n = 0; n < 8; ++n) {
        c[r][n] = draw();
        d[mma_d(r, n).lane][mma_d(r, n).index] = static_cast<float>(c[r][n]);
      }
    }
    for (u32 i = 0; i < k; ++i) {
      for (u32 n = 0; n < 8; ++n) {
        b[i][n] = draw();
        const Slot at = wide ? mma_b_32(i, n) : mma_b_16(i, n);
        set_operand(number, b_registers[at.lane], at.index, b[i][n]);
      }
    }
    std::array<MmaLane, 32> lanes;
    for (u32 l = 0; l < 32; ++l) lanes[l] = {a_registers[l], b_registers[l], d[l]};
    warp_mma(number, lanes);
    for (u32 r = 0; r < 16; ++r) {
      for (u32 n = 0; n < 8; ++n) {
        i32 want = c[r][n];
        for (u32 i = 0; i < k; ++i) want += a[r][i] * b[i][n];
        CHECK(d[mma_d(r, n).lane][mma_d(r, n).index] == static_cast<float>(want));
      }
    }
  }
}

TEST_CASE("A in registers of a wgmma: each warp holds sixteen rows") {
  for (const Number number : {Number::kBF16, Number::kTF32}) {
    const bool wide = number == Number::kTF32;
    const u32 k = wide ? 8 : 16;
    u32 registers[128][4] = {};
    std::array<const u32*, 128> pointers;
    for (u32 t = 0; t < 128; ++t) pointers[t] = registers[t];
    for (u32 row = 0; row < 64; ++row) {
      for (u32 i = 0; i < k; ++i) {
        const Slot at = wide ? mma_a_32(row % 16, i) : mma_a_16(row % 16, i);
        set_operand(number, registers[row / 16 * 32 + at.lane], at.index, i32(row + 64 * (i % 2)));
      }
    }
    const std::vector<double> a = wgmma_a_values(number, pointers);
    REQUIRE(a.size() == 64 * k);
    for (u32 row = 0; row < 64; ++row) {
      for (u32 i = 0; i < k; ++i) CHECK(a[row * k + i] == row + 64 * (i % 2));
    }
  }
}

TEST_CASE("a swizzled K-major tile is read where a TMA load put it, k-block by k-block") {
  for (const u32 span : {32u, 64u, 128u}) {
    for (const u32 element : {2u, 4u}) {
      const u32 base = 4096, rows = 64;
      for (u32 step = 0; step < span / 32; ++step) {
        const MatrixDescriptor d = descriptor(base + 32 * step, 16, 8 * span, mode_of(span));
        const SharedTile tile{rows, element, false};
        CHECK(error_of(check_descriptor(d, tile, base, base + rows * span)) == "");
        for (u32 row = 0; row < rows; ++row) {
          for (u32 k = 0; k < tile.k(); ++k) {
            const u32 byte = 32 * step + k * element;
            CHECK(element_address(d, tile, row, k) == copied_to(base, span, row, byte));
          }
        }
      }
    }
  }
}

TEST_CASE("a swizzled MN-major tile is read where boxes of `span` bytes by 64 k put it") {
  for (const u32 span : {32u, 64u, 128u}) {
    const u32 base = 2048, rows = 128, depth = 64;
    const u32 per_box = span / 2, box_bytes = depth * span;
    for (u32 step = 0; step < depth / 16; ++step) {
      // 16 k are 16 lines of the box.
      const MatrixDescriptor d =
          descriptor(base + 16 * step * span, box_bytes, 8 * span, mode_of(span));
      const SharedTile tile{rows, 2, true};
      CHECK(error_of(check_descriptor(d, tile, base, base + rows / per_box * box_bytes)) == "");
      for (u32 row = 0; row < rows; ++row) {
        for (u32 k = 0; k < 16; ++k) {
          const u32 box = base + row / per_box * box_bytes;
          CHECK(element_address(d, tile, row, k) ==
                copied_to(box, span, 16 * step + k, row % per_box * 2));
        }
      }
    }
  }
}

TEST_CASE("without a swizzle the offsets lead from core matrix to core matrix") {
  // K-major: eight rows of 16 bytes are 128 bytes; leading moves along k, stride along the rows.
  const MatrixDescriptor k_major = descriptor(1024, 128, 256, 0);
  const SharedTile rows{64, 2, false};
  CHECK(error_of(check_descriptor(k_major, rows, 1024, 1024 + 2048)) == "");
  CHECK(element_address(k_major, rows, 0, 0) == 1024);
  CHECK(element_address(k_major, rows, 1, 0) == 1024 + 16);
  CHECK(element_address(k_major, rows, 1, 3) == 1024 + 16 + 6);
  CHECK(element_address(k_major, rows, 0, 8) == 1024 + 128);
  CHECK(element_address(k_major, rows, 17, 9) == 1024 + 2 * 256 + 16 + 128 + 2);
  // MN-major: eight k of eight rows; stride moves along the rows, leading along k.
  const MatrixDescriptor mn_major = descriptor(1024, 128, 256, 0);
  const SharedTile columns{64, 2, true};
  CHECK(error_of(check_descriptor(mn_major, columns, 1024, 1024 + 2048)) == "");
  CHECK(element_address(mn_major, columns, 3, 0) == 1024 + 6);
  CHECK(element_address(mn_major, columns, 0, 1) == 1024 + 16);
  CHECK(element_address(mn_major, columns, 8, 0) == 1024 + 256);
  CHECK(element_address(mn_major, columns, 0, 8) == 1024 + 128);
  CHECK(element_address(mn_major, columns, 21, 11) == 1024 + 2 * 256 + 10 + 128 + 3 * 16);
}

TEST_CASE("a base offset moves the swizzle's pattern by lines of 128 bytes") {
  const SharedTile tile{16, 2, false};
  const u32 start = 8192 + 3 * 128;
  const MatrixDescriptor d = descriptor(start, 0, 1024, 1, 3);
  CHECK(error_of(check_descriptor(d, tile, 8192, 16384)) == "");
  for (u32 row = 0; row < 16; ++row) {
    for (u32 k = 0; k < 16; ++k) {
      CHECK(element_address(d, tile, row, k) == copied_to(8192, 128, row, 2 * k) + 3 * 128);
    }
  }
}

TEST_CASE("each chunk of a tile is read once, a quarter of the rows in each quarter") {
  for (const bool mn_major : {false, true}) {
    const SharedTile tile{64, 2, mn_major};
    const MatrixDescriptor d = descriptor(1024, 8192, 1024, 1);
    const std::vector<u32> chunks = chunk_addresses(d, tile);
    REQUIRE(chunks.size() == 128);
    std::map<u32, u32> quarter;
    for (u32 i = 0; i < chunks.size(); ++i) {
      CHECK(chunks[i] % 16 == 0);
      CHECK(quarter.emplace(chunks[i], i / 32).second);
    }
    for (u32 row = 0; row < 64; ++row) {
      for (u32 k = 0; k < 16; ++k) {
        CHECK(quarter.at(element_address(d, tile, row, k) / 16 * 16) == row / 16);
      }
    }
  }
}

TEST_CASE("the values of a tile are read in any order of rows and k") {
  const u32 base = 1024, bytes = 8192;
  std::vector<u8> memory(bytes);
  for (const bool mn_major : {false, true}) {
    const SharedTile tile{64, 2, mn_major};
    const MatrixDescriptor d = descriptor(base, bytes, 1024, 1);
    for (u32 row = 0; row < 64; ++row) {
      for (u32 k = 0; k < 16; ++k) {
        const u16 bits = to_bf16(static_cast<float>(row + 64 * (k % 2)));
        std::memcpy(&memory[element_address(d, tile, row, k) - base], &bits, 2);
      }
    }
    std::vector<double> out(64 * 16);
    read_operand_tile(d, tile, Number::kBF16, memory.data(), base, out.data(), 16, 1);
    for (u32 i = 0; i < out.size(); ++i) CHECK(out[i] == i / 16 + 64 * (i % 16 % 2));
    read_operand_tile(d, tile, Number::kBF16, memory.data(), base, out.data(), 1, 64);
    for (u32 i = 0; i < out.size(); ++i) CHECK(out[i] == i % 64 + 64 * (i / 64 % 2));
  }
}

TEST_CASE("descriptors that the hardware does not accept, or that miss the tile, are rejected") {
  const auto refused = [](const MatrixDescriptor& d, const SharedTile& tile, u32 end = 1 << 18) {
    return error_of(check_descriptor(d, tile, 1024, end));
  };
  const auto names = [](const std::string& message, const char* text) {
    INFO(message);
    return message.find(text) != std::string::npos;
  };
  for (const u32 bit : {14u, 15u, 30u, 31u, 46u, 48u, 52u, 61u}) {
    Expected<MatrixDescriptor> d = decode_descriptor(encode(1024, 0, 1024, 0, 1) | u64{1} << bit);
    REQUIRE(!d);
    CHECK(names(error_of(d.takeError()), fmt::format("{:#x}", u64{1} << bit).c_str()));
  }
  const SharedTile tile{64, 2, false};
  const SharedTile across{128, 2, true};
  CHECK(refused(descriptor(1024, 0, 1024, 1), tile) == "");
  // The start inside the pattern.
  CHECK(names(refused(descriptor(1024 + 128, 0, 1024, 1), tile), "1152"));
  CHECK(names(refused(descriptor(1024 + 64, 0, 512, 2), tile), "1088"));
  CHECK(names(refused(descriptor(1024 + 32, 0, 256, 3), tile), "1056"));
  CHECK(refused(descriptor(1024 + 128, 0, 1024, 1, 1), tile) == "");
  CHECK(names(refused(descriptor(1024, 0, 1024, 1, 2), tile), "base offset 2"));
  CHECK(names(refused(descriptor(1024, 128, 256, 0, 1), tile), "base offset 1"));
  // Past the end of a swizzled row.
  CHECK(names(refused(descriptor(1024 + 112, 0, 1024, 1), tile), "byte 112"));
  CHECK(names(refused(descriptor(1024 + 64, 8192, 1024, 1), across), "byte 64"));
  CHECK(refused(descriptor(1024 + 64, 8192, 1024, 1), SharedTile{32, 2, true}) == "");
  // Offsets smaller than the atom, or not a multiple of it.
  CHECK(names(refused(descriptor(1024, 0, 512, 1), tile), "stride byte offset of 512"));
  CHECK(names(refused(descriptor(1024, 0, 1536, 1), tile), "stride byte offset of 1536"));
  CHECK(names(refused(descriptor(1024, 16, 1024, 1), across), "leading byte offset of 16"));
  CHECK(names(refused(descriptor(1024, 8192, 128, 1), across), "stride byte offset of 128"));
  CHECK(names(refused(descriptor(1024, 0, 256, 0), tile), "leading byte offset of 0"));
  CHECK(refused(descriptor(1024, 0, 0, 1), SharedTile{8, 2, false}) == "");  // unused
  CHECK(refused(descriptor(1024, 0, 1024, 1), SharedTile{64, 2, true}) == "");
  // Outside shared memory.
  CHECK(refused(descriptor(1024, 0, 1024, 1), tile, 1024 + 8192) == "");
  CHECK(names(refused(descriptor(1024, 0, 2048, 1), tile, 1024 + 8192), "[1024, 9216)"));
  CHECK(names(refused(descriptor(0, 0, 1024, 1), tile), "address 0,"));
}
