// SPDX-License-Identifier: Apache-2.0
// What the tensor cores compute, as pure functions: which lane and register holds which element of
// a fragment (PTX ISA 9.7.14 and 9.7.15, "Matrix Fragments"), which addresses a shared-memory
// matrix descriptor names (9.7.15.5.1), and one multiply-accumulate. Operand bits in, f32
// accumulators out. Independent of threads, order and memory.
#pragma once

#include <array>
#include <vector>

#include "ir/error.h"
#include "sim/machine.h"

namespace catenary::sim {

// --- numbers: exact values; NaN payloads are lost ---

double bf16_value(u16 bits);
double f16_value(u16 bits);
// The low 13 bits are ignored, as the hardware does.
double tf32_value(u32 bits);
double fp8_value(Number number, u8 bits);

constexpr bool is_fp8(Number number) { return number == Number::kE4M3 || number == Number::kE5M2; }
// Bytes of an operand element in registers and in shared memory: 2, 4 for tf32, 1 for fp8.
constexpr u32 operand_bytes(Number number) {
  return number == Number::kTF32 ? 4 : is_fp8(number) ? 1 : 2;
}
// K of one instruction: 16, 8 for tf32, 32 for fp8 (32 bytes in all cases).
constexpr u32 mma_k(Number number) { return 32 / operand_bytes(number); }
// mma.sync and wgmma with A in registers take these. wgmma takes fp8 from shared memory, too.
constexpr bool is_operand(Number number) {
  return number == Number::kBF16 || number == Number::kF16 || number == Number::kTF32;
}

// --- fragments: which element a lane holds as its i-th ---

struct Element {
  u32 row;
  u32 column;
  bool operator==(const Element&) const = default;
};

// C and D of mma.sync, 16 x 8: i in 0..3.
constexpr Element mma_d_element(u32 lane, u32 i) {
  return {lane / 4 + 8 * (i / 2), 2 * (lane % 4) + i % 2};
}

// A of mma.sync, 16 x K: i in 0..7 (two per register), tf32 0..3. The column is k.
constexpr Element mma_a_element(Number number, u32 lane, u32 i) {
  if (number == Number::kTF32) return {lane / 4 + 8 * (i % 2), lane % 4 + 4 * (i / 2)};
  return {lane / 4 + 8 * (i / 2 % 2), 2 * (lane % 4) + i % 2 + 8 * (i / 4)};
}

// B of mma.sync, K x 8: i in 0..3 (two per register), tf32 0..1. The row is k.
constexpr Element mma_b_element(Number number, u32 lane, u32 i) {
  if (number == Number::kTF32) return {lane % 4 + 4 * i, lane / 4};
  return {2 * (lane % 4) + i % 2 + 8 * (i / 2), lane / 4};
}

// ldmatrix and stmatrix: the element of an 8 x 8 matrix that a lane holds in the low (half 0) or
// high half of that matrix's register.
constexpr Element ldmatrix_element(u32 lane, u32 half, bool trans) {
  const u32 minor = 2 * (lane % 4) + half;
  return trans ? Element{minor, lane / 4} : Element{lane / 4, minor};
}

// D of wgmma, 64 x n: `thread` of the warpgroup, i in 0..n/2-1.
constexpr Element wgmma_d_element(u32 thread, u32 i) {
  const u32 lane = thread % 32;
  return {16 * (thread / 32) + lane / 4 + 8 * (i / 2 % 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2};
}

// A of wgmma in registers, 64 x K: each warp holds 16 rows as in mma.sync.
constexpr Element wgmma_a_element(Number number, u32 thread, u32 i) {
  const Element e = mma_a_element(number, thread % 32, i);
  return {16 * (thread / 32) + e.row, e.column};
}

// --- multiply-accumulate ---

// d (m x n) = a (m x k) * b (k x n) + (accumulate ? d : 0), all row-major, n a multiple of 8. A NaN
// is 0x7fffffff.
//   16 bits, tf32  Each element is summed in double and rounded to f32 once, to nearest. The
//                  hardware aligns the products of one instruction to the largest and truncates the
//                  bits below its adder, so that its last bits differ; where every sum is exact in
//                  f32, both agree bit for bit.
//   fp8            As Hopper does by MMA-Sim (arXiv:2511.10909), which agrees with an H100 bit for
//                  bit. A product's exponent is the sum of its factors' exponents. Products and d
//                  are aligned to the largest exponent and truncated to 13 fraction bits. Their
//                  sum is truncated to 13 fraction bits again.
void multiply(Number number, const double* a, const double* b, float* d, u32 m, u32 n, u32 k,
              bool accumulate);

// The registers of a lane in mma.sync: a[4], b[2], d[4].
struct MmaLane {
  const u32* a;
  const u32* b;
  float* d;
};
// m16n8k16 or m16n8k8 over a warp: d += a * b.
void warp_mma(Number number, const std::array<MmaLane, 32>& lanes);

// A (64 x K, row-major) of a wgmma from the four registers of each of its 128 threads.
std::vector<double> wgmma_a_values(Number number, const std::array<const u32*, 128>& registers);

// One matrix of ldmatrix (stmatrix): `rows` are its eight rows of 16 bytes, `registers` each lane's
// register for it.
void load_matrix(const std::array<const u8*, 8>& rows, bool trans,
                 const std::array<u32*, 32>& registers);
void store_matrix(const std::array<u8*, 8>& rows, bool trans,
                  const std::array<const u32*, 32>& registers);

// --- matrix descriptors ---

enum class MatrixSwizzle : u8 { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };  // as encoded

// All in bytes but base_offset, which counts lines of 128 bytes.
struct MatrixDescriptor {
  u32 start = 0;  // shared address
  u32 leading = 0;
  u32 stride = 0;
  u32 base_offset = 0;
  MatrixSwizzle swizzle = MatrixSwizzle::kNone;
};

// One operand of one wgmma in shared memory: rows of A, or columns of B, by K.
struct SharedTile {
  u32 rows = 0;  // a multiple of 8
  u32 element_bytes = 2;
  bool mn_major = false;  // rows are contiguous instead of k
  u32 k() const { return 32 / element_bytes; }
};

// kSimulatorFault: a reserved bit is set. The messages of these two have no subject: the caller
// adds the thread.
Expected<MatrixDescriptor> decode_descriptor(u64 bits);

// kSimulatorFault: the tile does not consist of whole swizzle atoms, or an element is outside the
// shared addresses [begin, end).
Error check_descriptor(const MatrixDescriptor& descriptor, const SharedTile& tile, u32 begin,
                       u32 end);

// The shared address of an element.
u32 element_address(const MatrixDescriptor& descriptor, const SharedTile& tile, u32 row, u32 k);

// The shared addresses of the tile's 16-byte chunks, row by row: a quarter of the list covers a
// quarter of the rows.
std::vector<u32> chunk_addresses(const MatrixDescriptor& descriptor, const SharedTile& tile);

// The tile's values: element (row, k) at out[row * row_stride + k * k_stride]. `bytes` are the
// contents of shared memory from address `begin` on.
void read_operand_tile(const MatrixDescriptor& descriptor, const SharedTile& tile, Number number,
                       const u8* bytes, u32 begin, double* out, u32 row_stride, u32 k_stride);

}  // namespace catenary::sim
