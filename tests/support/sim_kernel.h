// SPDX-License-Identifier: Apache-2.0
// Kernels as C++ lambdas over the machine: small programs that keep or break one rule each.
//
//   SimKernel k{.threads = 64, .smem_bytes = 256, .body = [&](sim::Machine& m) { ... }};
//   CHECK(fault_of(memory, {k}, seed) == "race");
//
// The body runs once per thread, with m.at saying which. It may not own heap memory across an
// instruction: a fault abandons the fibers where they stand.
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
  // Most programs have no kernel before them: they then need not wait for one.
  bool waits = false;  // true: the body itself executes griddepcontrol_wait
  std::function<void(sim::Machine&)> body = {};
};

// The fault's name, "" for none; `message`, where given, gets the whole sentence. kInvalidArgument
// becomes "invalid_argument".
std::string fault_of(sim::Memory& memory, const std::vector<SimKernel>& kernels, u64 seed = 1,
                     std::string* message = nullptr);

// The names over seeds 1 .. seeds, of the first that faults; "" if none does.
std::string fault_within(sim::Memory& memory, const std::vector<SimKernel>& kernels, u64 seeds,
                         std::string* message = nullptr);

// A buffer of `bytes` in `memory` as a region; written: filled with zeros and readable.
sim::Region buffer(sim::Memory& memory, const std::string& name, sim::RegionRole role, i64 bytes,
                   bool written);

// A place in a test, for calls of the machine: file and line of the caller.
inline sim::Site site(const char* op, const char* file = __builtin_FILE(),
                      u32 line = __builtin_LINE()) {
  return {file, line, op};
}

// The shared-memory address of byte `offset`.
inline u32 smem(sim::Machine& m, u32 offset) { return m.dynamic_smem() + offset; }

}  // namespace catenary::testing
