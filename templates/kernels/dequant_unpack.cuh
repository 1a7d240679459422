// SPDX-License-Identifier: Apache-2.0
// Packed integers -> A fragments of mma.sync.m16n8k16 in bf16 or f16 (shared/packed_weight.h), and
// the zeros that are subtracted from them. No integer is converted: its bits become the fraction of
// a float whose unit is 1 there (2^7 in bf16, 2^10 in f16), and an exact subtraction takes that
// power of two away, together with the zero.
//
//   4 bits   u  -> 2^p + u            i -> 2^p + (i + 8): the sign bit is flipped
//   8 bits, f16   i -> 2^10 + (i + 128), the same
//   8 bits, bf16  i -> (2^7 + low 7 bits) - (2^7 or, with the sign bit, 2^8): the sign bit is the
//                 lowest bit of the exponent
//
// q - zero is at most 256 in magnitude: exact in both dtypes. So is the power of two with a zero of
// 8 bits, but for i4 in bf16, 2^7 + 8 + zero: there the zero is subtracted by itself.
#pragma once

#include "ptx/bits.cuh"
#include "ptx/convert.cuh"
#include "ptx/half2.cuh"
#include "ptx/shared.cuh"
#include "shared/dequant_operand.h"

namespace catenary {

template <MathMode kMath>
CATENARY_DEVICE u32 subtract_pair(u32 a, u32 b) {
  if constexpr (kMath == MathMode::kBF16) return sub_bf16x2(a, b);
  static_assert(kMath == MathMode::kBF16 || kMath == MathMode::kF16, "q is multiplied in 16 bits");
  return sub_f16x2(a, b);
}

// Two floats whose unit is the lowest bit of their fraction.
template <const auto& kConfig>
constexpr u32 widened_power() {
  return kConfig.space.math == MathMode::kBF16 ? 0x43004300u : 0x64006400u;
}

// Whether a widened integer has an offset, the power of two and the flipped sign bit, that is
// subtracted with the zero; else it is exact already.
template <const auto& kConfig>
constexpr bool has_offset() {
  if (kConfig.space.math == MathMode::kF16) return true;
  return kConfig.w.dtype == DType::kU4 || (kConfig.w.dtype == DType::kI4 && !kConfig.w.has_zero);
}

// The sign bits that are flipped in a widened pair.
template <const auto& kConfig>
constexpr u32 flipped_signs() {
  if (kConfig.w.dtype == DType::kU4) return 0;
  return kConfig.w.dtype == DType::kI4 ? 0x00080008u : 0x00800080u;
}

// Two equal numbers of X's dtype: what is subtracted from every integer of a block.
template <const auto& kConfig>
CATENARY_DEVICE u32 offset_pair(i32 zero) {
  constexpr bool kBF16 = kConfig.space.math == MathMode::kBF16;
  // The float whose fraction is the flipped sign is what is subtracted: 2^7 + 8 in bf16 for i4.
  if constexpr (!kConfig.w.has_zero) return widened_power<kConfig>() | flipped_signs<kConfig>();
  constexpr i32 kSign = static_cast<i32>(flipped_signs<kConfig>() & 0xffff);
  constexpr i32 kOffset = has_offset<kConfig>() ? (kBF16 ? 128 : 1024) + kSign : 0;
  const float v = static_cast<float>(kOffset + zero);
  return kBF16 ? f32_to_bf16x2(v, v) : f32_to_f16x2(v, v);
}

// The integers in the halves of `word`, in bits 0 to 3 of each for 4 bits, in bits 0 to 7 for 8.
template <const auto& kConfig>
CATENARY_DEVICE u32 widen_pair(u32 word) {
  constexpr MathMode kMath = kConfig.space.math;
  constexpr DType kQ = kConfig.w.dtype;
  constexpr u32 kPower = widened_power<kConfig>(), kSigns = flipped_signs<kConfig>();
  if constexpr (kQ == DType::kU4) {
    return and_xor(word, 0x000f000fu, kPower);
  } else if constexpr (kQ == DType::kI4) {
    const u32 widened = and_xor(word, 0x000f000fu, kPower | kSigns);
    return has_offset<kConfig>() ? widened : subtract_pair<kMath>(widened, kPower | kSigns);
  } else if constexpr (kMath == MathMode::kF16) {
    return and_xor(word, 0x00ff00ffu, kPower | kSigns);
  } else {
    static_assert(kQ == DType::kI8, "no integers of this dtype");
    return sub_bf16x2(and_xor(word, 0x007f007fu, kPower), and_xor(word, kSigns, kPower));
  }
}

// Register i of an A fragment. Four bits: one word for all four registers. Eight bits: two.
template <const auto& kConfig>
CATENARY_DEVICE u32 widen_register(u32 word0, u32 word1, int i) {
  if constexpr (kConfig.w.dtype == DType::kI8) {
    return widen_pair<kConfig>((i < 2 ? word0 : word1) >> i % 2 * 8);
  } else {
    return widen_pair<kConfig>(word0 >> i * 4);
  }
}

// The fragment, with `upper` subtracted from rows g and `lower` from rows g + 8.
template <const auto& kConfig>
CATENARY_DEVICE U32x4 unpack_fragment(u32 word0, u32 word1, u32 upper, u32 lower) {
  u32 a[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    a[i] = widen_register<kConfig>(word0, word1, i);
    if constexpr (kConfig.w.has_zero || has_offset<kConfig>()) {
      a[i] = subtract_pair<kConfig.space.math>(a[i], i % 2 == 0 ? upper : lower);
    }
  }
  return {a[0], a[1], a[2], a[3]};
}

// This lane's words of q of a K block at shared address `tile`, in the order of the MMAs: one per
// MMA for 4 bits, two for 8 bits.
template <const auto& kConfig>
struct DequantBlock {
  static constexpr bool k8Bit = kConfig.w.dtype == DType::kI8;
  u32 words[k8Bit ? 8 : 4] = {};

  DequantBlock() = default;
  CATENARY_DEVICE explicit DequantBlock(u32 tile) {
    const u32 from = tile + threadIdx.x % 32 * 16;
#pragma unroll
    for (int i = 0; i < (k8Bit ? 2 : 1); ++i) {
      const U32x4 v = ld_shared_v4(from + i * 512);
      words[i * 4] = v.x;
      words[i * 4 + 1] = v.y;
      words[i * 4 + 2] = v.z;
      words[i * 4 + 3] = v.w;
    }
  }

  // A of MMA `mma`, 0 to 3, with its zeros subtracted.
  CATENARY_DEVICE U32x4 fragment(int mma, u32 upper, u32 lower) const {
    if constexpr (k8Bit)
      return unpack_fragment<kConfig>(words[mma * 2], words[mma * 2 + 1], upper, lower);
    return unpack_fragment<kConfig>(words[mma], 0, upper, lower);
  }
};

}  // namespace catenary
