// SPDX-License-Identifier: Apache-2.0
// Host shims of ptx/bits.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

CATENARY_DEVICE u32 and_xor(u32 a, u32 mask, u32 flip, sim::Site at = sim::here()) {
  sim::use(a, sim::in(at, __func__));
  return (a & mask) ^ flip;
}

CATENARY_DEVICE void renew(u32& v, sim::Site = sim::here()) { static_cast<void>(v); }

}  // namespace catenary
