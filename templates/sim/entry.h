// SPDX-License-Identifier: Apache-2.0
// Entry points of a host-compiled kernel, which simulator/ looks up in the object. Included after
// the emitted source, with CATENARY_SIM_KERNEL defined as the kernel's name.
#pragma once

#include "sim/cuda.h"

namespace catenary::sim {

// Copies: a parameter with tensor maps needs more alignment than `parameters` has.
template <class P>
void call(void (*kernel)(P), const void* parameters) {
  P copy;
  __builtin_memcpy(&copy, parameters, sizeof copy);
  kernel(copy);
}

}  // namespace catenary::sim

extern "C" __attribute__((visibility("default"))) catenary::u32 catenary_sim_version() {
  return catenary::sim::kMachineVersion;
}

extern "C" __attribute__((visibility("default"))) void catenary_sim_bind(
    catenary::sim::Machine* machine) {
  catenary::sim::machine = machine;
}

extern "C" __attribute__((visibility("default"))) catenary::u32 catenary_sim_min_ctas() {
  const catenary::u32 ctas = catenary::sim::LaunchBounds::min_ctas;
  return ctas == 0 ? 1 : ctas;
}

extern "C" __attribute__((visibility("default"))) void catenary_sim_call(const void* parameters) {
  catenary::sim::call(&CATENARY_SIM_KERNEL, parameters);
}
