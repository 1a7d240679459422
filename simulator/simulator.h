// SPDX-License-Identifier: Apache-2.0
// Runs kernels that were compiled for the host, one fiber per thread, under a seeded scheduler:
// one seed, one interleaving, on every machine. A launch order in, memory changed or one named
// fault out. Knows no chain, no plan and no driver.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/error.h"
#include "simulator/memory.h"
#include "simulator/object.h"

namespace catenary::sim {

enum class RegionRole : u8 { kInput, kWeight, kOutput, kWorkspace };

// Memory that a kernel may touch. Inputs and weights may only be read, and weights alone before the
// dependency wait. Several regions may overlap (a tensor that is input and weight is an input).
struct Region {
  std::string name;  // "x", "workspace"
  RegionRole role = RegionRole::kInput;
  u64 begin = 0;
  i64 bytes = 0;
};

struct Launch {
  std::shared_ptr<const Object> object;
  std::string kernel;  // for messages
  u32 ctas = 1;
  u32 threads = 32;
  u32 smem_bytes = 0;
  u32 cluster_ctas = 1;
  bool overlap = false;  // may start before the launch before it has ended
  std::vector<std::byte> parameters;
  std::vector<Region> regions;
};

struct SimulatorOptions {
  u64 seed = 1;
  i32 resident_ctas = 0;  // CTAs (whole clusters) that run at a time; 0: the seed decides
};

struct RunStatistics {
  u64 switches = 0;  // from one thread to another
  u64 ctas = 0;
};

// Runs `launches` in order, as one stream does. kSimulatorFault: the first fault, as one sentence
// that names kernel, CTA, thread, template line and rule; memory is then in no particular state.
// kOutOfMemory: the host has none for another stack.
// kInvalidArgument: a launch that the hardware would refuse (threads, shared memory, cluster).
Error simulate(Memory& memory, const std::vector<Launch>& launches, const SimulatorOptions& options,
               RunStatistics* statistics = nullptr);

}  // namespace catenary::sim
