// SPDX-License-Identifier: Apache-2.0
// Runs kernels compiled for the host, one fiber per thread, under a seeded scheduler: a seed gives
// the same interleaving on every host. Input: launches in stream order. Output: changed memory, or
// one named fault. Independent of chains, plans and drivers.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ir/error.h"
#include "simulator/memory.h"
#include "simulator/object.h"

namespace catenary::sim {

enum class RegionRole : u8 { kInput, kWeight, kOutput, kWorkspace };

// Memory that a kernel may access. Inputs and weights are read only; before the dependency wait
// only weights may be read. Regions may overlap (a tensor that is input and weight is an input).
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
  bool overlap = false;  // PDL: may start before the previous launch has ended
  std::vector<std::byte> parameters;
  std::vector<Region> regions;
};

struct SimulatorOptions {
  u64 seed = 1;
  i32 resident_clusters = 0;  // that run at a time; 0: drawn from the seed
  // Called when a CTA has ended, with the number that have and the number of all launches.
  std::function<void(u64 done, u64 all)> progress;
};

struct RunStatistics {
  u64 switches = 0;  // from one thread to another
  u64 ctas = 0;
};

// Runs `launches` in order, as one stream does. kSimulatorFault: the first fault, as one sentence
// that names kernel, CTA, thread, template line and rule; the contents of memory are then
// undefined. kOutOfMemory: the host has no memory for another stack. kInvalidArgument: a launch
// that the hardware would reject (threads, shared memory, cluster).
Error simulate(Memory& memory, const std::vector<Launch>& launches, const SimulatorOptions& options,
               RunStatistics* statistics = nullptr);

}  // namespace catenary::sim
