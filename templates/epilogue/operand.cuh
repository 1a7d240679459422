// SPDX-License-Identifier: Apache-2.0
// Loads of operands. An operand stays in its registers as it is in memory until it is used: 16
// bits of a bf16, not the 32 of its f32 value, so that more of them can be loaded ahead.
#pragma once

#include "epilogue/vec.cuh"

namespace catenary {

// Is the operand contiguous along M, in columns of D? Then D is computed transposed.
constexpr bool is_m_major(const Operand& operand) {
  return operand.stride.at[kMaxDims - 2] == 1 && operand.stride.at[kMaxDims - 1] != 1;
}

// Load instruction of an operand: ld.global, with L1::no_allocate, or ld.global.nc.
enum class Access : u8 { kPlain, kStreamed, kConstant };

template <Operand kOperand>
constexpr Access access_of() {
  if (kOperand.before_wait) return Access::kPlain;
  if (kOperand.weight) return Access::kConstant;
  return kOperand.streamed ? Access::kStreamed : Access::kPlain;
}

// The bits of one element.
template <DType kDType, Access kAccess>
CATENARY_DEVICE u32 load_element(const u8* p) {
  constexpr bool kConstant = kAccess == Access::kConstant;
  if constexpr (dtype_bytes(kDType) == 4) {
    return kConstant ? ld_global_constant_u32(p) : ld_global_u32(p);
  } else if constexpr (dtype_bytes(kDType) == 2) {
    return kConstant ? ld_global_constant_u16(p) : ld_global_u16(p);
  } else {
    static_assert(dtype_bytes(kDType) == 1, "no load of this dtype");
    return kConstant ? ld_global_constant_u8(p) : ld_global_u8(p);
  }
}

template <DType kDType>
CATENARY_DEVICE float widen_element(u32 bits) {
  if constexpr (kDType == DType::kF32) {
    return bits_to_f32(bits);
  } else if constexpr (is_fp8(kDType)) {
    float low, high;
    widen_8bit<kDType>(static_cast<u16>(bits), low, high);
    return low;
  } else {
    return widen_16bit<kDType>(static_cast<u16>(bits));
  }
}

// kWords 32-bit words (at most 16 bytes) at an address aligned to their size.
template <int kWords, Access kAccess>
CATENARY_DEVICE void load_words(const u8* p, u32* word) {
  if constexpr (kWords == 4) {
    const U32x4 w = kAccess == Access::kConstant   ? ld_global_constant_v4(p)
                    : kAccess == Access::kStreamed ? ld_global_streamed_v4(p)
                                                   : ld_global_v4(p);
    word[0] = w.x, word[1] = w.y, word[2] = w.z, word[3] = w.w;
  } else if constexpr (kWords == 2) {
    const U32x2 w = kAccess == Access::kConstant   ? ld_global_constant_v2(p)
                    : kAccess == Access::kStreamed ? ld_global_streamed_v2(p)
                                                   : ld_global_v2(p);
    word[0] = w.x, word[1] = w.y;
  } else {
    word[0] = kAccess == Access::kConstant ? ld_global_constant_u32(p) : ld_global_u32(p);
  }
}

// V adjacent elements of a row as they were loaded: as whole words, as one element that all V
// share, or as one word for each element.
template <Operand kOperand, int V>
struct Loaded {
  static constexpr bool kShared = kOperand.stride.at[kMaxDims - 1] == 0;
  static constexpr bool kPacked = !kShared && is_vector_access<kOperand, V>();
  static constexpr int kBytes = dtype_bytes(kOperand.dtype);
  static constexpr int kPerWord = kPacked ? 4 / kBytes : 1;
  u32 word[kShared ? 1 : V / kPerWord];

  CATENARY_DEVICE Vec<V> values() const {
    Vec<V> out;
    if constexpr (kPacked) {
#pragma unroll
      for (int i = 0; i < V / kPerWord; ++i)
        unpack_word<kOperand.dtype>(word[i], out.v + kPerWord * i);
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) out.v[i] = widen_element<kOperand.dtype>(word[kShared ? 0 : i]);
    }
    return out;
  }
};

// Loads all V elements, with the widest accesses that the operand's alignment allows.
template <Operand kOperand, int V>
CATENARY_DEVICE void load_all(const u8* p, Loaded<kOperand, V>& out) {
  constexpr int kElements = access_elements<kOperand, V>();
  constexpr int kBytes = dtype_bytes(kOperand.dtype);
  constexpr int kWords = kElements * kBytes / 4;
#pragma unroll
  for (int i = 0; i < V / kElements; ++i)
    load_words<kWords, access_of<kOperand>()>(p + i * kElements * kBytes, out.word + i * kWords);
}

// Loads the elements before `valid` one by one; the others are 0.
template <Operand kOperand, int V>
CATENARY_DEVICE void load_each(const u8* p, int valid, Loaded<kOperand, V>& out) {
  using L = Loaded<kOperand, V>;
  constexpr i64 kStep = kOperand.stride.at[kMaxDims - 1];
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const u32 bits =
        i < valid ? load_element<kOperand.dtype, access_of<kOperand>()>(p + i * kStep * L::kBytes)
                  : 0;
    u32& word = out.word[i / L::kPerWord];
    if constexpr (L::kPerWord == 1) {
      word = bits;
    } else {
      const u32 before = i % L::kPerWord == 0 ? 0 : word;
      word = before | bits << (8 * L::kBytes * (i % L::kPerWord));
    }
  }
}

// V elements of the operand at `at`; elements past `valid` are 0. kGuarded: `valid` may be less
// than V.
template <Operand kOperand, int V, bool kGuarded, class P>
CATENARY_DEVICE Loaded<kOperand, V> load_operand(const P& params, const Coord& at) {
  using L = Loaded<kOperand, V>;
  Loaded<kOperand, V> out;
  if constexpr (kOperand.by_group) {
    if (at.group == kNoGroup) {
#pragma unroll
      for (u32& word : out.word) word = 0;
      return out;
    }
  }
  const u8* p =
      static_cast<const u8*>(params.ptr[kOperand.slot]) + element_offset<kOperand>(at) * L::kBytes;
  if constexpr (L::kShared) {
    out.word[0] = load_element<kOperand.dtype, access_of<kOperand>()>(p);
  } else if constexpr (!kGuarded) {
    if constexpr (L::kPacked) {
      load_all<kOperand, V>(p, out);
    } else {
      load_each<kOperand, V>(p, V, out);
    }
  } else {
    if constexpr (L::kPacked) {
      if (at.valid == V) {
        load_all<kOperand, V>(p, out);
        return out;
      }
    }
    load_each<kOperand, V>(p, at.valid, out);
  }
  return out;
}

}  // namespace catenary
