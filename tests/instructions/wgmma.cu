// SPDX-License-Identifier: Apache-2.0
// ptx/wgmma.cuh: D[64, N] = A[64, K] B[N, K] of two k-blocks, with operands in the host's layout.
#include "pipeline/descriptor.cuh"
#include "ptx/atomic.cuh"
#include "ptx/convert.cuh"
#include "ptx/global.cuh"
#include "ptx/shared.cuh"
#include "ptx/sync.cuh"
#include "ptx/wgmma_registers.cuh"
#include "shared/params.h"

namespace {
using namespace catenary;
using P = Params<3, 0>;

// One operand in shared memory, as six words at ptr[1] say: offset, leading bytes, stride bytes,
// swizzle, bytes from one k-block to the next.
struct Placed {
  u64 first, second;
};

CATENARY_DEVICE Placed placed(const u8* words, u32 smem) {
  const u64 descriptor =
      wgmma_descriptor(smem + ld_global_u32(words), ld_global_u32(words + 4),
                       ld_global_u32(words + 8), static_cast<Swizzle>(ld_global_u32(words + 12)));
  return {descriptor, advance_descriptor(descriptor, ld_global_u32(words + 16))};
}

// Stores D row-major to ptr[2].
template <int N>
CATENARY_DEVICE void store(const P& p, const float (&d)[N / 2]) {
  u8* out = static_cast<u8*>(p.ptr[2]);
  const u32 row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  const u32 column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int i = 0; i < N / 8; ++i) {
    const u32 at = 4 * (row * N + 8 * i + column);
    st_global_v2(out + at, {f32_to_bits(d[4 * i]), f32_to_bits(d[4 * i + 1])});
    st_global_v2(out + at + 32 * N, {f32_to_bits(d[4 * i + 2]), f32_to_bits(d[4 * i + 3])});
  }
}

// Both operands in shared memory. step(d, a, b, scale_d) is one MMA.
template <int N, class Step>
CATENARY_DEVICE void from_shared(const P& p, u32 smem, const Step& step) {
  const u8* words = static_cast<const u8*>(p.ptr[1]);
  const Placed a = placed(words, smem);
  const Placed b = placed(words + 32, smem);
  float d[N / 2];
  wgmma_fence();
  step(d, a.first, b.first, false);
  step(d, a.second, b.second, true);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_pin(d);
  store<N>(p, d);
}

// A in registers: four words per thread and k-block, from byte 64 on.
template <int N, class Step>
CATENARY_DEVICE void from_registers(const P& p, u32 smem, const Step& step) {
  const u8* words = static_cast<const u8*>(p.ptr[1]);
  const U32x4 first = ld_global_v4(words + 64 + 16 * threadIdx.x);
  const U32x4 second = ld_global_v4(words + 64 + 16 * (128 + threadIdx.x));
  const Placed b = placed(words + 32, smem);
  float d[N / 2];
  wgmma_fence();
  step(d, first, b.first, false);
  wgmma_commit();
  step(d, second, b.second, true);
  wgmma_commit();
  wgmma_wait<1>();
  wgmma_wait<0>();
  wgmma_pin(d);
  store<N>(p, d);
}
}  // namespace

#define STEP(call) [](auto& d, const auto& a, u64 b, bool scale_d) { call(d, a, b, scale_d); }
#define SHARED(variant, n, call)           \
  case variant:                            \
    from_shared<n>(p, smem, STEP((call))); \
    break;
#define REGISTERS(variant, n, call)           \
  case variant:                               \
    from_registers<n>(p, smem, STEP((call))); \
    break;

// The bytes of both operands are at ptr[0]: symbol % 2^32 is the variant, symbol / 2^32 how many.
extern "C" __global__ void __launch_bounds__(128) wgmma_accumulate(const __grid_constant__ P p) {
  const u8* in = static_cast<const u8*>(p.ptr[0]);
  const u32 smem = dynamic_smem();
  griddepcontrol_wait();
  for (u32 i = threadIdx.x; i < static_cast<u32>(p.symbol >> 32) / 16; i += 128) {
    st_shared_v4(smem + 16 * i, ld_global_v4(in + 16 * i));
  }
  fence_proxy_async_shared();
  cta_barrier();
  switch (static_cast<u32>(p.symbol)) {
    SHARED(8, 8, wgmma_bf16<8>)
    SHARED(16, 16, wgmma_bf16<16>)
    SHARED(24, 24, wgmma_bf16<24>)
    SHARED(32, 32, wgmma_bf16<32>)
    SHARED(40, 40, wgmma_bf16<40>)
    SHARED(48, 48, wgmma_bf16<48>)
    SHARED(56, 56, wgmma_bf16<56>)
    SHARED(64, 64, wgmma_bf16<64>)
    SHARED(80, 80, wgmma_bf16<80>)
    SHARED(96, 96, wgmma_bf16<96>)
    SHARED(112, 112, wgmma_bf16<112>)
    SHARED(128, 128, wgmma_bf16<128>)
    SHARED(144, 144, wgmma_bf16<144>)
    SHARED(160, 160, wgmma_bf16<160>)
    SHARED(176, 176, wgmma_bf16<176>)
    SHARED(192, 192, wgmma_bf16<192>)
    SHARED(208, 208, wgmma_bf16<208>)
    SHARED(224, 224, wgmma_bf16<224>)
    SHARED(240, 240, wgmma_bf16<240>)
    SHARED(256, 256, wgmma_bf16<256>)
    SHARED(1000, 64, wgmma_f16<64>)
    SHARED(1001, 64, wgmma_tf32<64>)
    REGISTERS(1002, 64, wgmma_bf16_registers<64>)
    REGISTERS(1003, 64, wgmma_f16_registers<64>)
    REGISTERS(1004, 64, wgmma_tf32_registers<64>)
    SHARED(1005, 128, (wgmma_bf16<128, true, false>))
    SHARED(1006, 128, (wgmma_bf16<128, false, true>))
    SHARED(1007, 128, (wgmma_bf16<128, true, true>))
    SHARED(1008, 128, (wgmma_f16<128, true, true>))
    REGISTERS(1009, 128, (wgmma_bf16_registers<128, true>))
    REGISTERS(1010, 128, (wgmma_f16_registers<128, true>))
    SHARED(1011, 128, wgmma_e4m3<128>)
    SHARED(1012, 64, wgmma_e5m2<64>)
  }
}
