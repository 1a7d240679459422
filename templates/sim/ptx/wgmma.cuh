// SPDX-License-Identifier: Apache-2.0
// Twins of ptx/wgmma.cuh.
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

// Of no instruction, no meaning.
template <int kCount>
CATENARY_DEVICE void wgmma_pin(float (&d)[kCount], sim::Site = sim::here()) {}

namespace sim {

constexpr bool is_wgmma_n(int n) { return n > 0 && n <= 256 && n % 8 == 0; }

template <int N>
inline void wgmma(float (&d)[N / 2], const WgmmaOperands& operands, Site site) {
  static_assert(is_wgmma_n(N), "N is 8 .. 256 by 8");
  machine->wgmma(d, operands, site);
}

}  // namespace sim

template <int N, bool kTransA = false, bool kTransB = false>
CATENARY_DEVICE void wgmma_bf16(float (&d)[N / 2], u64 a, u64 b, bool scale_d,
                                sim::Site at = sim::here()) {
  sim::wgmma<N>(d,
                {.number = sim::Number::kBF16,
                 .n = N,
                 .a_descriptor = a,
                 .a_registers = nullptr,
                 .b_descriptor = b,
                 .scale_d = scale_d,
                 .trans_a = kTransA,
                 .trans_b = kTransB},
                sim::in(at, __func__));
}

template <int N, bool kTransA = false, bool kTransB = false>
CATENARY_DEVICE void wgmma_f16(float (&d)[N / 2], u64 a, u64 b, bool scale_d,
                               sim::Site at = sim::here()) {
  sim::wgmma<N>(d,
                {.number = sim::Number::kF16,
                 .n = N,
                 .a_descriptor = a,
                 .a_registers = nullptr,
                 .b_descriptor = b,
                 .scale_d = scale_d,
                 .trans_a = kTransA,
                 .trans_b = kTransB},
                sim::in(at, __func__));
}

template <int N>
CATENARY_DEVICE void wgmma_tf32(float (&d)[N / 2], u64 a, u64 b, bool scale_d,
                                sim::Site at = sim::here()) {
  sim::wgmma<N>(d,
                {.number = sim::Number::kTF32,
                 .n = N,
                 .a_descriptor = a,
                 .a_registers = nullptr,
                 .b_descriptor = b,
                 .scale_d = scale_d,
                 .trans_a = false,
                 .trans_b = false},
                sim::in(at, __func__));
}

}  // namespace catenary
