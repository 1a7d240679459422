// SPDX-License-Identifier: Apache-2.0
// Warpgroup MMA of sm_90a. PTX ISA 9.7.15 (wgmma): D[64, N] (+)= A[64, K] B[K, N] with f32
// accumulators and K = 16 elements of 16 bits, 8 of tf32 or 32 of fp8. All 128 threads of a
// warpgroup execute every function convergently. With w = warp % 4, g = lane / 4, t = lane % 4:
//   D  d[4i], d[4i+1] -> row 16w+g, columns 8i+2t, 8i+2t+1;  d[4i+2], d[4i+3] -> row 16w+g+8
//   A, B  descriptors of shared memory (pipeline/descriptor.cuh), the same in all threads
// With A in registers: wgmma_registers.cuh.
//
// wgmma is asynchronous: wgmma_fence, MMAs, wgmma_commit, wgmma_wait, wgmma_pin. Only then may D be
// read, and may registers or shared memory of A and B be written.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// Orders the threads' earlier accesses to registers of D and A before the MMAs that follow. Needed
// before the first MMA, and whenever another instruction has accessed those registers.
CATENARY_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// The MMAs since the last commit become one group.
CATENARY_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// At most kPending of the warpgroup's groups are in flight afterwards.
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

// The parts of the instruction's text that depend on types and transposition.
template <bool kTransA, bool kTransB>
struct WgmmaBF16 {
  static constexpr char kType[] = "k16.f32.bf16.bf16";
  static constexpr char kTail[] = {',', ' ', '0' + kTransA, ',', ' ', '0' + kTransB, 0};
};
template <bool kTransA, bool kTransB>
struct WgmmaF16 {
  static constexpr char kType[] = "k16.f32.f16.f16";
  static constexpr char kTail[] = {',', ' ', '0' + kTransA, ',', ' ', '0' + kTransB, 0};
};
struct WgmmaTF32 {
  static constexpr char kType[] = "k8.f32.tf32.tf32";
  static constexpr char kTail[] = "";
};

struct WgmmaE4M3 {
  static constexpr char kType[] = "k32.f32.e4m3.e4m3";
  static constexpr char kTail[] = "";
};
struct WgmmaE5M2 {
  static constexpr char kType[] = "k32.f32.e5m2.e5m2";
  static constexpr char kTail[] = "";
};

// One specialisation per N; bodies are parsed only where used. A in registers is a header of its
// own, since even unused tokens take compile time (RESULTS nvrtc-31). A "C" operand is text that
// becomes part of the instruction.
template <int N, class Type>
struct Wgmma;

// clang-format off
#define CATENARY_ROW(n, r, r0, r1, r2, r3, r4, r5, r6, r7)                                      \
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
  };
// clang-format on
#include "ptx/wgmma.def"

// D = A B + (scale_d ? D : 0) for N in 8 .. 256 by 8. kTransA, kTransB: the operand is MN-major in
// shared memory, else K-major.
template <int N, bool kTransA = false, bool kTransB = false>
CATENARY_DEVICE void wgmma_bf16(float (&d)[N / 2], u64 a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaBF16<kTransA, kTransB>>::issue(d, a, b, scale_d);
}

template <int N, bool kTransA = false, bool kTransB = false>
CATENARY_DEVICE void wgmma_f16(float (&d)[N / 2], u64 a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaF16<kTransA, kTransB>>::issue(d, a, b, scale_d);
}

// Both operands are K-major. The low 13 bits of elements are ignored: round before, by f32_to_tf32
// or by a tensor map of type tf32.
template <int N>
CATENARY_DEVICE void wgmma_tf32(float (&d)[N / 2], u64 a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaTF32>::issue(d, a, b, scale_d);
}

// Both operands are K-major. D is f32 with 13 fraction bits (simulator/model/matrix.h).
template <int N>
CATENARY_DEVICE void wgmma_e4m3(float (&d)[N / 2], u64 a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaE4M3>::issue(d, a, b, scale_d);
}

template <int N>
CATENARY_DEVICE void wgmma_e5m2(float (&d)[N / 2], u64 a, u64 b, bool scale_d) {
  Wgmma<N, WgmmaE5M2>::issue(d, a, b, scale_d);
}

}  // namespace catenary
