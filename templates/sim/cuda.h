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

// The second of the launch bounds: CTAs of an SM at least.
constexpr u32 second_or_one(u32 /*threads*/, u32 ctas = 1) { return ctas; }

}  // namespace catenary::sim

// Of a kernel without launch bounds.
constexpr catenary::u32 min_ctas(...) { return 1; }

inline constexpr catenary::sim::ThreadIndex threadIdx;
inline constexpr catenary::sim::BlockIndex blockIdx;
inline constexpr catenary::sim::GridSize gridDim;
inline constexpr catenary::sim::BlockSize blockDim;

#define __global__
#define __device__
#define __forceinline__ inline
// Kept for the simulator, which gives every CTA its share of an SM's registers: between "void" and
// the kernel's name stand the end of another declaration and an overload of min_ctas().
#define __launch_bounds__(...)                                                                \
  catenary_sim_unused();                                                                      \
  constexpr catenary::u32 min_ctas(int) { return catenary::sim::second_or_one(__VA_ARGS__); } \
  extern "C" void
#define __grid_constant__
