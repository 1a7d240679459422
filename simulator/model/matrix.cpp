// SPDX-License-Identifier: Apache-2.0
#include "simulator/model/matrix.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "shared/fp8.h"

namespace catenary::sim {
namespace {

constexpr u32 kChunk = 16;  // bytes that a swizzle keeps together

float f16_float(u16 bits) {
  // The exponent biases differ by 112; the multiplication normalises subnormals.
  float magnitude = std::bit_cast<float>(static_cast<u32>(bits & 0x7fff) << 13) * 0x1p112f;
  u32 out = std::bit_cast<u32>(magnitude);
  if (magnitude >= 0x1p16f) out |= 0x7f800000;  // infinities and NaNs
  return std::bit_cast<float>(out | static_cast<u32>(bits & 0x8000) << 16);
}

// The i-th element of an operand's registers.
double register_value(Number number, const u32* registers, u32 i) {
  if (number == Number::kTF32) return tf32_value(registers[i]);
  const u16 bits = static_cast<u16>(registers[i / 2] >> (16 * (i % 2)));
  return number == Number::kBF16 ? bf16_value(bits) : f16_value(bits);
}

double memory_value(Number number, const u8* from) {
  if (number == Number::kTF32) {
    u32 bits;
    std::memcpy(&bits, from, 4);
    return tf32_value(bits);
  }
  if (is_fp8(number)) return fp8_value(number, *from);
  u16 bits;
  std::memcpy(&bits, from, 2);
  return number == Number::kBF16 ? bf16_value(bits) : f16_value(bits);
}

// 16-byte chunks in a row of a swizzle atom, which has eight rows.
u32 atom_chunks(MatrixSwizzle swizzle) {
  switch (swizzle) {
    case MatrixSwizzle::kNone:
      return 1;
    case MatrixSwizzle::k128:
      return 8;
    case MatrixSwizzle::k64:
      return 4;
    case MatrixSwizzle::k32:
      return 2;
  }
  return 1;
}

// The offset of the chunk of (row, k) from the start, before the swizzle: the canonical layouts of
// PTX ISA 9.7.15.5.1.2.
u32 chunk_offset(const MatrixDescriptor& d, const SharedTile& tile, u32 row, u32 k) {
  const u32 per_chunk = kChunk / tile.element_bytes;
  const u32 width = atom_chunks(d.swizzle);
  if (!tile.mn_major) {
    const u32 in_k = k / per_chunk * (width == 1 ? d.leading : kChunk);
    return row % 8 * width * kChunk + row / 8 * d.stride + in_k;
  }
  const u32 chunk = row / per_chunk;
  if (width == 1) return chunk * d.stride + k % 8 * kChunk + k / 8 * d.leading;
  return chunk % width * kChunk + chunk / width * d.leading + k % 8 * width * kChunk +
         k / 8 * d.stride;
}

// The chunk's index within its row is XORed with the number of the 128-byte line in the pattern,
// which starts at a multiple of 1024 bytes plus base_offset lines.
u32 chunk_address(const MatrixDescriptor& d, const SharedTile& tile, u32 row, u32 k) {
  const u32 pattern = d.base_offset * 128;
  const u32 linear = d.start + chunk_offset(d, tile, row, k) - pattern;
  const u32 mask = (atom_chunks(d.swizzle) - 1) * kChunk;
  return (linear ^ (linear >> 3 & mask)) + pattern;
}

template <typename... Args>
Error refuse(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kSimulatorFault, format, std::forward<Args>(args)...);
}

// An offset in use is a multiple of the atom, and at least one atom.
Error check_offset(const char* name, u32 bytes, bool used, u32 atom_bytes, bool swizzled) {
  if (!used) return Error::success();
  if (bytes < atom_bytes || (swizzled && bytes % atom_bytes != 0)) {
    return refuse(
        "uses a matrix descriptor with a {} byte offset of {}: the tile has several swizzle atoms "
        "of {} bytes, so the offset {}",
        name, bytes, atom_bytes,
        swizzled ? "is a positive multiple of that" : "is at least that much");
  }
  return Error::success();
}

Error check_start(const MatrixDescriptor& d, const SharedTile& tile) {
  const u32 width = atom_chunks(d.swizzle);
  const u32 line = width * kChunk;
  if (width == 1) {
    if (d.base_offset == 0) return Error::success();
    return refuse("uses a matrix descriptor without swizzle and with base offset {}: it must be 0",
                  d.base_offset);
  }
  const u32 in_pattern = (d.start - d.base_offset * 128) % (8 * line);
  if (in_pattern >= line) {
    return refuse(
        "uses a matrix descriptor that starts at shared address {}, which is row {} of a {}-byte "
        "swizzle pattern, with base offset {}: align the tile to {} bytes",
        d.start, in_pattern / line, line, d.base_offset, 8 * line);
  }
  // A K-major row has two chunks; an MN-major row has as many as the tile.
  const u32 row_bytes = tile.rows * tile.element_bytes;
  const u32 read = tile.mn_major ? (row_bytes < line ? row_bytes : line) : 2 * kChunk;
  if (in_pattern + read > line) {
    return refuse(
        "uses a matrix descriptor that starts at byte {} of a {}-byte swizzled row and reads {} "
        "bytes of it: start at the next atom",
        in_pattern, line, read);
  }
  return Error::success();
}

// --- fp8 ---

constexpr int kSumFraction = 13;
constexpr std::int16_t kNoExponent = -1000;  // of a zero

// The exponent of `value`, which is a normal number.
int exponent_of(double value) {
  return static_cast<int>(std::bit_cast<u64>(value) >> 52 & 0x7ff) - 1023;
}
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<u64>(1023 + exponent) << 52);
}

// fp8 values in f32, which also holds their products exactly, and their exponents; subnormals have
// that of the smallest normal number. Infinities and NaNs are replaced by zero.
struct Fp8Operand {
  Fp8Operand(const double* from, size_t count, int smallest)
      : values(count), exponents(count, kNoExponent) {
    for (size_t i = 0; i < count; ++i) {
      if (!std::isfinite(from[i])) {
        finite = false;
      } else if (from[i] != 0) {
        values[i] = static_cast<float>(from[i]);
        exponents[i] = static_cast<std::int16_t>(std::max(exponent_of(from[i]), smallest));
      }
    }
  }
  std::vector<float> values;
  std::vector<std::int16_t> exponents;
  bool finite = true;  // all were
};

// One row of d while it is computed, by column: arrays, for loops that the compiler vectorises.
struct Fp8Row {
  explicit Fp8Row(u32 n) : before(n), largest(n), scale(n), sum(n) {}
  std::vector<double> before;
  std::vector<std::int16_t> largest;  // exponent of `before` and of the products
  std::vector<float> scale;           // of the products
  std::vector<i32> sum;               // scaled
  void start(const float* d) {
    for (size_t j = 0; j < before.size(); ++j) {
      before[j] = d == nullptr ? 0.0 : d[j];
      const bool counts = before[j] != 0 && std::isfinite(before[j]);
      largest[j] = counts ? static_cast<std::int16_t>(exponent_of(before[j])) : kNoExponent;
    }
  }
  void find_largest(const std::int16_t* a, const std::int16_t* b, u32 k) {
    const size_t n = largest.size();
    for (u32 i = 0; i < k; ++i) {
      for (size_t j = 0; j < n; ++j)
        largest[j] = std::max(largest[j], static_cast<std::int16_t>(a[i] + b[i * n + j]));
    }
  }
  // Products are zero where `largest` is below `smallest_product`.
  void scale_before(int smallest_product) {
    for (size_t j = 0; j < before.size(); ++j) {
      const double wide = power_of_two(kSumFraction - std::max(largest[j], kNoExponent));
      scale[j] = largest[j] >= smallest_product ? static_cast<float>(wide) : 0.0f;
      sum[j] = std::isfinite(before[j]) ? static_cast<i32>(before[j] * wide) : 0;
    }
  }
  // Each product is truncated.
  void add_products(const float* a, const float* b, u32 k) {
    const size_t n = sum.size();
    for (u32 i = 0; i < k; ++i) {
      for (size_t j = 0; j < n; ++j) sum[j] += static_cast<i32>(a[i] * b[i * n + j] * scale[j]);
    }
  }
};

// `sum` without the bits after kSumFraction fraction bits, times 2^exponent.
float truncated(i32 sum, int exponent) {
  const auto magnitude = static_cast<u32>(std::abs(sum));
  const int surplus = std::max(static_cast<int>(std::bit_width(magnitude)) - 1 - kSumFraction, 0);
  const double kept = magnitude >> surplus << surplus;
  return static_cast<float>((sum < 0 ? -kept : kept) * power_of_two(exponent));
}

double plain_sum(const double* a, const double* b, u32 n, u32 k, double before) {
  for (u32 i = 0; i < k; ++i) before += a[i] * b[i * n];
  return before;
}

void multiply_fp8(Number number, const double* a, const double* b, float* d, u32 m, u32 n, u32 k,
                  bool accumulate) {
  const int smallest = number == Number::kE4M3 ? -6 : -14;
  const Fp8Operand x(a, size_t{m} * k, smallest), y(b, size_t{k} * n, smallest);
  Fp8Row sums(n);
  for (u32 row = 0; row < m; ++row, a += k, d += n) {
    sums.start(accumulate ? d : nullptr);
    sums.find_largest(&x.exponents[row * k], y.exponents.data(), k);
    sums.scale_before(2 * smallest);
    sums.add_products(&x.values[row * k], y.values.data(), k);
    for (u32 j = 0; j < n; ++j) {
      const double before = sums.before[j];
      const bool none = sums.largest[j] <= kNoExponent;
      if (none || !std::isfinite(before) || !x.finite || !y.finite) {
        const double plain = plain_sum(a, b + j, n, k, before);
        if (none || !std::isfinite(plain)) {
          d[j] = plain == plain ? static_cast<float>(plain) : std::bit_cast<float>(0x7fffffffu);
          continue;
        }
      }
      d[j] = truncated(sums.sum[j], sums.largest[j] - kSumFraction);
    }
  }
}

}  // namespace

double bf16_value(u16 bits) { return std::bit_cast<float>(static_cast<u32>(bits) << 16); }
double f16_value(u16 bits) { return f16_float(bits); }
double tf32_value(u32 bits) { return std::bit_cast<float>(bits & 0xffffe000u); }

double fp8_value(Number number, u8 bits) {
  return fp8_to_f32(number == Number::kE4M3 ? kE4M3Bits : kE5M2Bits, bits);
}

void multiply(Number number, const double* a, const double* b, float* d, u32 m, u32 n, u32 k,
              bool accumulate) {
  if (is_fp8(number)) return multiply_fp8(number, a, b, d, m, n, k, accumulate);
  constexpr u32 kBlock = 8;
  for (u32 row = 0; row < m; ++row) {
    for (u32 column = 0; column < n; column += kBlock) {
      double sum[kBlock] = {};
      for (u32 i = 0; i < k; ++i) {
        const double factor = a[row * k + i];
        const double* from = b + i * n + column;
        for (u32 j = 0; j < kBlock; ++j) sum[j] += factor * from[j];
      }
      float* to = d + row * n + column;
      for (u32 j = 0; j < kBlock; ++j) {
        const float v = static_cast<float>(accumulate ? sum[j] + to[j] : sum[j]);
        to[j] = v == v ? v : std::bit_cast<float>(0x7fffffffu);
      }
    }
  }
}

void warp_mma(Number number, const std::array<MmaLane, 32>& lanes) {
  double a[16 * 16], b[16 * 8];
  float d[16 * 8];
  const u32 k = mma_k(number);
  const u32 per_register = 4 / operand_bytes(number);
  for (u32 lane = 0; lane < 32; ++lane) {
    for (u32 i = 0; i < 4 * per_register; ++i) {
      const Element e = mma_a_element(number, lane, i);
      a[e.row * k + e.column] = register_value(number, lanes[lane].a, i);
    }
    for (u32 i = 0; i < 2 * per_register; ++i) {
      const Element e = mma_b_element(number, lane, i);
      b[e.row * 8 + e.column] = register_value(number, lanes[lane].b, i);
    }
    for (u32 i = 0; i < 4; ++i) {
      const Element e = mma_d_element(lane, i);
      d[e.row * 8 + e.column] = lanes[lane].d[i];
    }
  }
  multiply(number, a, b, d, 16, 8, k, true);
  for (u32 lane = 0; lane < 32; ++lane) {
    for (u32 i = 0; i < 4; ++i) {
      const Element e = mma_d_element(lane, i);
      lanes[lane].d[i] = d[e.row * 8 + e.column];
    }
  }
}

std::vector<double> wgmma_a_values(Number number, const std::array<const u32*, 128>& registers) {
  const u32 k = mma_k(number);
  std::vector<double> a(64 * k);
  for (u32 thread = 0; thread < 128; ++thread) {
    for (u32 i = 0; i < 16 / operand_bytes(number); ++i) {
      const Element e = wgmma_a_element(number, thread, i);
      a[e.row * k + e.column] = register_value(number, registers[thread], i);
    }
  }
  return a;
}

void load_matrix(const std::array<const u8*, 8>& rows, bool trans,
                 const std::array<u32*, 32>& registers) {
  for (u32 lane = 0; lane < 32; ++lane) {
    u16 halves[2];
    for (u32 half = 0; half < 2; ++half) {
      const Element e = ldmatrix_element(lane, half, trans);
      std::memcpy(&halves[half], rows[e.row] + 2 * e.column, 2);
    }
    *registers[lane] = halves[0] | static_cast<u32>(halves[1]) << 16;
  }
}

void store_matrix(const std::array<u8*, 8>& rows, bool trans,
                  const std::array<const u32*, 32>& registers) {
  for (u32 lane = 0; lane < 32; ++lane) {
    for (u32 half = 0; half < 2; ++half) {
      const Element e = ldmatrix_element(lane, half, trans);
      const u16 bits = static_cast<u16>(*registers[lane] >> (16 * half));
      std::memcpy(rows[e.row] + 2 * e.column, &bits, 2);
    }
  }
}

Expected<MatrixDescriptor> decode_descriptor(u64 bits) {
  constexpr u64 kField = 0x3fff;
  constexpr u64 kUsed = kField | kField << 16 | kField << 32 | u64{7} << 49 | u64{3} << 62;
  if ((bits & ~kUsed) != 0) {
    return refuse(
        "uses the matrix descriptor {:#018x}, whose bits {:#x} are reserved: build it from 18-bit "
        "shared addresses and offsets",
        bits, bits & ~kUsed);
  }
  MatrixDescriptor d;
  d.start = static_cast<u32>(bits & kField) * kChunk;
  d.leading = static_cast<u32>(bits >> 16 & kField) * kChunk;
  d.stride = static_cast<u32>(bits >> 32 & kField) * kChunk;
  d.base_offset = static_cast<u32>(bits >> 49 & 7);
  d.swizzle = static_cast<MatrixSwizzle>(bits >> 62);
  return d;
}

Error check_descriptor(const MatrixDescriptor& d, const SharedTile& tile, u32 begin, u32 end) {
  const u32 width = atom_chunks(d.swizzle);
  const u32 atom_bytes = 8 * width * kChunk;
  const bool swizzled = width > 1;
  if (Error error = check_start(d, tile)) return error;
  // Along rows and along k: which offset leads to the next atom, and whether there is one.
  const bool next_row =
      tile.mn_major ? tile.rows * tile.element_bytes > width * kChunk : tile.rows > 8;
  const bool next_k = tile.mn_major ? tile.k() > 8 : !swizzled;
  const bool stride_is_row = !tile.mn_major || !swizzled;
  if (Error error = check_offset("stride", d.stride, stride_is_row ? next_row : next_k, atom_bytes,
                                 swizzled)) {
    return error;
  }
  if (Error error = check_offset("leading", d.leading, stride_is_row ? next_k : next_row,
                                 atom_bytes, swizzled)) {
    return error;
  }
  for (const u32 address : chunk_addresses(d, tile)) {
    if (address < begin || address + kChunk > end) {
      return refuse(
          "uses a matrix descriptor (start {}, leading {}, stride {}) that reaches shared address "
          "{}, outside [{}, {})",
          d.start, d.leading, d.stride, address, begin, end);
    }
  }
  return Error::success();
}

u32 element_address(const MatrixDescriptor& d, const SharedTile& tile, u32 row, u32 k) {
  const u32 along = tile.mn_major ? row : k;
  const u32 per_chunk = kChunk / tile.element_bytes;
  return chunk_address(d, tile, row, k) + along % per_chunk * tile.element_bytes;
}

std::vector<u32> chunk_addresses(const MatrixDescriptor& d, const SharedTile& tile) {
  const u32 per_chunk = kChunk / tile.element_bytes;
  const u32 row_stride = tile.mn_major ? per_chunk : 1;
  const u32 k_stride = tile.mn_major ? 1 : per_chunk;
  std::vector<u32> addresses;
  addresses.reserve(tile.rows * 2);
  for (u32 row = 0; row < tile.rows; row += row_stride) {
    for (u32 k = 0; k < tile.k(); k += k_stride)
      addresses.push_back(chunk_address(d, tile, row, k));
  }
  return addresses;
}

void read_operand_tile(const MatrixDescriptor& d, const SharedTile& tile, Number number,
                       const u8* bytes, u32 begin, double* out, u32 row_stride, u32 k_stride) {
  const u32 per_chunk = kChunk / tile.element_bytes;
  const u32 stride = tile.mn_major ? row_stride : k_stride;
  for (u32 row = 0; row < tile.rows; row += tile.mn_major ? per_chunk : 1) {
    for (u32 k = 0; k < tile.k(); k += tile.mn_major ? 1 : per_chunk) {
      const u8* from = bytes + (chunk_address(d, tile, row, k) - begin);
      double* to = out + row * row_stride + k * k_stride;
      for (u32 i = 0; i < per_chunk; ++i) {
        to[i * stride] = memory_value(number, from + i * tile.element_bytes);
      }
    }
  }
}

}  // namespace catenary::sim
