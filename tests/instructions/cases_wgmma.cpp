// SPDX-License-Identifier: Apache-2.0
// Cases of wgmma.cu: every N, type and source of A, with operands in every canonical layout of PTX
// ISA 9.7.15.5.1, written out independently.
#include "tests/instructions/bytes.h"

namespace catenary::instructions {
namespace {

constexpr size_t kRowsA = 64;
constexpr size_t kBytesK = 64;  // two k-blocks of 32 bytes

// The layout of one operand in shared memory; span 0: no swizzle.
struct Layout {
  size_t rows;    // of A, or columns of B
  size_t width;   // bytes of an element
  size_t span;    // of the swizzle: 0, 32, 64, 128
  bool mn_major;  // rows are contiguous, not k
  size_t k() const { return kBytesK / width; }

  // Bytes of the tile. The second half of a K-major line of 128 bytes is not read.
  size_t bytes() const {
    if (!mn_major && span == 128) return rows * 128;
    return mn_major && span != 0 ? (rows * width + span - 1) / span * span * k() : rows * kBytesK;
  }
  size_t leading() const {
    if (!mn_major) return span == 0 ? rows * 16 : 0;
    return span == 0 ? 128 : k() * span;
  }
  size_t stride() const {
    if (!mn_major) return span == 0 ? 128 : 8 * span;
    return span == 0 ? k() / 8 * 128 : 8 * span;
  }
  // Bytes from one k-block to the next.
  size_t step() const {
    if (!mn_major) return span == 0 ? 2 * leading() : span == 32 ? rows * 32 : 32;
    return span == 0 ? 2 * leading() : k() / 2 * span;
  }
  u32 swizzle() const { return span == 0 ? 0 : span == 32 ? 1 : span == 64 ? 2 : 3; }

  size_t offset(size_t row, size_t i) const {
    const size_t line = mn_major ? i : row;            // what 16-byte chunks are stacked along
    const size_t byte = (mn_major ? row : i) * width;  // along the contiguous dimension
    if (span == 0) {
      const size_t along = byte / 16 * (mn_major ? stride() : leading());
      return along + line / 8 * (mn_major ? leading() : stride()) + line % 8 * 16 + byte % 16;
    }
    const size_t lines = mn_major ? k() : rows;
    const size_t at = byte / span * lines * span + line * span + byte % span;
    // The chunk's index in its span is XORed with the index of the 128-byte line.
    return at ^ ((at >> 7) % (span / 16) << 4);
  }
};

struct Variant {
  const char* name;
  i64 number;  // of wgmma.cu
  u32 n;
  sim::Number type;
  bool registers, trans_a, trans_b;
};

constexpr size_t align(size_t bytes) { return (bytes + 1023) / 1024 * 1024; }

struct Operand {
  Layout layout;
  size_t offset;
  std::vector<i32> values;  // row-major, k contiguous
};

void place(const Operand& operand, sim::Number type, Random& random, Bytes& smem, Bytes& words,
           size_t at) {
  const Layout& l = operand.layout;
  for (size_t row = 0; row < l.rows; ++row) {
    for (size_t i = 0; i < l.k(); ++i) {
      const size_t to = operand.offset + l.offset(row, i);
      put_number(smem, to, type, operand.values[row * l.k() + i]);
      // wgmma ignores the low 13 bits of tf32 operands.
      if (l.width == 4) put(smem, to, get<u32>(smem, to) | (random.word() & 0x1fff));
    }
  }
  const size_t fields[] = {operand.offset, l.leading(), l.stride(), l.swizzle(), l.step()};
  for (size_t i = 0; i < 5; ++i) put(words, at + 4 * i, static_cast<u32>(fields[i]));
}

// The registers of a thread: rows g and g + 8 of its warp, low and high half of the k-block.
void place_registers(const Operand& a, sim::Number type, Bytes& words) {
  const size_t k = a.layout.k(), width = a.layout.width, per_register = 4 / width;
  for (size_t step = 0; step < 2; ++step) {
    for (size_t thread = 0; thread < 128; ++thread) {
      for (size_t r = 0; r < 4; ++r) {
        for (size_t part = 0; part < per_register; ++part) {
          const size_t row = thread / 32 * 16 + thread % 32 / 4 + 8 * (r % 2);
          const size_t i = step * k / 2 + per_register * (thread % 4) + part + k / 4 * (r / 2);
          put_number(words, 64 + 16 * (128 * step + thread) + 4 * r + width * part, type,
                     a.values[row * k + i]);
        }
      }
    }
  }
}

// Two k-blocks of products as MMA-Sim describes Hopper's fp8 sums (simulator/model/matrix.h): each
// operand of a sum is cut to 13 fraction bits of the largest exponent, and so is the sum of its
// own.
double fp8_sum(const i32* a, const i32* b, size_t k) {
  constexpr int kFraction = 13;
  const auto exponent = [](i32 value) { return std::ilogb(static_cast<double>(value)); };
  double sum = 0;
  for (size_t block = 0; block < k; block += 32) {
    int largest = sum == 0 ? -1000 : std::ilogb(sum);
    for (size_t i = block; i < block + 32; ++i) {
      if (a[i] != 0 && b[i] != 0) largest = std::max(largest, exponent(a[i]) + exponent(b[i]));
    }
    if (largest == -1000) continue;
    const double unit = std::ldexp(1.0, largest - kFraction);
    double total = std::trunc(sum / unit);
    for (size_t i = block; i < block + 32; ++i) total += std::trunc(a[i] * b[i] / unit);
    sum = total * unit;
    if (sum == 0) continue;
    const double last = std::ldexp(1.0, std::ilogb(sum) - kFraction);
    sum = std::trunc(sum / last) * last;
  }
  return sum;
}

// `wide`: fp8 values of up to 256 beside small ones, so that sums lose bits.
Case wgmma_case(const Variant& v, size_t span, bool wide = false) {
  Case c{.name = fmt::format("wgmma {} n{}, {}", v.name, v.n,
                             wide        ? "sums that lose bits"
                             : span == 0 ? "no swizzle"
                                         : fmt::format("swizzle {}", span)),
         .file = "wgmma.cu",
         .kernel = "wgmma_accumulate"};
  c.threads = 128;
  Random random(50 + static_cast<u64>(v.number) * 4 + span);
  const size_t width = element_bytes(v.type);
  Operand a{{kRowsA, width, span, v.trans_a}, 0, {}};
  Operand b{{v.n, width, span, v.trans_b}, align(a.layout.bytes()), {}};
  const size_t k = a.layout.k();
  a.values.resize(kRowsA * k);
  b.values.resize(v.n * k);
  for (i32& value : a.values) value = random.between(-6, 6);
  for (i32& value : b.values) value = random.between(-6, 6);
  if (wide) {
    for (std::vector<i32>* values : {&a.values, &b.values}) {
      for (i32& value : *values) value *= 1 << random.between(0, 5);
    }
  }
  Bytes smem(align(b.offset + b.layout.bytes()), 0x7f), words(64 + 2 * 128 * 16);
  place(a, v.type, random, smem, words, 0);
  place(b, v.type, random, smem, words, 32);
  if (v.registers) place_registers(a, v.type, words);
  c.smem_bytes = static_cast<u32>(smem.size());
  c.symbol = v.number | static_cast<i64>(smem.size()) << 32;
  c.expected.assign(kRowsA * v.n * 4, 0);
  for (size_t row = 0; row < kRowsA; ++row) {
    for (size_t column = 0; column < v.n; ++column) {
      double sum = 0;
      for (size_t i = 0; i < k; ++i) sum += a.values[row * k + i] * b.values[column * k + i];
      if (width == 1) sum = fp8_sum(&a.values[row * k], &b.values[column * k], k);
      put(c.expected, 4 * (row * v.n + column), static_cast<float>(sum));
    }
  }
  c.buffers = {input(smem), input(words), output(kRowsA * v.n * 4)};
  return c;
}

}  // namespace

void add_wgmma_cases(std::vector<Case>& cases) {
  constexpr size_t kSpans[] = {0, 32, 64, 128};
  size_t turn = 3;
  for (u32 n = 8; n <= 256; n += n < 64 ? 8 : 16) {
    const Variant v{"bf16", n, n, sim::Number::kBF16, false, false, false};
    cases.push_back(wgmma_case(v, kSpans[turn++ % 4]));
  }
  const Variant variants[] = {
      {"bf16", 64, 64, sim::Number::kBF16, false, false, false},
      {"f16", 1000, 64, sim::Number::kF16, false, false, false},
      {"tf32", 1001, 64, sim::Number::kTF32, false, false, false},
      {"bf16, A in registers,", 1002, 64, sim::Number::kBF16, true, false, false},
      {"f16, A in registers,", 1003, 64, sim::Number::kF16, true, false, false},
      {"tf32, A in registers,", 1004, 64, sim::Number::kTF32, true, false, false},
      {"bf16, A transposed,", 1005, 128, sim::Number::kBF16, false, true, false},
      {"bf16, B transposed,", 1006, 128, sim::Number::kBF16, false, false, true},
      {"bf16, both transposed,", 1007, 128, sim::Number::kBF16, false, true, true},
      {"f16, both transposed,", 1008, 128, sim::Number::kF16, false, true, true},
      {"bf16, A in registers, B transposed,", 1009, 128, sim::Number::kBF16, true, false, true},
      {"f16, A in registers, B transposed,", 1010, 128, sim::Number::kF16, true, false, true},
      {"e4m3", 1011, 128, sim::Number::kE4M3, false, false, false},
      {"e5m2", 1012, 64, sim::Number::kE5M2, false, false, false}};
  for (const Variant& v : variants) {
    for (const size_t span : kSpans) {
      // All N of bf16 have one layout each already.
      const Case c = wgmma_case(v, span);
      bool fresh = true;
      for (const Case& other : cases) fresh = fresh && other.name != c.name;
      if (fresh) cases.push_back(c);
    }
  }
  for (const Variant& v : variants) {
    if (element_bytes(v.type) == 1) cases.push_back(wgmma_case(v, 128, true));
  }
}

}  // namespace catenary::instructions
