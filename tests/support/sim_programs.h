// SPDX-License-Identifier: Apache-2.0
// Helpers of programs for the simulated machine: mbarriers, 32-bit words of shared and global
// memory, checks over many seeds.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>

#include "tests/support/sim_kernel.h"

namespace catenary::testing {

inline u8* at(const sim::Region& region, i64 offset = 0) {
  return reinterpret_cast<u8*>(region.begin) + offset;
}

// Word `index` of a buffer, on the host's side.
inline u32 word(const sim::Region& region, i64 index) {
  u32 value;
  std::memcpy(&value, at(region, 4 * index), 4);
  return value;
}

// A readable buffer whose word i is `i + first`.
inline sim::Region numbered(sim::Memory& memory, const std::string& name, sim::RegionRole role,
                            i64 bytes, u32 first = 0) {
  sim::Region region = buffer(memory, name, role, bytes, true);
  for (i64 i = 0; i < bytes / 4; ++i) {
    const u32 value = first + static_cast<u32>(i);
    std::memcpy(at(region, 4 * i), &value, 4);
  }
  return region;
}

inline void wait(sim::Machine& m, u32 barrier, u32 parity, sim::Site s = site("mbarrier_wait")) {
  while (!m.mbarrier_try_wait(barrier, parity, s)) {
  }
}

inline void sync(sim::Machine& m, sim::Site s = site("cta_barrier")) { m.barrier(0, 0, true, s); }

inline void cluster_sync(sim::Machine& m, sim::Site s = site("cluster_sync")) {
  m.cluster_arrive(true, s);
  m.cluster_wait(s);
}

inline u32 load(sim::Machine& m, u32 address, sim::Site s = site("ld_shared")) {
  u32 value = 0;
  m.load_shared(&value, address, 4, s);
  return value;
}

inline void store(sim::Machine& m, u32 address, u32 value, sim::Site s = site("st_shared")) {
  m.store_shared(address, &value, 4, s);
}

inline void put(sim::Machine& m, const sim::Region& region, i64 index, u32 value,
                sim::Site s = site("st_global")) {
  m.store_global(at(region, 4 * index), &value, 4, s);
}

inline void passes(sim::Memory& memory, const SimKernel& kernel, u64 seeds = 50) {
  std::string message;
  CHECK_MESSAGE(fault_within(memory, {kernel}, seeds, &message) == "", message);
}

// Every seed has a fault of `names`, with a message that contains `part`.
inline void fails(sim::Memory& memory, const SimKernel& kernel, const std::set<std::string>& names,
                  const std::string& part = "", u64 seeds = 20) {
  for (u64 seed = 1; seed <= seeds; ++seed) {
    std::string message;
    const std::string name = fault_of(memory, {kernel}, seed, &message);
    CHECK_MESSAGE(names.count(name) == 1, seed, " ", name, ": ", message);
    CHECK_MESSAGE(message.find(part) != std::string::npos, message);
    // The second form: the fault is found when an asynchronous operation completes.
    const bool named = message.find("kernel test1, CTA ") != std::string::npos ||
                       message.find("kernel test1, an operation of CTA ") != std::string::npos;
    CHECK_MESSAGE(named, message);
  }
}

// At least one of 20 seeds has the fault `name`, and none has another.
inline void may_fail(sim::Memory& memory, const SimKernel& kernel, const std::string& name,
                     const std::string& part = "") {
  bool seen = false;
  for (u64 seed = 1; seed <= 20; ++seed) {
    std::string message;
    const std::string found = fault_of(memory, {kernel}, seed, &message);
    CHECK_MESSAGE((found == "" || found == name), seed, " ", message);
    if (found == name) CHECK_MESSAGE(message.find(part) != std::string::npos, message);
    seen |= found == name;
  }
  CHECK(seen);
}

}  // namespace catenary::testing
