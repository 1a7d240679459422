// SPDX-License-Identifier: Apache-2.0
// Kernels as C++ lambdas over the machine: small programs that obey or break one rule each.
//
//   SimKernel k{.threads = 64, .smem_bytes = 256, .body = [&](sim::Machine& m) { ... }};
//   CHECK(fault_of(memory, {k}, seed) == "race");
//
// The body runs once per thread; m.at names the thread. It must not own heap memory across an
// instruction: a fault abandons the fibers without running destructors.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simulator/simulator.h"

namespace catenary::testing {

struct SimKernel {
  u32 ctas = 1;
  u32 threads = 32;
  u32 smem_bytes = 0;
  u32 cluster_ctas = 1;
  bool overlap = false;
  std::vector<sim::Region> regions = {};
  // False: griddepcontrol_wait is executed for the body. True: the body executes it.
  bool waits = false;
  std::function<void(sim::Machine&)> body = {};
};

// The name of the fault, "" for none; `message` gets its text unless null. kInvalidArgument is
// "invalid_argument".
std::string fault_of(sim::Memory& memory, const std::vector<SimKernel>& kernels, u64 seed = 1,
                     std::string* message = nullptr);

// The name of the first fault over seeds 1 .. seeds; "" if there is none.
std::string fault_within(sim::Memory& memory, const std::vector<SimKernel>& kernels, u64 seeds,
                         std::string* message = nullptr);

// A buffer of `bytes` bytes in `memory` as a region. `written`: filled with zeros and readable.
sim::Region buffer(sim::Memory& memory, const std::string& name, sim::RegionRole role, i64 bytes,
                   bool written);

// File and line of the caller, for calls of the machine.
inline sim::Site site(const char* op, const char* file = __builtin_FILE(),
                      u32 line = __builtin_LINE()) {
  return {file, line, op};
}

// The shared-memory address of byte `offset`.
inline u32 smem(sim::Machine& m, u32 offset) { return m.dynamic_smem() + offset; }

}  // namespace catenary::testing
