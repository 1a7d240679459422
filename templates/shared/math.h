// SPDX-License-Identifier: Apache-2.0
// Math modes, from math.def: how a contraction multiplies. Shared by host and device.
#pragma once

#include "shared/int.h"

namespace catenary {

// kTF32 rounds f32 operands to 10 fraction bits: to nearest, ties away from zero in cvt.rna, ties
// to even in TMA loads. kF32 multiplies and adds f32 by fused multiply-add. Tensor cores keep 13
// fraction bits of a sum of fp8 products (simulator/model/matrix.h): kE4M3 and kE5M2 add such sums
// to f32 ones every 128 of K, the fast modes do not.
enum class MathMode : u8 {
#define CATENARY_MATH(id, text, bytes, mma_k, wgmma_k, k_major, promote_k) id,
#include "shared/math.def"
#undef CATENARY_MATH
};

struct MathInfo {
  const char* text;
  i32 operand_bytes;
  i32 mma_k;
  i32 wgmma_k;
  bool wgmma_k_major_only;
  i32 promote_k;
};

constexpr MathInfo math_info(MathMode math) {
  switch (math) {
#define CATENARY_MATH(id, text, bytes, mma_k, wgmma_k, k_major, promote_k) \
  case MathMode::id:                                                       \
    return {#text, bytes, mma_k, wgmma_k, k_major, promote_k};
#include "shared/math.def"
#undef CATENARY_MATH
  }
  return {"", 0, 0, 0, false, 0};
}

constexpr bool is_16bit(MathMode math) { return math_info(math).operand_bytes == 2; }

// K of one mma.sync: a k-block.
constexpr int mma_k(MathMode math) { return math_info(math).mma_k; }

}  // namespace catenary
