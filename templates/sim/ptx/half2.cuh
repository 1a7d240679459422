// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/half2.cuh. Rounding twice, to f32 and then to 16 bits, is correct: f32 has at
// least 2 * 11 + 2 fraction bits. Products are exact in f32 unless they round to zero or infinity.
#pragma once

#include "ptx/convert.cuh"
#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE u32 sub_bf16x2(u32 a, u32 b, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  return f32_to_bf16x2(bf16_to_f32(a & 0xffffu) - bf16_to_f32(b & 0xffffu),
                       bf16_to_f32(a >> 16) - bf16_to_f32(b >> 16));
}

CATENARY_DEVICE u32 sub_f16x2(u32 a, u32 b, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  return f32_to_f16x2(
      f16_to_f32(static_cast<u16>(a)) - f16_to_f32(static_cast<u16>(b)),
      f16_to_f32(static_cast<u16>(a >> 16)) - f16_to_f32(static_cast<u16>(b >> 16)));
}

CATENARY_DEVICE u32 mul_bf16x2(u32 a, u32 b, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  return f32_to_bf16x2(bf16_to_f32(a & 0xffffu) * bf16_to_f32(b & 0xffffu),
                       bf16_to_f32(a >> 16) * bf16_to_f32(b >> 16));
}

CATENARY_DEVICE u32 mul_f16x2(u32 a, u32 b, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  sim::use(b, sim::in(at, __func__));
  return f32_to_f16x2(
      f16_to_f32(static_cast<u16>(a)) * f16_to_f32(static_cast<u16>(b)),
      f16_to_f32(static_cast<u16>(a >> 16)) * f16_to_f32(static_cast<u16>(b >> 16)));
}

}  // namespace catenary
