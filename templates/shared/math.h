// SPDX-License-Identifier: Apache-2.0
// Math modes, from math.def: how a contraction multiplies. Shared by host and device.
#pragma once

#include "shared/int.h"

namespace catenary {

// kTF32 rounds f32 operands to 10 fraction bits: to nearest, ties away from zero in cvt.rna, ties
// to even in TMA loads. kF32 multiplies and adds f32 by fused multiply-add.
enum class MathMode : u8 {
#define CATENARY_MATH(id, text, bytes, mma_k, wgmma_k, k_major) id,
#include "shared/math.def"
#undef CATENARY_MATH
};

struct MathInfo {
  const char* text;
  i32 operand_bytes;
  i32 mma_k;
  i32 wgmma_k;
  bool wgmma_k_major_only;
};

constexpr MathInfo math_info(MathMode math) {
  switch (math) {
#define CATENARY_MATH(id, text, bytes, mma_k, wgmma_k, k_major) \
  case MathMode::id:                                            \
    return {#text, bytes, mma_k, wgmma_k, k_major};
#include "shared/math.def"
#undef CATENARY_MATH
  }
  return {"", 0, 0, 0, false};
}

constexpr bool is_16bit(MathMode math) { return math_info(math).operand_bytes == 2; }

// K of one mma.sync: a k-block.
constexpr int mma_k(MathMode math) { return math_info(math).mma_k; }

}  // namespace catenary
