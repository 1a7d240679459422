// SPDX-License-Identifier: Apache-2.0
// The annotation of device functions. Everything is inlined: a call would spill the accumulators.
#pragma once

#include "shared/int.h"

#define CATENARY_DEVICE __device__ __forceinline__

namespace catenary {

struct U32x2 {
  u32 x, y;
};
struct U32x4 {
  u32 x, y, z, w;
};

}  // namespace catenary
