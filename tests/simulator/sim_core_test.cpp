// SPDX-License-Identifier: Apache-2.0
// The simulator's scheduling, shared and global memory, cp.async, CTA barriers and PDL: a correct
// program gives its numbers under every seed, and the same program with one fault ends in the fault
// of that name.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/support/sim_kernel.h"

using namespace catenary;
using namespace catenary::sim;
using namespace catenary::testing;

namespace {

constexpr u64 kSeeds = 20;

void put(Machine& m, u32 offset, u32 value, Site at = testing::site("st_shared")) {
  m.store_shared(smem(m, offset), &value, 4, at);
}
u32 get(Machine& m, u32 offset, Site at = testing::site("ld_shared")) {
  u32 value = 0;
  m.load_shared(&value, smem(m, offset), 4, at);
  return value;
}
void put_global(Machine& m, const Region& r, u32 index, u32 value,
                Site at = testing::site("st_global")) {
  m.store_global(reinterpret_cast<u8*>(r.begin) + 4 * static_cast<i64>(index), &value, 4, at);
}
u32 get_global(Machine& m, const Region& r, u32 index, Site at = testing::site("ld_global")) {
  u32 value = 0;
  m.load_global(&value, reinterpret_cast<u8*>(r.begin) + 4 * static_cast<i64>(index), 4,
                Read::kPlain, at);
  return value;
}
u32 host(const Region& r, u32 index) {
  u32 value;
  std::memcpy(&value, reinterpret_cast<u8*>(r.begin) + 4 * static_cast<i64>(index), 4);
  return value;
}
void sync(Machine& m, Site at = testing::site("cta_barrier")) { m.barrier(0, 0, true, at); }

}  // namespace

TEST_CASE("threads exchange through shared memory across a barrier, under every seed") {
  for (u64 seed = 1; seed <= 50; ++seed) {
    Memory memory;
    const Region out = buffer(memory, "out", RegionRole::kOutput, 4 * 3 * 96, false);
    SimKernel k{.ctas = 3, .threads = 96, .smem_bytes = 4 * 96, .regions = {out}};
    k.body = [&](Machine& m) {
      put(m, 4 * m.at.thread, m.at.thread + 1000 * m.at.cta);
      sync(m);
      const u32 other = get(m, 4 * ((m.at.thread + 1) % 96));
      put_global(m, out, m.at.cta * 96 + m.at.thread, other);
    };
    std::string message;
    REQUIRE_MESSAGE(fault_of(memory, {k}, seed, &message) == "", message);
    for (u32 i = 0; i < 3 * 96; ++i) CHECK(host(out, i) == (i % 96 + 1) % 96 + 1000 * (i / 96));
  }
}

TEST_CASE("a missing barrier is a race, or a read of unwritten bytes") {
  Memory memory;
  SimKernel k{.threads = 64, .smem_bytes = 4 * 64};
  k.body = [&](Machine& m) {
    put(m, 4 * m.at.thread, 1);
    get(m, 4 * ((m.at.thread + 32) % 64));
  };
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    std::string message;
    const std::string name = fault_of(memory, {k}, seed, &message);
    CHECK_MESSAGE((name == "race" || name == "unwritten"), message);
    CHECK(message.find("kernel test1, CTA 0, thread ") == 0);
    CHECK(message.find("sim_core_test.cpp:") != std::string::npos);
  }
}

TEST_CASE("a missing barrier between two rounds is a race") {
  Memory memory;
  SimKernel k{.threads = 64, .smem_bytes = 4 * 64};
  k.body = [&](Machine& m) {
    for (u32 round = 0; round < 2; ++round) {
      put(m, 4 * m.at.thread, round);
      sync(m);
      get(m, 4 * (63 - m.at.thread));
    }
  };
  for (u64 seed = 1; seed <= kSeeds; ++seed) CHECK(fault_of(memory, {k}, seed) == "race");
}

TEST_CASE("a warp barrier orders only its warp") {
  Memory memory;
  SimKernel k{.threads = 64, .smem_bytes = 4 * 64};
  u32 distance = 1;
  k.body = [&](Machine& m) {
    put(m, 4 * m.at.thread, m.at.thread);
    m.warp_barrier(0xffffffff, testing::site("warp_barrier"));
    get(m, 4 * (m.at.thread ^ distance));
  };
  std::string message;
  CHECK_MESSAGE(fault_within(memory, {k}, kSeeds, &message) == "", message);
  distance = 32;
  const std::string name = fault_within(memory, {k}, 1);
  CHECK((name == "race" || name == "unwritten"));
}

TEST_CASE("shared memory is bounded, aligned and poisoned") {
  Memory memory;
  SimKernel k{.threads = 32, .smem_bytes = 128};
  std::string message;
  k.body = [&](Machine& m) { put(m, 4 * m.at.thread + 4, 0); };
  CHECK(fault_of(memory, {k}, 1, &message) == "out_of_bounds");
  CHECK_MESSAGE(message.find("thread 31 (warp 0, lane 31)") != std::string::npos, message);
  CHECK_MESSAGE(message.find("offset 128 of 128 bytes") != std::string::npos, message);
  k.body = [&](Machine& m) { put(m, 2, 0); };
  CHECK(fault_of(memory, {k}) == "misaligned");
  k.body = [&](Machine& m) { get(m, 0); };
  CHECK(fault_of(memory, {k}) == "unwritten");
}

TEST_CASE("cp.async completes by its wait; other threads see it after a barrier") {
  u8 variant = 0;
  const auto program = [&](const Region& in, const Region& out) {
    SimKernel k{.threads = 32, .smem_bytes = 16 * 32, .regions = {in, out}};
    k.body = [&, in, out](Machine& m) {
      const u32 t = m.at.thread;
      m.cp_async(smem(m, 16 * t), reinterpret_cast<u8*>(in.begin) + 16 * t, 16, 8,
                 testing::site("cp_async"));
      m.cp_async_commit(testing::site("commit"));
      m.cp_async_commit(testing::site("commit"));
      // Two groups are committed; the cp.async is in the first.
      m.cp_async_wait(variant == 1 ? 2 : 1, testing::site("wait"));
      if (variant != 2) sync(m);
      const u32 other = variant == 3 ? t : (t + 1) % 32;
      const u32 sum = get(m, 16 * other) + get(m, 16 * other + 4) + get(m, 16 * other + 12);
      if (variant == 1) m.cp_async_wait(0, testing::site("wait"));
      put_global(m, out, t, sum);
    };
    return k;
  };
  for (variant = 0; variant < 4; ++variant) {
    for (u64 seed = 1; seed <= kSeeds; ++seed) {
      Memory memory;
      const Region in = buffer(memory, "in", RegionRole::kInput, 16 * 32, true);
      const Region out = buffer(memory, "out", RegionRole::kOutput, 4 * 32, false);
      for (u32 i = 0; i < 128; ++i) {
        std::memcpy(reinterpret_cast<u8*>(in.begin) + 4 * i, &i, 4);
      }
      std::string message;
      const std::string name = fault_of(memory, {program(in, out)}, seed, &message);
      if (variant == 1 || variant == 2) {
        CHECK_MESSAGE((name == "copy_in_flight" || name == "unwritten"), message);
        continue;
      }
      REQUIRE_MESSAGE(name == "", message);
      // The last 8 bytes of each cp.async are zero fill.
      for (u32 t = 0; t < 32; ++t) {
        const u32 other = variant == 3 ? t : (t + 1) % 32;
        CHECK(host(out, t) == 8 * other + 1);
      }
    }
  }
}

TEST_CASE("an exit with cp.async in flight is a fault") {
  Memory memory;
  const Region in = buffer(memory, "in", RegionRole::kInput, 64, true);
  SimKernel k{.threads = 1, .smem_bytes = 64, .regions = {in}};
  k.body = [&](Machine& m) {
    m.cp_async(smem(m, 0), reinterpret_cast<u8*>(in.begin), 16, 16, testing::site("cp_async"));
    m.cp_async_commit(testing::site("commit"));
  };
  CHECK(fault_of(memory, {k}) == "outstanding");
}

TEST_CASE("global accesses must be inside the buffers of the launch and respect their roles") {
  Memory memory;
  const Region in = buffer(memory, "x", RegionRole::kInput, 64, true);
  const Region out = buffer(memory, "y", RegionRole::kOutput, 64, false);
  SimKernel k{.threads = 1, .regions = {in, out}};
  std::string message;
  k.body = [&](Machine& m) { get_global(m, in, 16); };
  CHECK(fault_of(memory, {k}, 1, &message) == "out_of_bounds");
  CHECK_MESSAGE(message.find("byte 64 of 'x', which has 64") != std::string::npos, message);
  k.body = [&](Machine& m) { put_global(m, in, 0, 1); };
  CHECK(fault_of(memory, {k}) == "read_only");
  k.body = [&](Machine& m) { get_global(m, out, 3); };
  CHECK(fault_of(memory, {k}, 1, &message) == "unwritten");
  CHECK_MESSAGE(message.find("byte 12 of 'y'") != std::string::npos, message);
  k.body = [&](Machine& m) {
    u32 v;
    m.load_global(&v, reinterpret_cast<u8*>(in.begin) + 2, 4, Read::kPlain, testing::site("ld"));
  };
  CHECK(fault_of(memory, {k}) == "misaligned");
  k.body = [&](Machine& m) {
    put_global(m, out, 0, 7);
    u32 v;
    m.load_global(&v, reinterpret_cast<u8*>(out.begin), 4, Read::kConstant, testing::site("ld"));
  };
  CHECK(fault_of(memory, {k}) == "read_only");
}

TEST_CASE("two CTAs that write one element race, unless they add atomically") {
  Memory memory;
  const Region out = buffer(memory, "y", RegionRole::kOutput, 4, true);
  SimKernel k{.ctas = 4, .threads = 1, .regions = {out}};
  k.body = [&](Machine& m) { put_global(m, out, 0, m.at.cta); };
  CHECK(fault_of(memory, {k}) == "race");
  k.body = [&](Machine& m) {
    const float one = 1.0f;
    m.reduce_global(reinterpret_cast<u8*>(out.begin), &one, 1, Number::kF32, false,
                    testing::site("red"));
  };
  memory.mark(reinterpret_cast<void*>(out.begin), 4, true);
  std::memset(reinterpret_cast<void*>(out.begin), 0, 4);
  CHECK(fault_of(memory, {k}) == "");
  float sum;
  std::memcpy(&sum, reinterpret_cast<void*>(out.begin), 4);
  CHECK(sum == 4.0f);
}

TEST_CASE("release and acquire of a word order two CTAs") {
  bool acquires = true;
  const auto name = [&](u64 seed, std::string* message) {
    Memory memory;
    const Region data = buffer(memory, "data", RegionRole::kWorkspace, 8, true);
    SimKernel k{.ctas = 2, .threads = 32, .regions = {data}};
    k.body = [&](Machine& m) {
      u8* word = reinterpret_cast<u8*>(data.begin);
      if (m.at.cta == 0) {
        if (m.at.thread == 0) put_global(m, data, 1, 42);
        sync(m);
        if (m.at.thread == 0) m.store_release_global(word, 1, testing::site("st.release"));
      } else if (m.at.thread == 0) {
        while (acquires && m.load_acquire_global(word, testing::site("ld.acquire")) == 0) {
        }
        CHECK(get_global(m, data, 1) == 42);
      }
    };
    return fault_of(memory, {k}, seed, message);
  };
  u32 passed = 0;
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    std::string message;
    const std::string got = name(seed, &message);
    CHECK_MESSAGE(got == "", message);
    passed += got.empty();
  }
  CHECK(passed == kSeeds);
}

TEST_CASE(
    "threads that wait for each other are a deadlock; the report names them and their locations") {
  Memory memory;
  SimKernel k{.threads = 64};
  k.body = [&](Machine& m) {
    m.barrier(m.at.thread < 32 ? 1 : 2, 64, true, testing::site("named_barrier"));
  };
  std::string message;
  CHECK(fault_of(memory, {k}, 1, &message) == "deadlock");
  CHECK_MESSAGE(message.find("barrier 1 of 64 threads") != std::string::npos, message);
  CHECK_MESSAGE(message.find("64 wait") != std::string::npos, message);
}

TEST_CASE("a barrier that not all threads of the CTA reach is a fault") {
  Memory memory;
  SimKernel k{.threads = 64};
  k.body = [&](Machine& m) {
    if (m.at.thread < 32) sync(m);
  };
  for (u64 seed = 1; seed <= kSeeds; ++seed) CHECK(fault_of(memory, {k}, seed) == "barrier");
}

TEST_CASE("lanes of a warp that diverge before an aligned instruction are a fault") {
  Memory memory;
  SimKernel k{.threads = 32, .smem_bytes = 4};
  k.body = [&](Machine& m) {
    if (m.at.thread == 3) {
      m.warp_barrier(0xffffffff, testing::site("warp_barrier"));
    } else {
      m.shuffle(0, 0, Shuffle::kIndex, 0xffffffff, testing::site("shuffle"));
    }
  };
  for (u64 seed = 1; seed <= kSeeds; ++seed) CHECK(fault_of(memory, {k}, seed) == "divergence");
}

TEST_CASE("named barriers order producers before consumers") {
  u32 variant = 0;
  for (variant = 0; variant < 2; ++variant) {
    for (u64 seed = 1; seed <= kSeeds; ++seed) {
      Memory memory;
      SimKernel k{.threads = 64, .smem_bytes = 4};
      k.body = [&](Machine& m) {
        if (m.at.thread < 32) {
          if (m.at.thread == 0) put(m, 0, 9);
          m.barrier(1, 64, false, testing::site("arrive"));
        } else {
          if (variant == 0) m.barrier(1, 64, true, testing::site("sync"));
          get(m, 0);
          if (variant == 1) m.barrier(1, 64, true, testing::site("sync"));
        }
      };
      const std::string name = fault_of(memory, {k}, seed);
      if (variant == 0) CHECK(name == "");
      if (variant == 1) CHECK((name == "race" || name == "unwritten"));
    }
  }
}

TEST_CASE(
    "setmaxnreg moves registers between warpgroups; a sum beyond the register file deadlocks") {
  Memory memory;
  u32 more = 232;
  SimKernel k{.threads = 384};
  k.body = [&](Machine& m) {
    if (m.at.thread < 128) {
      m.set_max_registers(40, false, testing::site("setmaxnreg"));
    } else {
      m.set_max_registers(more, true, testing::site("setmaxnreg"));
    }
  };
  std::string message;
  CHECK_MESSAGE(fault_within(memory, {k}, kSeeds, &message) == "", message);
  more = 240;
  CHECK(fault_of(memory, {k}) == "deadlock");
  more = 236;
  CHECK(fault_of(memory, {k}) == "registers");
}

TEST_CASE(
    "a dependent kernel starts early, and its accesses before the dependency wait are checked") {
  enum { kRight, kReadsEarly, kWritesEarly, kNoWait } variant;
  const auto run = [&](u64 seed, std::string* message) {
    Memory memory;
    const Region w = buffer(memory, "w", RegionRole::kWeight, 4, true);
    Region y = buffer(memory, "y", RegionRole::kWorkspace, 4 * 8, false);
    const Region z = buffer(memory, "z", RegionRole::kOutput, 4 * 8, false);
    SimKernel first{.ctas = 4, .threads = 2, .regions = {w, y}, .waits = true};
    first.body = [&](Machine& m) {
      m.griddepcontrol_launch_dependents(testing::site("launch"));
      m.griddepcontrol_wait(testing::site("wait"));
      put_global(m, y, m.at.cta * 2 + m.at.thread, 5 + get_global(m, w, 0));
    };
    SimKernel second{.ctas = 4, .threads = 2, .overlap = true, .regions = {w, y, z}, .waits = true};
    second.body = [&](Machine& m) {
      const u32 i = m.at.cta * 2 + m.at.thread;
      m.griddepcontrol_launch_dependents(testing::site("launch"));
      u32 sum = get_global(m, w, 0);
      if (variant == kNoWait && m.at.cta == 3) return;
      if (variant == kReadsEarly) sum += get_global(m, y, i);
      if (variant == kWritesEarly) put_global(m, z, i, sum);
      m.griddepcontrol_wait(testing::site("wait"));
      if (variant != kReadsEarly) sum += get_global(m, y, i);
      put_global(m, z, i, sum);
    };
    const std::string name = fault_of(memory, {first, second, second}, seed, message);
    if (name.empty()) CHECK(host(z, 7) == 5);
    return name;
  };
  for (u64 seed = 1; seed <= kSeeds; ++seed) {
    std::string message;
    variant = kRight;
    CHECK_MESSAGE(run(seed, &message) == "", message);
    variant = kReadsEarly;
    CHECK(run(seed, &message) == "before_dependency_wait");
    variant = kWritesEarly;
    CHECK(run(seed, &message) == "before_dependency_wait");
    variant = kNoWait;
    CHECK(run(seed, &message) == "no_dependency_wait");
  }
}

TEST_CASE("one seed gives one interleaving, and seeds differ") {
  const auto order = [](u64 seed) {
    Memory memory;
    std::vector<u32> seen;
    SimKernel k{.ctas = 4, .threads = 32};
    k.body = [&](Machine& m) {
      seen.push_back(m.at.cta * 32 + m.at.thread);
      sync(m);
    };
    CHECK(fault_of(memory, {k}, seed) == "");
    return seen;
  };
  CHECK(order(7) == order(7));
  CHECK(order(7) != order(8));
}

TEST_CASE("a launch that the hardware rejects is an error") {
  Memory memory;
  SimKernel k{.threads = 2000, .body = [](Machine&) {}};
  CHECK(fault_of(memory, {k}) == "invalid_argument");
  k.threads = 32;
  k.ctas = 3;
  k.cluster_ctas = 2;
  CHECK(fault_of(memory, {k}) == "invalid_argument");
}
