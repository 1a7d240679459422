// SPDX-License-Identifier: Apache-2.0
// CUDA C++ built-ins that emitted sources and templates use, for a host compiler, and the machine
// that the object is bound to.
#pragma once

#include "sim/machine.h"

namespace catenary::sim {

// One per loaded object, set before its first call. Hidden: otherwise the loader would merge them.
[[gnu::visibility("hidden")]] inline Machine* machine = nullptr;

struct ThreadIndex {
  struct X {
    operator u32() const { return machine->at.thread; }
  } x;
};
struct BlockIndex {
  struct X {
    operator u32() const { return machine->at.cta; }
  } x;
};
struct GridSize {
  struct X {
    operator u32() const { return machine->at.ctas; }
  } x;
};
struct BlockSize {
  struct X {
    operator u32() const { return machine->at.threads; }
  } x;
};

}  // namespace catenary::sim

inline constexpr catenary::sim::ThreadIndex threadIdx;
inline constexpr catenary::sim::BlockIndex blockIdx;
inline constexpr catenary::sim::GridSize gridDim;
inline constexpr catenary::sim::BlockSize blockDim;

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
