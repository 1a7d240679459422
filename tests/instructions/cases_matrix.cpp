// SPDX-License-Identifier: Apache-2.0
// Cases of mma.cu. Fragment layouts are those of PTX ISA 9.7.14, written out independently.
#include "tests/instructions/bytes.h"

namespace catenary::instructions {
namespace {

constexpr size_t kLanes = 32;

// A lane's register of an 8 x 8 matrix of 16-bit elements: elements 2 * (lane % 4) and the next of
// row lane / 4, or of that column if transposed.
u32 fragment(const Bytes& rows, size_t matrix, size_t lane, bool trans) {
  u32 word = 0;
  for (size_t half = 0; half < 2; ++half) {
    const size_t major = lane / 4, minor = 2 * (lane % 4) + half;
    const size_t row = trans ? minor : major, column = trans ? major : minor;
    word |= static_cast<u32>(get<u16>(rows, 128 * matrix + 16 * row + 2 * column)) << (16 * half);
  }
  return word;
}

Case mma_ldmatrix() {
  Case c{.name = "ldmatrix", .file = "mma.cu", .kernel = "mma_ldmatrix"};
  c.smem_bytes = 512;
  const Bytes in = Random(40).bytes(512);
  struct Word {
    size_t matrix;
    bool trans;
  };
  const Word words[] = {{0, false}, {0, true},  {0, false}, {1, false}, {0, true},
                        {1, true},  {0, false}, {1, false}, {2, false}, {3, false},
                        {0, true},  {1, true},  {2, true},  {3, true}};
  c.expected.assign(14 * 4 * kLanes, 0);
  for (size_t i = 0; i < 14; ++i) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      put(c.expected, 4 * (kLanes * i + lane), fragment(in, words[i].matrix, lane, words[i].trans));
    }
  }
  c.buffers = {input(in), output(14 * 4 * kLanes)};
  return c;
}

Case mma_stmatrix() {
  Case c{.name = "stmatrix", .file = "mma.cu", .kernel = "mma_stmatrix"};
  c.smem_bytes = 1792;
  const Bytes in = Random(41).bytes(512);
  c.expected.assign(1792, 0);
  size_t at = 0;
  for (const size_t matrices : {1, 2, 4}) {
    for (const bool trans : {false, true}) {
      for (size_t matrix = 0; matrix < matrices; ++matrix, at += 128) {
        for (size_t i = 0; i < 64; ++i) {
          const size_t row = trans ? i % 8 : i / 8, column = trans ? i / 8 : i % 8;
          const size_t lane = 4 * row + column / 2;
          copy(in, 16 * lane + 4 * matrix + column % 2 * 2, 2, c.expected, at + 2 * i);
        }
      }
    }
  }
  c.buffers = {input(in), output(1792)};
  return c;
}

// D += A B twice. Integers, so that every order of summation gives the same result; tf32 operands
// have low bits that the MMA ignores.
Case mma_accumulate(sim::Number number, const char* name, i64 symbol) {
  Case c{.name = std::string("mma.sync, ") + name, .file = "mma.cu", .kernel = "mma_accumulate"};
  c.symbol = symbol;
  const bool wide = number == sim::Number::kTF32;
  const size_t k = wide ? 8 : 16;
  const size_t per_register = wide ? 1 : 2;
  const size_t width = element_bytes(number);
  Random random(42 + static_cast<u64>(symbol));
  std::vector<i32> a(16 * k), b(k * 8), d(16 * 8);
  for (i32& v : a) v = random.between(-8, 8);
  for (i32& v : b) v = random.between(-8, 8);
  for (i32& v : d) v = random.between(-100, 100);
  Bytes in(10 * 4 * kLanes);
  c.expected.assign(4 * 4 * kLanes, 0);
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const size_t g = lane / 4, t = lane % 4;
    const auto set = [&](size_t word, size_t part, i32 value) {
      const size_t at = 4 * (kLanes * word + lane) + width * part;
      put_number(in, at, number, value);
      if (wide) put(in, at, get<u32>(in, at) | (random.word() & 0x1fff));
    };
    for (size_t r = 0; r < 4; ++r) {
      for (size_t part = 0; part < per_register; ++part) {
        // a0 (g, low k), a1 (g + 8, low k), a2 (g, high k), a3 (g + 8, high k).
        const size_t column = per_register * t + part + k / 2 * (r / 2);
        set(r, part, a[(g + 8 * (r % 2)) * k + column]);
        if (r < 2) set(4 + r, part, b[(per_register * t + part + k / 2 * r) * 8 + g]);
      }
      const size_t row = g + 8 * (r / 2), column = 2 * t + r % 2;
      put(in, 4 * (kLanes * (6 + r) + lane), static_cast<float>(d[row * 8 + column]));
      i32 sum = 0;
      for (size_t i = 0; i < k; ++i) sum += a[row * k + i] * b[i * 8 + column];
      put(c.expected, 4 * (kLanes * r + lane), static_cast<float>(d[row * 8 + column] + 2 * sum));
    }
  }
  c.buffers = {input(in), output(4 * 4 * kLanes)};
  return c;
}

}  // namespace

void add_matrix_cases(std::vector<Case>& cases) {
  cases.push_back(mma_ldmatrix());
  cases.push_back(mma_stmatrix());
  cases.push_back(mma_accumulate(sim::Number::kBF16, "bf16", 0));
  cases.push_back(mma_accumulate(sim::Number::kF16, "f16", 1));
  cases.push_back(mma_accumulate(sim::Number::kTF32, "tf32", 2));
}

}  // namespace catenary::instructions
