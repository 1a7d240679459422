// SPDX-License-Identifier: Apache-2.0
// Host shim of ptx/device.cuh: the annotation of device functions, the register vectors, and what
// every arithmetic shim does with its operands. Objects are compiled with -ffp-contract=off: a
// multiplication and an addition that are separate in the template round twice here too.
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

// An instruction reads these bits as an operand. The sign is ignored: kernels negate floats without
// a wrapper.
inline void use(u32 bits, Site site) {
  if ((bits & 0x7fffffffu) == kAccumulatorInFlight) machine->use_register(bits, site);
}
inline void use(float v, Site site) { use(__builtin_bit_cast(u32, v), site); }

// PTX ISA "Floating point instructions": a NaN result of f32 arithmetic is 0x7fffffff.
inline float canonical(float v) { return v == v ? v : __builtin_bit_cast(float, 0x7fffffffu); }

}  // namespace sim
}  // namespace catenary
