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

// The launch bounds of the kernels of an object; of several kernels the fewest CTAs of an SM.
struct LaunchBounds {
  explicit LaunchBounds(u32 /*threads*/, u32 ctas = 1) {
    if (min_ctas == 0 || ctas < min_ctas) min_ctas = ctas;
  }
  static inline u32 min_ctas = 0;  // 0: no kernel has bounds
};

}  // namespace catenary::sim

inline constexpr catenary::sim::ThreadIndex threadIdx;
inline constexpr catenary::sim::BlockIndex blockIdx;
inline constexpr catenary::sim::GridSize gridDim;
inline constexpr catenary::sim::BlockSize blockDim;

#define __global__
#define __device__
#define __forceinline__ inline
// The simulator gives every CTA its share of an SM's registers, so it needs the bounds. The macro
// is between "void" and the kernel's name. It ends a declaration, defines an object that keeps
// the bounds, and begins the kernel's declaration again.
#define CATENARY_BOUNDS_NAME(line) catenary_sim_bounds_##line
#define CATENARY_BOUNDS(line, ...)                                                  \
  catenary_sim_unused();                                                            \
  static const catenary::sim::LaunchBounds CATENARY_BOUNDS_NAME(line)(__VA_ARGS__); \
  extern "C" void
#define __launch_bounds__(...) CATENARY_BOUNDS(__LINE__, __VA_ARGS__)
#define __grid_constant__
