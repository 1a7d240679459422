// SPDX-License-Identifier: Apache-2.0
// Arrays in registers. No instruction.
#pragma once

#include "ptx/device.cuh"

namespace catenary {

// The arrays of `d` as one, the first of them first.
template <int kArrays, int kCount>
CATENARY_DEVICE auto as_one_array(float (&d)[kArrays][kCount]) -> float (&)[kArrays * kCount] {
  return reinterpret_cast<float(&)[kArrays * kCount]>(d);
}

}  // namespace catenary
