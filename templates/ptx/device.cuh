// SPDX-License-Identifier: Apache-2.0
// The one annotation of device functions. Templates are inlined whole: a call would cost the
// accumulators their registers.
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
