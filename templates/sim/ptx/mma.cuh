// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/mma.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE U32x4 ldmatrix_x4(u32 address, sim::Site at = sim::here()) {
  u32 v[4];
  sim::machine->ldmatrix(v, address, 4, false, sim::in(at, __func__));
  return {v[0], v[1], v[2], v[3]};
}

CATENARY_DEVICE U32x4 ldmatrix_x4_trans(u32 address, sim::Site at = sim::here()) {
  u32 v[4];
  sim::machine->ldmatrix(v, address, 4, true, sim::in(at, __func__));
  return {v[0], v[1], v[2], v[3]};
}

CATENARY_DEVICE u32 ldmatrix_x1(u32 address, sim::Site at = sim::here()) {
  u32 v;
  sim::machine->ldmatrix(&v, address, 1, false, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE u32 ldmatrix_x1_trans(u32 address, sim::Site at = sim::here()) {
  u32 v;
  sim::machine->ldmatrix(&v, address, 1, true, sim::in(at, __func__));
  return v;
}

CATENARY_DEVICE U32x2 ldmatrix_x2(u32 address, sim::Site at = sim::here()) {
  u32 v[2];
  sim::machine->ldmatrix(v, address, 2, false, sim::in(at, __func__));
  return {v[0], v[1]};
}

CATENARY_DEVICE U32x2 ldmatrix_x2_trans(u32 address, sim::Site at = sim::here()) {
  u32 v[2];
  sim::machine->ldmatrix(v, address, 2, true, sim::in(at, __func__));
  return {v[0], v[1]};
}

CATENARY_DEVICE void stmatrix_x1(u32 address, u32 v, sim::Site at = sim::here()) {
  sim::machine->stmatrix(address, &v, 1, false, sim::in(at, __func__));
}

CATENARY_DEVICE void stmatrix_x1_trans(u32 address, u32 v, sim::Site at = sim::here()) {
  sim::machine->stmatrix(address, &v, 1, true, sim::in(at, __func__));
}

CATENARY_DEVICE void stmatrix_x2(u32 address, U32x2 v, sim::Site at = sim::here()) {
  const u32 words[2] = {v.x, v.y};
  sim::machine->stmatrix(address, words, 2, false, sim::in(at, __func__));
}

CATENARY_DEVICE void stmatrix_x2_trans(u32 address, U32x2 v, sim::Site at = sim::here()) {
  const u32 words[2] = {v.x, v.y};
  sim::machine->stmatrix(address, words, 2, true, sim::in(at, __func__));
}

CATENARY_DEVICE void stmatrix_x4(u32 address, U32x4 v, sim::Site at = sim::here()) {
  const u32 words[4] = {v.x, v.y, v.z, v.w};
  sim::machine->stmatrix(address, words, 4, false, sim::in(at, __func__));
}

CATENARY_DEVICE void stmatrix_x4_trans(u32 address, U32x4 v, sim::Site at = sim::here()) {
  const u32 words[4] = {v.x, v.y, v.z, v.w};
  sim::machine->stmatrix(address, words, 4, true, sim::in(at, __func__));
}

namespace sim {

inline void mma(float (&d)[4], const U32x4& a, u32 b0, u32 b1, Number number, Site site) {
  const u32 a_words[4] = {a.x, a.y, a.z, a.w};
  const u32 b_words[2] = {b0, b1};
  machine->mma(d, a_words, b_words, number, site);
}

}  // namespace sim

CATENARY_DEVICE void mma_bf16(float (&d)[4], const U32x4& a, u32 b0, u32 b1,
                              sim::Site at = sim::here()) {
  sim::mma(d, a, b0, b1, sim::Number::kBF16, sim::in(at, __func__));
}

CATENARY_DEVICE void mma_f16(float (&d)[4], const U32x4& a, u32 b0, u32 b1,
                             sim::Site at = sim::here()) {
  sim::mma(d, a, b0, b1, sim::Number::kF16, sim::in(at, __func__));
}

CATENARY_DEVICE void mma_tf32(float (&d)[4], const U32x4& a, u32 b0, u32 b1,
                              sim::Site at = sim::here()) {
  sim::mma(d, a, b0, b1, sim::Number::kTF32, sim::in(at, __func__));
}

}  // namespace catenary
