// SPDX-License-Identifier: Apache-2.0
// Host shim of ptx/registers.cuh.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

template <int kArrays, int kCount>
CATENARY_DEVICE auto as_one_array(float (&d)[kArrays][kCount], sim::Site = sim::here())
    -> float (&)[kArrays * kCount] {
  return reinterpret_cast<float(&)[kArrays * kCount]>(d);
}

}  // namespace catenary
