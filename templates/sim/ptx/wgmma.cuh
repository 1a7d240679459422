// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/wgmma.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE void wgmma_fence(sim::Site at = sim::here()) {
  sim::machine->wgmma_fence(sim::in(at, __func__));
}

CATENARY_DEVICE void wgmma_commit(sim::Site at = sim::here()) {
  sim::machine->wgmma_commit(sim::in(at, __func__));
}

template <int kPending>
CATENARY_DEVICE void wgmma_wait(sim::Site at = sim::here()) {
  sim::machine->wgmma_wait(kPending, sim::in(at, __func__));
}

// No instruction, no effect.
template <int kCount>
CATENARY_DEVICE void wgmma_pin(float (&d)[kCount], sim::Site = sim::here()) {}

namespace sim {

constexpr bool is_wgmma_n(int n) { return n > 0 && n <= 256 && n % 8 == 0; }

// A by descriptor, or its four words where a_registers is not null.
template <int N>
inline void wgmma(float (&d)[N / 2], Number number, u64 a, const u32* a_registers, u64 b,
                  bool scale_d, bool trans_a, bool trans_b, Site site) {
  static_assert(is_wgmma_n(N), "N is 8 .. 256 by 8");
  machine->wgmma(d,
                 {.number = number,
                  .n = N,
                  .a_descriptor = a,
                  .a_registers = a_registers,
                  .b_descriptor = b,
                  .scale_d = scale_d,
                  .trans_a = trans_a,
                  .trans_b = trans_b},
                 site);
}

}  // namespace sim

template <int N, bool kTransA = false, bool kTransB = false>
CATENARY_DEVICE void wgmma_bf16(float (&d)[N / 2], u64 a, u64 b, bool scale_d,
                                sim::Site at = sim::here()) {
  sim::wgmma<N>(d, sim::Number::kBF16, a, nullptr, b, scale_d, kTransA, kTransB,
                sim::in(at, __func__));
}

template <int N, bool kTransA = false, bool kTransB = false>
CATENARY_DEVICE void wgmma_f16(float (&d)[N / 2], u64 a, u64 b, bool scale_d,
                               sim::Site at = sim::here()) {
  sim::wgmma<N>(d, sim::Number::kF16, a, nullptr, b, scale_d, kTransA, kTransB,
                sim::in(at, __func__));
}

template <int N>
CATENARY_DEVICE void wgmma_tf32(float (&d)[N / 2], u64 a, u64 b, bool scale_d,
                                sim::Site at = sim::here()) {
  sim::wgmma<N>(d, sim::Number::kTF32, a, nullptr, b, scale_d, false, false, sim::in(at, __func__));
}

template <int N>
CATENARY_DEVICE void wgmma_e4m3(float (&d)[N / 2], u64 a, u64 b, bool scale_d,
                                sim::Site at = sim::here()) {
  sim::wgmma<N>(d, sim::Number::kE4M3, a, nullptr, b, scale_d, false, false, sim::in(at, __func__));
}

template <int N>
CATENARY_DEVICE void wgmma_e5m2(float (&d)[N / 2], u64 a, u64 b, bool scale_d,
                                sim::Site at = sim::here()) {
  sim::wgmma<N>(d, sim::Number::kE5M2, a, nullptr, b, scale_d, false, false, sim::in(at, __func__));
}

}  // namespace catenary
