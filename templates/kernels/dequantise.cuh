// SPDX-License-Identifier: Apache-2.0
// `dequantise`: out = program((q - zero) * scale), a quantised weight as an ordinary matrix. A
// thread makes 8 neighbouring columns of one row, from the packed layout or from plain rows:
//
//   packed   the integers are in 4 words, 16 bytes apart, which rows g and g + 8 and both halves of
//            16 columns share. A warp makes 4 rows of 64 columns, whole lines of 128 bytes:
//            lane % 8   8 columns of a tile     lane / 8 % 2   row g or g + 8     lane / 16   g
//   plain    the integers are neighbours; neighbouring threads make neighbouring columns
//
//   timeline: PDL trigger | load weights | dependency wait | load inputs | compute, store
//
// No integer is converted: its bits become the fraction of a float whose unit is 1 there, 2^23, and
// one exact subtraction takes that, the flipped sign bit and the zero away.
#pragma once

#include "epilogue/operand.cuh"
#include "epilogue/ops.cuh"
#include "ptx/bits.cuh"
#include "ptx/sync.cuh"
#include "shared/dequantise_config.h"

namespace catenary {

// The coordinates of a thread's vector. False: it is padding of the packed layout.
template <const DequantiseConfig& kConfig, class Index>
CATENARY_DEVICE bool dequantise_coord(Index thread, Coord& at, Index& tile) {
  constexpr u32 kVectors = static_cast<u32>(kConfig.tile_vectors());
  constexpr u32 kThreads = static_cast<u32>(kConfig.tile_rows()) * kVectors;
  const u32 inside = static_cast<u32>(thread % kThreads);
  tile = thread / kThreads;
  const u32 row = kConfig.packed ? inside / kVectors % 2 * 8 + inside / kVectors / 2 : 0;
  const Index column_tile = tile % static_cast<Index>(kConfig.column_tiles());
  Index left = tile / static_cast<Index>(kConfig.column_tiles());
  at.dim[kMaxDims - 1] =
      static_cast<u32>(column_tile * kVectors + inside % kVectors) * kDequantisedColumns;
  at.dim[kMaxDims - 2] =
      static_cast<u32>(left % static_cast<Index>(kConfig.row_tiles()) * kConfig.tile_rows()) + row;
  left /= static_cast<Index>(kConfig.row_tiles());
#pragma unroll
  for (int d = kMaxDims - 3; d >= 0; --d) {
    const Index size = static_cast<Index>(kConfig.size.at[d].size);
    if (size == 1) continue;
    at.dim[d] = static_cast<u32>(left % size);
    left /= size;
  }
  const i64 columns = kConfig.columns() - at.dim[kMaxDims - 1];
  at.valid = columns < kDequantisedColumns ? static_cast<i32>(columns) : kDequantisedColumns;
  return columns > 0 && at.dim[kMaxDims - 2] < kConfig.rows();
}

// The bit that is flipped, so that the smallest integer becomes 0.
constexpr u32 sign_bit(DType dtype) {
  return dtype == DType::kU4 ? 0 : 1u << (dtype_info(dtype).bits - 1);
}

// The integer in the low bits of a word.
template <DType kDType>
CATENARY_DEVICE i32 integer_of(u32 word) {
  constexpr u32 kMask = (1u << dtype_info(kDType).bits) - 1;
  return static_cast<i32>((word & kMask) ^ sign_bit(kDType)) - static_cast<i32>(sign_bit(kDType));
}

// 2^23 + the integer in the low bits of a word, with its sign bit flipped.
template <DType kDType>
CATENARY_DEVICE float offset_integer(u32 word) {
  constexpr u32 kMask = (1u << dtype_info(kDType).bits) - 1;
  return bits_to_f32(and_xor(word, kMask, 0x4b000000u | sign_bit(kDType)));
}

// A vector of q as it was loaded.
template <const DequantiseConfig& kConfig>
struct QuantisedVector {
  static constexpr Operand kQ = kConfig.q;
  static constexpr u32 kBits = dtype_info(kQ.dtype).bits;
  u32 word[kConfig.packed ? 4 : kBits / 4];

  // Integer e in the low bits.
  CATENARY_DEVICE u32 element(u32 e) const {
    if constexpr (kConfig.packed) return word[e / 2] >> e % 2 * 16;
    return word[e * kBits / 32] >> e * kBits % 32;
  }

  template <class P>
  CATENARY_DEVICE void load(const P& params, const Coord& at, i64 tile) {
    const u8* q = static_cast<const u8*>(params.ptr[kQ.slot]);
    if constexpr (kConfig.packed) {
      load_packed(q + tile * packed_tile_bytes(kQ.dtype), at);
    } else {
      load_plain(q + element_offset<kQ>(at) * kBits / 8, at.valid);
    }
  }

 private:
  CATENARY_DEVICE void load_packed(const u8* q, const Coord& at) {
    const u32 row = at.dim[kMaxDims - 2] % static_cast<u32>(kPackedRows);
    const u32 column = at.dim[kMaxDims - 1] % static_cast<u32>(kPackedColumns);
    const u32 bit = static_cast<u32>(packed_index(kQ.dtype, row, column, kPackedColumns)) * kBits;
#pragma unroll
    for (int lane = 0; lane < 4; ++lane) {
      load_words<1, access_of<kQ>()>(q + bit / 32 * 4 + lane * 16, word + lane);
      word[lane] >>= bit % 32;
    }
  }

  // Integers before `valid`; the others are 0.
  CATENARY_DEVICE void load_plain(const u8* q, i32 valid) {
    constexpr u32 kWords = kBits / 4;
    if constexpr (kConfig.load_bytes >= 4) {
      if (valid == kDequantisedColumns) {
        constexpr u32 kPerLoad = kConfig.load_bytes / 4;
#pragma unroll
        for (u32 i = 0; i < kWords; i += kPerLoad)
          load_words<kPerLoad, access_of<kQ>()>(q + i * 4, word + i);
        return;
      }
    }
    // Two integers of 4 bits are one byte: their stride is 1.
    constexpr i64 kStep = kBits == 8 ? kQ.stride.at[kMaxDims - 1] : 1;
#pragma unroll
    for (u32 i = 0; i < kWords; ++i) word[i] = 0;
#pragma unroll
    for (u32 i = 0; i < kBits; ++i) {
      if (static_cast<i32>(i * 8 / kBits) < valid)
        word[i / 4] |= load_element<kQ.dtype, access_of<kQ>()>(q + i * kStep) << i % 4 * 8;
    }
  }
};

// Scales or zeros of a vector: one, where all its columns are of one block.
template <const DequantiseConfig& kConfig, Operand kNumbers>
struct BlockNumbersOf {
  static constexpr int kCount = kConfig.shares_block() ? 1 : kDequantisedColumns;
  u32 bits[kCount];

  template <class P>
  CATENARY_DEVICE void load(const P& params, const Coord& at) {
    constexpr u32 kRows = static_cast<u32>(kConfig.block_rows);
    constexpr u32 kColumns = static_cast<u32>(kConfig.block_columns);
    Coord block = at;
    block.dim[kMaxDims - 2] = at.dim[kMaxDims - 2] / kRows;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      block.dim[kMaxDims - 1] = (at.dim[kMaxDims - 1] + i) / kColumns;
      bits[i] = i < at.valid ? load_number(params, element_offset<kNumbers>(block)) : 0;
    }
  }

  CATENARY_DEVICE u32 of(int e) const { return bits[kCount == 1 ? 0 : e]; }

 private:
  template <class P>
  CATENARY_DEVICE u32 load_number(const P& params, i64 index) {
    const u8* p = static_cast<const u8*>(params.ptr[kNumbers.slot]);
    constexpr i32 kBits = dtype_info(kNumbers.dtype).bits;
    const u32 loaded = load_element<kNumbers.dtype, access_of<kNumbers>()>(p + index * kBits / 8);
    return kBits == 4 ? loaded >> (static_cast<u32>(index) % 2 * 4) : loaded;
  }
};

// What a thread loads: its weights before the dependency wait, the rest after it.
template <const DequantiseConfig& kConfig>
struct DequantiseLoads {
  QuantisedVector<kConfig> q;
  BlockNumbersOf<kConfig, kConfig.scale> scale;
  BlockNumbersOf<kConfig, kConfig.zero> zero;

  template <bool kBeforeWait, class P>
  CATENARY_DEVICE void load(const P& params, const Coord& at, i64 tile) {
    if constexpr (kConfig.q.before_wait == kBeforeWait) q.load(params, at, tile);
    if constexpr (kConfig.scale.before_wait == kBeforeWait) scale.load(params, at);
    if constexpr (kConfig.has_zero && kConfig.zero.before_wait == kBeforeWait)
      zero.load(params, at);
  }

  // (q - zero) * scale, rounded once, to f32.
  CATENARY_DEVICE float value(int e) const {
    constexpr DType kQ = kConfig.q.dtype;
    i32 offset = (1 << 23) + static_cast<i32>(sign_bit(kQ));
    if constexpr (kConfig.has_zero) offset += integer_of<kConfig.zero.dtype>(zero.of(e));
    const float difference = offset_integer<kQ>(q.element(e)) - static_cast<float>(offset);
    return difference * widen_element<kConfig.scale.dtype>(scale.of(e));
  }
};

template <const DequantiseConfig& kConfig, class Program, class P>
CATENARY_DEVICE void dequantise(const P& params) {
  constexpr bool kWide = kConfig.threads_in_all() >= (i64{1} << 31);
  using Index = typename IndexType<kWide>::type;
  griddepcontrol_launch_dependents();

  const Index thread = static_cast<Index>(blockIdx.x) * kConfig.threads + threadIdx.x;
  Coord at;
  Index tile = 0;
  const bool inside = thread < static_cast<Index>(kConfig.threads_in_all()) &&
                      dequantise_coord<kConfig, Index>(thread, at, tile);
  DequantiseLoads<kConfig> loads;
  if (inside) loads.template load<true>(params, at, static_cast<i64>(tile));
  griddepcontrol_wait();
  if (!inside) return;
  loads.template load<false>(params, at, static_cast<i64>(tile));
  Vec<kDequantisedColumns> weight;
#pragma unroll
  for (int e = 0; e < kDequantisedColumns; ++e) weight.v[e] = loads.value(e);
  typename Program::Operands operands;
  Program::store(params, at, operands, weight);
}

}  // namespace catenary
