// SPDX-License-Identifier: Apache-2.0
// Vec<V>: V adjacent f32 values of one row; Coord: its position in the iteration space; conversions
// and stores. Elements past the row's end (index >= valid) are neither read nor written. Loads:
// epilogue/operand.cuh.
#pragma once

#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "shared/config.h"
#include "shared/params.h"

namespace catenary {

template <int V>
struct Vec {
  float v[V];
};

// 32-bit indices where they count all vectors: divisions by constants are then one multiplication.
template <bool kWide>
struct IndexType {
  using type = u32;
};
template <>
struct IndexType<true> {
  using type = u64;
};

// Coord::group of a row that no ragged group has.
inline constexpr u32 kNoGroup = ~0u;

// The first element of a vector in the iteration space, and how many of its elements are inside.
struct Coord {
  u32 dim[kMaxDims] = {};
  i32 valid = 0;
  u32 group = kNoGroup;  // M-grouped: that of the vector's row
};

// Element offset of the operand at `at`. A recursion instead of a loop: dimensions with stride 0
// generate no code.
template <Operand kOperand, int kDim = 0>
CATENARY_DEVICE i64 element_offset(const Coord& at) {
  if constexpr (kDim == kMaxDims) {
    return kOperand.by_group ? static_cast<i64>(at.group) * kOperand.stride_group : 0;
  } else if constexpr (kOperand.stride.at[kDim] == 0) {
    return element_offset<kOperand, kDim + 1>(at);
  } else {
    constexpr u32 kPeriod = kDim == kMaxDims - 1 ? kOperand.period : 0;
    const u32 index = kPeriod > 0 ? at.dim[kDim] % (kPeriod > 0 ? kPeriod : 1) : at.dim[kDim];
    return static_cast<i64>(index) * kOperand.stride.at[kDim] +
           element_offset<kOperand, kDim + 1>(at);
  }
}

template <DType kDType>
CATENARY_DEVICE float widen_16bit(u16 bits) {
  if constexpr (kDType == DType::kBF16) {
    return bf16_to_f32(bits);
  } else {
    static_assert(kDType == DType::kF16, "no conversion of this dtype to f32");
    return f16_to_f32(bits);
  }
}

// Two 8-bit elements.
template <DType kDType>
CATENARY_DEVICE void widen_8bit(u16 bits, float& low, float& high) {
  static_assert(is_fp8(kDType), "no conversion of this dtype to f32");
  const u32 halves = kDType == DType::kE4M3 ? e4m3x2_to_f16x2(bits) : e5m2x2_to_f16x2(bits);
  low = f16_to_f32(static_cast<u16>(halves));
  high = f16_to_f32(static_cast<u16>(halves >> 16));
}

template <DType kDType>
CATENARY_DEVICE u16 narrow_8bit(float low, float high) {
  static_assert(is_fp8(kDType), "no conversion of f32 to this dtype");
  return kDType == DType::kE4M3 ? f32_to_e4m3x2(low, high) : f32_to_e5m2x2(low, high);
}

template <DType kDType>
CATENARY_DEVICE void store_element(u8* p, float v) {
  if constexpr (kDType == DType::kBF16) {
    st_global_u16(p, f32_to_bf16(v));
  } else if constexpr (kDType == DType::kF16) {
    st_global_u16(p, f32_to_f16(v));
  } else if constexpr (is_fp8(kDType)) {
    st_global_u8(p, narrow_8bit<kDType>(v, 0.0f));
  } else {
    static_assert(kDType == DType::kF32, "no store of this dtype");
    st_global_u32(p, f32_to_bits(v));
  }
}

// Two 16-bit elements of one 32-bit word.
template <DType kDType>
CATENARY_DEVICE void unpack(u32 word, float& low, float& high) {
  if constexpr (kDType == DType::kBF16) {
    low = bits_to_f32(word << 16);
    high = bits_to_f32(word & 0xffff0000u);
  } else {
    static_assert(kDType == DType::kF16, "no packed form of this dtype");
    low = f16_to_f32(static_cast<u16>(word));
    high = f16_to_f32(static_cast<u16>(word >> 16));
  }
}

template <DType kDType>
CATENARY_DEVICE u32 pack(float low, float high) {
  if constexpr (kDType == DType::kBF16) {
    return f32_to_bf16x2(low, high);
  } else {
    static_assert(kDType == DType::kF16, "no packed form of this dtype");
    return f32_to_f16x2(low, high);
  }
}

// The elements of one 32-bit word, from and to out[0 ..]: 1, 2 or 4.
template <DType kDType>
CATENARY_DEVICE void unpack_word(u32 word, float* out) {
  if constexpr (kDType == DType::kF32) {
    out[0] = bits_to_f32(word);
  } else if constexpr (is_fp8(kDType)) {
    widen_8bit<kDType>(static_cast<u16>(word), out[0], out[1]);
    widen_8bit<kDType>(static_cast<u16>(word >> 16), out[2], out[3]);
  } else {
    unpack<kDType>(word, out[0], out[1]);
  }
}

template <DType kDType>
CATENARY_DEVICE u32 pack_word(const float* in) {
  if constexpr (kDType == DType::kF32) {
    return f32_to_bits(in[0]);
  } else if constexpr (is_fp8(kDType)) {
    return narrow_8bit<kDType>(in[0], in[1]) | static_cast<u32>(narrow_8bit<kDType>(in[2], in[3]))
                                                   << 16;
  } else {
    return pack<kDType>(in[0], in[1]);
  }
}

// kWords 32-bit words (at most 16 bytes) at an address aligned to their size.
template <int kWords, bool kStreamed>
CATENARY_DEVICE void store_words(u8* p, const u32* word) {
  if constexpr (kWords == 4) {
    const U32x4 w = {word[0], word[1], word[2], word[3]};
    if constexpr (kStreamed) {
      st_global_streamed_v4(p, w);
    } else {
      st_global_v4(p, w);
    }
  } else if constexpr (kWords == 2) {
    st_global_v2(p, {word[0], word[1]});
  } else {
    st_global_u32(p, word[0]);
  }
}

// Elements of one load or store: as many as the operand's alignment allows (`vec`), at most V and
// 16 bytes.
template <Operand kOperand, int V>
constexpr int access_elements() {
  constexpr int widest = 16 / dtype_bytes(kOperand.dtype);
  constexpr int limit = V < widest ? V : widest;
  return kOperand.vec < limit ? kOperand.vec : limit;
}

template <Operand kOperand, int V>
CATENARY_DEVICE void store_full(u8* p, const Vec<V>& in) {
  constexpr int kElements = access_elements<kOperand, V>();
  constexpr int kBytes = dtype_bytes(kOperand.dtype);
  constexpr int kWords = kElements * kBytes >= 4 ? kElements * kBytes / 4 : 1;
#pragma unroll
  for (int i = 0; i < V; i += kElements) {
    u32 word[kWords];
#pragma unroll
    for (int j = 0; j < kWords; ++j) word[j] = pack_word<kOperand.dtype>(in.v + i + 4 / kBytes * j);
    store_words<kWords, kOperand.streamed>(p + i * kBytes, word);
  }
}

// Whether accesses of whole 32-bit words are possible.
template <Operand kOperand, int V>
constexpr bool is_vector_access() {
  return kOperand.stride.at[kMaxDims - 1] == 1 &&
         access_elements<kOperand, V>() * dtype_bytes(kOperand.dtype) >= 4;
}

// kGuarded: `valid` may be less than V.
template <Operand kOperand, int V, bool kGuarded, class P>
CATENARY_DEVICE void store_vec(const P& params, const Coord& at, const Vec<V>& in) {
  constexpr i64 kStep = kOperand.stride.at[kMaxDims - 1];
  constexpr int kBytes = dtype_bytes(kOperand.dtype);
  if (kOperand.by_group && at.group == kNoGroup) return;
  u8* p = static_cast<u8*>(params.ptr[kOperand.slot]) + element_offset<kOperand>(at) * kBytes;
  if constexpr (is_vector_access<kOperand, V>() && !kGuarded) {
    store_full<kOperand, V>(p, in);
  } else if (is_vector_access<kOperand, V>() && at.valid == V) {
    store_full<kOperand, V>(p, in);
  } else {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (!kGuarded || i < at.valid) store_element<kOperand.dtype>(p + i * kStep * kBytes, in.v[i]);
    }
  }
}

// The value of an extent at launch.
template <class P>
CATENARY_DEVICE i64 extent_at_launch(Extent extent, const P& params) {
  return extent.scale == 0 ? extent.size : params.symbol * extent.scale;
}

}  // namespace catenary
