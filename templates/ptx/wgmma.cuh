// SPDX-License-Identifier: Apache-2.0
// Warpgroup matrix products of sm_90a. PTX ISA 9.7.15 (wgmma): D[64, N] (+)= A[64, K] B[K, N] with
// f32 accumulators and K = 16 elements of 16 bits or 8 of tf32. All 128 threads of a warpgroup
// execute every function here convergently. With w = warp % 4, g = lane / 4, t = lane % 4:
//   D  d[4i], d[4i+1] -> row 16w+g, columns 8i+2t, 8i+2t+1;  d[4i+2], d[4i+3] -> row 16w+g+8
//   A in registers: rows 16w .. 16w+15, as A in mma.cuh
//   A, B in shared memory: descriptors (tile/descriptor.cuh), the same in all threads
//
// Products run asynchronously: wgmma_fence, products, wgmma_commit, wgmma_wait, wgmma_pin, and only
// then may D be read, and registers or shared memory of A and B be written.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// Orders the threads' earlier accesses to registers of D and A before the products that follow:
// before the first product, and whenever another instruction has touched those registers.
CATENARY_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// The products since the last commit become one group.
CATENARY_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// At most kPending of the warpgroup's groups are still running afterwards.
template <int kPending>
CATENARY_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// No instruction: keeps the compiler from moving uses of D above the wait, which does not name D.
template <int kCount>
CATENARY_DEVICE void wgmma_pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// The parts of the instruction's text that depend on types and on transposition.
template <bool kTransA, bool kTransB>
struct WgmmaBF16 {
  static constexpr char kType[] = "k16.f32.bf16.bf16";
  static constexpr char kTail[] = {',', ' ', '0' + kTransA, ',', ' ', '0' + kTransB, 0};
  static constexpr char kRegisterTail[] = {',', ' ', '0' + kTransB, 0};
};
template <bool kTransA, bool kTransB>
struct WgmmaF16 {
  static constexpr char kType[] = "k16.f32.f16.f16";
  static constexpr char kTail[] = {',', ' ', '0' + kTransA, ',', ' ', '0' + kTransB, 0};
  static constexpr char kRegisterTail[] = {',', ' ', '0' + kTransB, 0};
};
struct WgmmaTF32 {
  static constexpr char kType[] = "k8.f32.tf32.tf32";
  static constexpr char kTail[] = "";
  static constexpr char kRegisterTail[] = "";
};

// One specialisation per N, whose bodies are parsed only where used. CATENARY_L<r> is the list of
// operands %0 .. %<r-1>, CATENARY_D<r> their constraints; the numbers of a row are those of the
// operands behind D. An operand "C" is text that becomes part of the instruction.
template <int N, class Type>
struct Wgmma;

// clang-format off
#define CATENARY_L4 "%0, %1, %2, %3"
#define CATENARY_L8 CATENARY_L4 ", " "%4, %5, %6, %7"
#define CATENARY_L12 CATENARY_L8 ", " "%8, %9, %10, %11"
#define CATENARY_L16 CATENARY_L12 ", " "%12, %13, %14, %15"
#define CATENARY_L20 CATENARY_L16 ", " "%16, %17, %18, %19"
#define CATENARY_L24 CATENARY_L20 ", " "%20, %21, %22, %23"
#define CATENARY_L28 CATENARY_L24 ", " "%24, %25, %26, %27"
#define CATENARY_L32 CATENARY_L28 ", " "%28, %29, %30, %31"
#define CATENARY_L36 CATENARY_L32 ", " "%32, %33, %34, %35"
#define CATENARY_L40 CATENARY_L32 ", " "%32, %33, %34, %35, %36, %37, %38, %39"
#define CATENARY_L44 CATENARY_L40 ", " "%40, %41, %42, %43"
#define CATENARY_L48 CATENARY_L40 ", " "%40, %41, %42, %43, %44, %45, %46, %47"
#define CATENARY_L52 CATENARY_L48 ", " "%48, %49, %50, %51"
#define CATENARY_L56 CATENARY_L48 ", " "%48, %49, %50, %51, %52, %53, %54, %55"
#define CATENARY_L60 CATENARY_L56 ", " "%56, %57, %58, %59"
#define CATENARY_L64 CATENARY_L56 ", " "%56, %57, %58, %59, %60, %61, %62, %63"
#define CATENARY_L68 CATENARY_L64 ", " "%64, %65, %66, %67"
#define CATENARY_L72 CATENARY_L64 ", " "%64, %65, %66, %67, %68, %69, %70, %71"
#define CATENARY_L76 CATENARY_L72 ", " "%72, %73, %74, %75"
#define CATENARY_L80 CATENARY_L72 ", " "%72, %73, %74, %75, %76, %77, %78, %79"
#define CATENARY_L84 CATENARY_L80 ", " "%80, %81, %82, %83"
#define CATENARY_L88 CATENARY_L80 ", " "%80, %81, %82, %83, %84, %85, %86, %87"
#define CATENARY_L92 CATENARY_L88 ", " "%88, %89, %90, %91"
#define CATENARY_L96 CATENARY_L88 ", " "%88, %89, %90, %91, %92, %93, %94, %95"
#define CATENARY_L100 CATENARY_L96 ", " "%96, %97, %98, %99"
#define CATENARY_L104 CATENARY_L96 ", " "%96, %97, %98, %99, %100, %101, %102, %103"
#define CATENARY_L108 CATENARY_L104 ", " "%104, %105, %106, %107"
#define CATENARY_L112 CATENARY_L104 ", " "%104, %105, %106, %107, %108, %109, %110, %111"
#define CATENARY_L116 CATENARY_L112 ", " "%112, %113, %114, %115"
#define CATENARY_L120 CATENARY_L112 ", " "%112, %113, %114, %115, %116, %117, %118, %119"
#define CATENARY_L124 CATENARY_L120 ", " "%120, %121, %122, %123"
#define CATENARY_L128 CATENARY_L120 ", " "%120, %121, %122, %123, %124, %125, %126, %127"
#define CATENARY_Q(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define CATENARY_D4 CATENARY_Q(0)
#define CATENARY_D8 CATENARY_D4, CATENARY_Q(4)
#define CATENARY_D12 CATENARY_D8, CATENARY_Q(8)
#define CATENARY_D16 CATENARY_D12, CATENARY_Q(12)
#define CATENARY_D20 CATENARY_D16, CATENARY_Q(16)
#define CATENARY_D24 CATENARY_D20, CATENARY_Q(20)
#define CATENARY_D28 CATENARY_D24, CATENARY_Q(24)
#define CATENARY_D32 CATENARY_D28, CATENARY_Q(28)
#define CATENARY_D36 CATENARY_D32, CATENARY_Q(32)
#define CATENARY_D40 CATENARY_D32, CATENARY_Q(32), CATENARY_Q(36)
#define CATENARY_D44 CATENARY_D40, CATENARY_Q(40)
#define CATENARY_D48 CATENARY_D40, CATENARY_Q(40), CATENARY_Q(44)
#define CATENARY_D52 CATENARY_D48, CATENARY_Q(48)
#define CATENARY_D56 CATENARY_D48, CATENARY_Q(48), CATENARY_Q(52)
#define CATENARY_D60 CATENARY_D56, CATENARY_Q(56)
#define CATENARY_D64 CATENARY_D56, CATENARY_Q(56), CATENARY_Q(60)
#define CATENARY_D68 CATENARY_D64, CATENARY_Q(64)
#define CATENARY_D72 CATENARY_D64, CATENARY_Q(64), CATENARY_Q(68)
#define CATENARY_D76 CATENARY_D72, CATENARY_Q(72)
#define CATENARY_D80 CATENARY_D72, CATENARY_Q(72), CATENARY_Q(76)
#define CATENARY_D84 CATENARY_D80, CATENARY_Q(80)
#define CATENARY_D88 CATENARY_D80, CATENARY_Q(80), CATENARY_Q(84)
#define CATENARY_D92 CATENARY_D88, CATENARY_Q(88)
#define CATENARY_D96 CATENARY_D88, CATENARY_Q(88), CATENARY_Q(92)
#define CATENARY_D100 CATENARY_D96, CATENARY_Q(96)
#define CATENARY_D104 CATENARY_D96, CATENARY_Q(96), CATENARY_Q(100)
#define CATENARY_D108 CATENARY_D104, CATENARY_Q(104)
#define CATENARY_D112 CATENARY_D104, CATENARY_Q(104), CATENARY_Q(108)
#define CATENARY_D116 CATENARY_D112, CATENARY_Q(112)
#define CATENARY_D120 CATENARY_D112, CATENARY_Q(112), CATENARY_Q(116)
#define CATENARY_D124 CATENARY_D120, CATENARY_Q(120)
#define CATENARY_D128 CATENARY_D120, CATENARY_Q(120), CATENARY_Q(124)
#define CATENARY_ROW(n, r, r0, r1, r2, r3, r4, r5, r6, r7)                                       \
  template <class Type>                                                                         \
  struct Wgmma<n, Type> {                                                                       \
    static CATENARY_DEVICE void issue(float (&d)[r], u64 a, u64 b, bool scale_d) {              \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r2 ", 0;\n"                            \
                   "wgmma.mma_async.sync.aligned.m64n" #n "%" #r3 " {" CATENARY_L##r "}, "      \
                   "%" #r0 ", %" #r1 ", p, 1, 1%" #r4 ";\n}"                                    \
                   : CATENARY_D##r                                                              \
                   : "l"(a), "l"(b), "r"(static_cast<u32>(scale_d)), "C"(Type::kType),          \
                     "C"(Type::kTail)                                                           \
                   : "memory");                                                                 \
    }                                                                                           \
    static CATENARY_DEVICE void issue(float (&d)[r], const U32x4& a, u64 b, bool scale_d) {     \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #r5 ", 0;\n"                            \
                   "wgmma.mma_async.sync.aligned.m64n" #n "%" #r6 " {" CATENARY_L##r "}, "      \
                   "{%" #r0 ", %" #r1 ", %" #r2 ", %" #r3 "}, %" #r4 ", p, 1, 1%" #r7 ";\n}"    \
                   : CATENARY_D##r                                                              \
                   : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b),                            \
                     "r"(static_cast<u32>(scale_d)), "C"(Type::kType), "C"(Type::kRegisterTail) \
                   : "memory");                                                                 \
    }                                                                                           \
  };
CATENARY_ROW(8, 4, 4, 5, 6, 7, 8, 9, 10, 11)
CATENARY_ROW(16, 8, 8, 9, 10, 11, 12, 13, 14, 15)
CATENARY_ROW(24, 12, 12, 13, 14, 15, 16, 17, 18, 19)
CATENARY_ROW(32, 16, 16, 17, 18, 19, 20, 21, 22, 23)
CATENARY_ROW(40, 20, 20, 21, 22, 23, 24, 25, 26, 27)
CATENARY_ROW(48, 24, 24, 25, 26, 27, 28, 29, 30, 31)
CATENARY_ROW(56, 28, 28, 29, 30, 31, 32, 33, 34, 35)
CATENARY_ROW(64, 32, 32, 33, 34, 35, 36, 37, 38, 39)
CATENARY_ROW(72, 36, 36, 37, 38, 39, 40, 41, 42, 43)
CATENARY_ROW(80, 40, 40, 41, 42, 43, 44, 45, 46, 47)
CATENARY_ROW(88, 44, 44, 45, 46, 47, 48, 49, 50, 51)
CATENARY_ROW(96, 48, 48, 49, 50, 51, 52, 53, 54, 55)
CATENARY_ROW(104, 52, 52, 53, 54, 55, 56, 57, 58, 59)
CATENARY_ROW(112, 56, 56, 57, 58, 59, 60, 61, 62, 63)
CATENARY_ROW(120, 60, 60, 61, 62, 63, 64, 65, 66, 67)
CATENARY_ROW(128, 64, 64, 65, 66, 67, 68, 69, 70, 71)
CATENARY_ROW(136, 68, 68, 69, 70, 71, 72, 73, 74, 75)
CATENARY_ROW(144, 72, 72, 73, 74, 75, 76, 77, 78, 79)
CATENARY_ROW(152, 76, 76, 77, 78, 79, 80, 81, 82, 83)
CATENARY_ROW(160, 80, 80, 81, 82, 83, 84, 85, 86, 87)
CATENARY_ROW(168, 84, 84, 85, 86, 87, 88, 89, 90, 91)
CATENARY_ROW(176, 88, 88, 89, 90, 91, 92, 93, 94, 95)
CATENARY_ROW(184, 92, 92, 93, 94, 95, 96, 97, 98, 99)
CATENARY_ROW(192, 96, 96, 97, 98, 99, 100, 101, 102, 103)
CATENARY_ROW(200, 100, 100, 101, 102, 103, 104, 105, 106, 107)
CATENARY_ROW(208, 104, 104, 105, 106, 107, 108, 109, 110, 111)
CATENARY_ROW(216, 108, 108, 109, 110, 111, 112, 113, 114, 115)
CATENARY_ROW(224, 112, 112, 113, 114, 115, 116, 117, 118, 119)
CATENARY_ROW(232, 116, 116, 117, 118, 119, 120, 121, 122, 123)
CATENARY_ROW(240, 120, 120, 121, 122, 123, 124, 125, 126, 127)
CATENARY_ROW(248, 124, 124, 125, 126, 127, 128, 129, 130, 131)
CATENARY_ROW(256, 128, 128, 129, 130, 131, 132, 133, 134, 135)
#undef CATENARY_ROW
#undef CATENARY_Q
#undef CATENARY_L4
#undef CATENARY_D4
#undef CATENARY_L8
#undef CATENARY_D8
#undef CATENARY_L12
#undef CATENARY_D12
#undef CATENARY_L16
#undef CATENARY_D16
#undef CATENARY_L20
#undef CATENARY_D20
#undef CATENARY_L24
#undef CATENARY_D24
#undef CATENARY_L28
#undef CATENARY_D28
#undef CATENARY_L32
#undef CATENARY_D32
#undef CATENARY_L36
#undef CATENARY_D36
#undef CATENARY_L40
#undef CATENARY_D40
#undef CATENARY_L44
#undef CATENARY_D44
#undef CATENARY_L48
#undef CATENARY_D48
#undef CATENARY_L52
#undef CATENARY_D52
#undef CATENARY_L56
#undef CATENARY_D56
#undef CATENARY_L60
#undef CATENARY_D60
#undef CATENARY_L64
#undef CATENARY_D64
#undef CATENARY_L68
#undef CATENARY_D68
#undef CATENARY_L72
#undef CATENARY_D72
#undef CATENARY_L76
#undef CATENARY_D76
#undef CATENARY_L80
#undef CATENARY_D80
#undef CATENARY_L84
#undef CATENARY_D84
#undef CATENARY_L88
#undef CATENARY_D88
#undef CATENARY_L92
#undef CATENARY_D92
#undef CATENARY_L96
#undef CATENARY_D96
#undef CATENARY_L100
#undef CATENARY_D100
#undef CATENARY_L104
#undef CATENARY_D104
#undef CATENARY_L108
#undef CATENARY_D108
#undef CATENARY_L112
#undef CATENARY_D112
#undef CATENARY_L116
#undef CATENARY_D116
#undef CATENARY_L120
#undef CATENARY_D120
#undef CATENARY_L124
#undef CATENARY_D124
#undef CATENARY_L128
#undef CATENARY_D128
// clang-format on

// D = A B + (scale_d ? D : 0) for N in 8 .. 256 by 8. kTransA, kTransB: that
// operand lies MN-major in shared memory, else K-major.
template <int N, bool kTransA = false, bool kTransB = false>
CATENARY_DEVICE void wgmma_bf16(float (&d)[N / 2], u64 a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaBF16<kTransA, kTransB>>::issue(d, a, b, scale_d);
}

template <int N, bool kTransA = false, bool kTransB = false>
CATENARY_DEVICE void wgmma_f16(float (&d)[N / 2], u64 a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaF16<kTransA, kTransB>>::issue(d, a, b, scale_d);
}

// Both operands K-major. The low 13 bits of elements are ignored: round them before, by f32_to_tf32
// or by a tensor map of tf32.
template <int N>
CATENARY_DEVICE void wgmma_tf32(float (&d)[N / 2], u64 a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaTF32>::issue(d, a, b, scale_d);
}

// The same with A in registers, which stay untouched until the wait.
template <int N, bool kTransB = false>
CATENARY_DEVICE void wgmma_bf16_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaBF16<false, kTransB>>::issue(d, a, b, scale_d);
}

template <int N, bool kTransB = false>
CATENARY_DEVICE void wgmma_f16_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaF16<false, kTransB>>::issue(d, a, b, scale_d);
}

template <int N>
CATENARY_DEVICE void wgmma_tf32_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaTF32>::issue(d, a, b, scale_d);
}

}  // namespace catenary
