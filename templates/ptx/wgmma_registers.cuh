// SPDX-License-Identifier: Apache-2.0
// wgmma with A in registers: rows 16w .. 16w+15 in warp w, laid out as A in mma.cuh. The registers
// must not be written until the wait.
#pragma once

#include "ptx/wgmma.cuh"

namespace catenary {

template <bool kTransB>
struct WgmmaRegistersBF16 {
  static constexpr char kType[] = "k16.f32.bf16.bf16";
  static constexpr char kTail[] = {',', ' ', '0' + kTransB, 0};
};
template <bool kTransB>
struct WgmmaRegistersF16 {
  static constexpr char kType[] = "k16.f32.f16.f16";
  static constexpr char kTail[] = {',', ' ', '0' + kTransB, 0};
};
struct WgmmaRegistersTF32 {
  static constexpr char kType[] = "k8.f32.tf32.tf32";
  static constexpr char kTail[] = "";
};

template <int N, class Type>
struct WgmmaRegisters;

// clang-format off
#define CATENARY_ROW(n, r, r0, r1, r2, r3, r4, r5, r6, r7)                                      \
  template <class Type>                                                                         \
  struct WgmmaRegisters<n, Type> {                                                              \
    static CATENARY_DEVICE void issue(float (&d)[r], const U32x4& a, u64 b, bool scale_d) {     \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r5 ", 0;\n"                            \
                   "wgmma.mma_async.sync.aligned.m64n" #n "%" #r6 " {" CATENARY_L##r "}, "      \
                   "{%" #r0 ", %" #r1 ", %" #r2 ", %" #r3 "}, %" #r4 ", p, 1, 1%" #r7 ";\n}"    \
                   : CATENARY_D##r                                                              \
                   : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b),                            \
                     "r"(static_cast<u32>(scale_d)), "C"(Type::kType), "C"(Type::kTail)         \
                   : "memory");                                                                 \
    }                                                                                           \
  };
// clang-format on
#include "ptx/wgmma.def"

// D = A B + (scale_d ? D : 0) for N in 8 .. 256 by 8. kTransB: B is MN-major in shared memory.
template <int N, bool kTransB = false>
CATENARY_DEVICE void wgmma_bf16_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d) {
  WgmmaRegisters<N, WgmmaRegistersBF16<kTransB>>::issue(d, a, b, scale_d);
}

template <int N, bool kTransB = false>
CATENARY_DEVICE void wgmma_f16_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d) {
  WgmmaRegisters<N, WgmmaRegistersF16<kTransB>>::issue(d, a, b, scale_d);
}

template <int N>
CATENARY_DEVICE void wgmma_tf32_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d) {
  WgmmaRegisters<N, WgmmaRegistersTF32>::issue(d, a, b, scale_d);
}

}  // namespace catenary
