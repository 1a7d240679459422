// SPDX-License-Identifier: Apache-2.0
// Twins of ptx/wgmma_registers.cuh.
#pragma once

#include "ptx/wgmma.cuh"

namespace catenary {

namespace sim {

template <int N>
inline void wgmma_registers(float (&d)[N / 2], const U32x4& a, WgmmaOperands operands, Site site) {
  const u32 words[4] = {a.x, a.y, a.z, a.w};
  operands.a_registers = words;
  wgmma<N>(d, operands, site);
}

}  // namespace sim

template <int N, bool kTransB = false>
CATENARY_DEVICE void wgmma_bf16_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d,
                                          sim::Site at = sim::here()) {
  sim::wgmma_registers<N>(d, a,
                          {.number = sim::Number::kBF16,
                           .n = N,
                           .a_descriptor = 0,
                           .a_registers = nullptr,
                           .b_descriptor = b,
                           .scale_d = scale_d,
                           .trans_a = false,
                           .trans_b = kTransB},
                          sim::in(at, __func__));
}

template <int N, bool kTransB = false>
CATENARY_DEVICE void wgmma_f16_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d,
                                         sim::Site at = sim::here()) {
  sim::wgmma_registers<N>(d, a,
                          {.number = sim::Number::kF16,
                           .n = N,
                           .a_descriptor = 0,
                           .a_registers = nullptr,
                           .b_descriptor = b,
                           .scale_d = scale_d,
                           .trans_a = false,
                           .trans_b = kTransB},
                          sim::in(at, __func__));
}

template <int N>
CATENARY_DEVICE void wgmma_tf32_registers(float (&d)[N / 2], const U32x4& a, u64 b, bool scale_d,
                                          sim::Site at = sim::here()) {
  sim::wgmma_registers<N>(d, a,
                          {.number = sim::Number::kTF32,
                           .n = N,
                           .a_descriptor = 0,
                           .a_registers = nullptr,
                           .b_descriptor = b,
                           .scale_d = scale_d,
                           .trans_a = false,
                           .trans_b = false},
                          sim::in(at, __func__));
}

}  // namespace catenary
