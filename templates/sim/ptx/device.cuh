// SPDX-License-Identifier: Apache-2.0
// The annotation of device functions and the register vectors, for a host compiler, and what every
// arithmetic twin does with a float first. Objects are compiled with -ffp-contract=off: a product
// and a sum that the template keeps apart round twice here too.
#pragma once

#include "sim/cuda.h"

#define CATENARY_DEVICE inline

namespace catenary {

struct U32x2 {
  u32 x, y;
};
struct U32x4 {
  u32 x, y, z, w;
};

namespace sim {

// An instruction takes these bits as an operand. The sign is not looked at: kernels negate floats
// without a wrapper.
inline void use(u32 bits, Site site) {
  if ((bits & 0x7fffffffu) == kAccumulatorInFlight) machine->use_register(bits, site);
}
inline void use(float v, Site site) { use(__builtin_bit_cast(u32, v), site); }

// PTX ISA "Floating point instructions": f32 arithmetic keeps no NaN payload and gives 0x7fffffff.
inline float canonical(float v) { return v == v ? v : __builtin_bit_cast(float, 0x7fffffffu); }

}  // namespace sim
}  // namespace catenary
