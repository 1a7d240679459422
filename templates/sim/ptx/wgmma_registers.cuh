// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/wgmma_registers.cuh.
#pragma once

#include "ptx/wgmma.cuh"

namespace catenary {

template <int N, bool kTransB = false>
CATENARY_DEVICE void wgmma_bf16_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d,
                                          sim::Site at = sim::here()) {
  const u32 words[4] = {a.x, a.y, a.z, a.w};
  sim::wgmma<N>(d, sim::Number::kBF16, 0, words, b, scale_d, false, kTransB, sim::in(at, __func__));
}

template <int N, bool kTransB = false>
CATENARY_DEVICE void wgmma_f16_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d,
                                         sim::Site at = sim::here()) {
  const u32 words[4] = {a.x, a.y, a.z, a.w};
  sim::wgmma<N>(d, sim::Number::kF16, 0, words, b, scale_d, false, kTransB, sim::in(at, __func__));
}

template <int N>
CATENARY_DEVICE void wgmma_tf32_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d,
                                          sim::Site at = sim::here()) {
  const u32 words[4] = {a.x, a.y, a.z, a.w};
  sim::wgmma<N>(d, sim::Number::kTF32, 0, words, b, scale_d, false, false, sim::in(at, __func__));
}

}  // namespace catenary
