// SPDX-License-Identifier: Apache-2.0
// Clusters in the simulator: barrier.cluster, DSMEM, multicast loads, remote arrivals and st.async;
// each correct and with one fault.
#include "tests/support/sim_programs.h"

using namespace catenary;
using namespace catenary::sim;
using namespace catenary::testing;

namespace {

// Two CTAs of `threads` threads in one cluster.
SimKernel pair(u32 threads, std::vector<Region> regions, std::function<void(Machine&)> body) {
  return {.ctas = 2,
          .threads = threads,
          .smem_bytes = 4096,
          .cluster_ctas = 2,
          .regions = std::move(regions),
          .body = std::move(body)};
}

constexpr u32 kStages = 2;
constexpr u32 kTiles = 6;
constexpr u32 kTile = 512;
constexpr u32 kFull = 0;
constexpr u32 kEmpty = 8 * kStages;
constexpr u32 kData = 128;

enum class Wrong {
  kNothing,
  kNoInitFence,
  kNoClusterBarrier,
  kLocalArrivals,
  kCountsOwnConsumers,
  kHalfTheBytes,
  kNoLastBarrier,
  kMaskOfThree,
};

// Both CTAs need every tile: each loads one half and multicasts it to both. A stage is free when
// the consumers of both CTAs have read it.
SimKernel multicast(const Region& x, const Region& y, Wrong wrong) {
  return pair(64, {x, y}, [=](Machine& m) {
    const u32 rank = m.at.cta_in_cluster;
    if (m.at.thread == 0) {
      for (u32 s = 0; s < kStages; ++s) {
        m.mbarrier_init(smem(m, kFull + 8 * s), 1, site("init_full"));
        m.mbarrier_init(smem(m, kEmpty + 8 * s), wrong == Wrong::kCountsOwnConsumers ? 32 : 64,
                        site("init_empty"));
      }
      if (wrong != Wrong::kNoInitFence) m.fence_mbarrier_init(site("fence"));
    }
    if (wrong == Wrong::kNoClusterBarrier) {
      sync(m);
    } else {
      cluster_sync(m);
    }
    for (u32 i = 0; i < kTiles; ++i) {
      const u32 stage = i % kStages;
      const u32 turn = i / kStages & 1;
      const u32 full = smem(m, kFull + 8 * stage);
      const u32 empty = smem(m, kEmpty + 8 * stage);
      if (m.at.thread == 0) {
        wait(m, empty, turn ^ 1);
        m.mbarrier_expect(full, wrong == Wrong::kHalfTheBytes ? kTile / 2 : kTile, true,
                          site("expect"));
        const u32 half = rank * kTile / 2;
        m.bulk_load(smem(m, kData + stage * kTile + half), at(x, i * kTile + half), kTile / 2, full,
                    wrong == Wrong::kMaskOfThree ? 7 : 3, site("multicast"));
      }
      if (m.at.thread < 32) continue;
      const u32 lane = m.at.thread % 32;
      wait(m, full, turn);
      for (u32 w = lane; w < kTile / 4; w += 32) {
        put(m, y, (rank * kTiles + i) * kTile / 4 + w,
            load(m, smem(m, kData + stage * kTile + 4 * w)));
      }
      if (wrong == Wrong::kLocalArrivals) {
        m.mbarrier_arrive(empty, 1, site("arrive"));
        continue;
      }
      for (u32 r = 0; r < 2; ++r) {
        m.mbarrier_arrive(m.map_shared(empty, r, site("map")), 1, site("arrive_remote"));
      }
    }
    if (wrong != Wrong::kNoLastBarrier) cluster_sync(m);
  });
}

struct Tiles {
  Memory memory;
  Region x = numbered(memory, "x", RegionRole::kInput, kTiles* kTile, 3);
  Region y = buffer(memory, "y", RegionRole::kOutput, 2 * kTiles * kTile, false);
};

}  // namespace

TEST_CASE("a pair of CTAs shares its loads by multicast, under every seed") {
  Tiles t;
  for (u64 seed = 1; seed <= 50; ++seed) {
    std::string message;
    t.memory.mark(at(t.y), t.y.bytes, false);
    REQUIRE_MESSAGE(
        fault_of(t.memory, {multicast(t.x, t.y, Wrong::kNothing)}, seed, &message) == "", message);
    for (i64 i = 0; i < 2 * kTiles * kTile / 4; ++i) {
      REQUIRE(word(t.y, i) == word(t.x, i % (kTiles * kTile / 4)));
    }
  }
}

TEST_CASE("a multicast pipeline with one fault") {
  Tiles t;
  const auto stops = [&](Wrong wrong, const std::set<std::string>& names,
                         const std::string& part = "") {
    fails(t.memory, multicast(t.x, t.y, wrong), names, part);
  };
  stops(Wrong::kNoInitFence, {"barrier"}, "fence.mbarrier_init");
  stops(Wrong::kNoClusterBarrier, {"barrier"}, "initialis");
  stops(Wrong::kLocalArrivals, {"deadlock"}, "32 of 64 arrivals are in");
  stops(Wrong::kCountsOwnConsumers, {"race", "barrier", "phase", "copy_in_flight"});
  stops(Wrong::kHalfTheBytes,
        {"transaction", "unwritten", "phase", "copy_in_flight", "deadlock", "barrier"});
  stops(Wrong::kMaskOfThree, {"out_of_bounds"}, "mask 0x7 in a cluster of 2");
  // A CTA may exit before the arrivals of the other one, depending on the schedule.
  may_fail(t.memory, multicast(t.x, t.y, Wrong::kNoLastBarrier), "remote_exit", "has exited");
}

TEST_CASE("threads of a cluster read each other's shared memory after its barrier") {
  Memory memory;
  for (const int variant : {0, 1, 2, 3}) {
    const SimKernel k = pair(64, {}, [variant](Machine& m) {
      const u32 place = smem(m, 4 * m.at.thread);
      store(m, place, 100 * m.at.cta_in_cluster + m.at.thread);
      if (variant == 1) sync(m);
      if (variant != 1) {
        m.cluster_arrive(variant != 2, site("cluster_arrive"));
        m.cluster_wait(site("cluster_wait"));
      }
      const u32 other = m.at.cta_in_cluster ^ 1;
      const u32 value = load(m, m.map_shared(place, other, site("map")));
      CHECK(value == 100 * other + m.at.thread);
      if (variant != 3) cluster_sync(m);
    });
    if (variant == 0) passes(memory, k);
    if (variant == 1) fails(memory, k, {"race", "unwritten"});
    if (variant == 2) fails(memory, k, {"race"}, "st_shared");
    if (variant == 3) may_fail(memory, k, "remote_exit", "has exited");
  }
}

TEST_CASE("mapped addresses name CTAs of the cluster, once") {
  Memory memory;
  const auto map = [](u32 rank, bool twice) {
    return pair(32, {}, [=](Machine& m) {
      u32 address = m.map_shared(smem(m, 0), rank, site("map"));
      if (twice) address = m.map_shared(address, 0, site("map_again"));
      CHECK(address != 0);
    });
  };
  passes(memory, map(1, false), 2);
  fails(memory, map(2, false), {"out_of_bounds"}, "CTA 2 of a cluster of 2", 1);
  fails(memory, map(1, true), {"operand"}, "already mapped", 1);
}

TEST_CASE("every thread arrives once, then waits once, at the cluster barrier") {
  Memory memory;
  const auto program = [](int variant) {
    return pair(64, {}, [variant](Machine& m) {
      const bool odd = m.at.cta_in_cluster == 1 && m.at.thread >= 32;
      if (variant == 1 && odd) m.cluster_arrive(true, site("arrive_first"));
      if (variant == 2 && odd) {
        m.cluster_wait(site("wait_alone"));
        return;
      }
      if (variant == 3 && odd) return;
      if (variant == 4 && m.at.thread == 5) return;
      if (variant == 5 && odd) {
        m.cluster_arrive(true, site("arrive"));
        return;
      }
      for (int i = 0; i < 3; ++i) cluster_sync(m);
    });
  };
  passes(memory, program(0));
  fails(memory, program(1), {"barrier"}, "twice without barrier.cluster.wait");
  fails(memory, program(2), {"barrier"}, "without barrier.cluster.arrive");
  passes(memory, program(3));  // the barrier does not wait for threads that have exited
  fails(memory, program(4), {"divergence"});
  passes(memory, program(5));
}

TEST_CASE("a cluster barrier that some threads never reach is a deadlock") {
  Memory memory;
  fails(memory,
        pair(32, {},
             [](Machine& m) {
               if (m.at.cta_in_cluster == 0) {
                 cluster_sync(m);
               } else {
                 m.mbarrier_init(smem(m, 0), 33, site("init"));
                 m.warp_barrier(0xffffffff, site("warp_barrier"));
                 wait(m, smem(m, 0), 0);
               }
             }),
        {"deadlock", "barrier"});
}

TEST_CASE("st.async counts its bytes at the other CTA's mbarrier") {
  Memory memory;
  enum { kRight, kNoWait, kFewBytes, kOwnBarrier, kThreeBytes, kExits };
  const auto program = [](int variant) {
    return pair(32, {}, [variant](Machine& m) {
      const u32 barrier = smem(m, 0);
      const u32 rank = m.at.cta_in_cluster;
      if (m.at.thread == 0) {
        m.mbarrier_init(barrier, 1, site("init"));
        m.fence_mbarrier_init(site("fence"));
        m.mbarrier_expect(barrier, variant == kFewBytes ? 124 : 128, true, site("expect"));
      }
      cluster_sync(m);
      const u32 value = 50 * rank + m.at.thread;
      const u32 there = m.map_shared(smem(m, 64 + 4 * m.at.thread), rank ^ 1, site("map"));
      const u32 completes =
          variant == kOwnBarrier ? barrier : m.map_shared(barrier, rank ^ 1, site("map"));
      m.store_async(there, &value, variant == kThreeBytes ? 3 : 4, completes, site("st_async"));
      if (variant == kExits) return;
      if (variant != kNoWait) wait(m, barrier, 0);
      CHECK(load(m, smem(m, 64 + 4 * m.at.thread)) == 50 * (rank ^ 1) + m.at.thread);
      cluster_sync(m);
    });
  };
  passes(memory, program(kRight));
  fails(memory, program(kNoWait), {"copy_in_flight", "unwritten"});
  // The phase completes without one of the stores, or before the last lane has issued its store.
  fails(memory, program(kFewBytes), {"transaction", "copy_in_flight", "unwritten"});
  fails(memory, program(kOwnBarrier), {"barrier"}, "both must be in one CTA", 2);
  fails(memory, program(kThreeBytes), {"operand"}, "stores 3 bytes", 1);
  std::set<std::string> seen;
  for (u64 seed = 1; seed <= 20; ++seed) seen.insert(fault_of(memory, {program(kExits)}, seed));
  seen.erase("");
  CHECK(!seen.empty());
  for (const std::string& name : seen) CHECK((name == "outstanding" || name == "remote_exit"));
}

TEST_CASE("cp.async.bulk between the CTAs of a cluster reads its source until it completes") {
  Memory memory;
  enum { kRight, kReuse, kOwnBarrier, kRemoteSource, kNoFence };
  const auto program = [](int variant) {
    return pair(32, {}, [variant](Machine& m) {
      const u32 barrier = smem(m, 0);
      const u32 rank = m.at.cta_in_cluster;
      if (m.at.thread == 0) {
        m.mbarrier_init(barrier, 1, site("init"));
        m.fence_mbarrier_init(site("fence"));
        m.mbarrier_expect(barrier, 128, true, site("expect"));
      }
      store(m, smem(m, 256 + 4 * m.at.thread), 50 * rank + m.at.thread);
      if (variant != kNoFence) m.fence_proxy_async(site("fence_proxy"));
      cluster_sync(m);
      if (m.at.thread == 0) {
        const u32 other = rank ^ 1;
        const u32 from = smem(m, 256);
        m.bulk_copy_cluster(
            m.map_shared(smem(m, 512), other, site("map")),
            variant == kRemoteSource ? m.map_shared(from, other, site("map")) : from, 128,
            variant == kOwnBarrier ? barrier : m.map_shared(barrier, other, site("map")),
            site("copy_cluster"));
        if (variant == kReuse) store(m, from, 0);
      }
      wait(m, barrier, 0);
      CHECK(load(m, smem(m, 512 + 4 * m.at.thread)) == 50 * (rank ^ 1) + m.at.thread);
      cluster_sync(m);
      store(m, smem(m, 256 + 4 * m.at.thread), 0);
    });
  };
  passes(memory, program(kRight));
  fails(memory, program(kReuse), {"copy_in_flight"}, "copy_cluster");
  fails(memory, program(kOwnBarrier), {"barrier"}, "both must be in one CTA", 2);
  fails(memory, program(kRemoteSource), {"operand"}, "the source is of its own CTA", 2);
  fails(memory, program(kNoFence), {"proxy_fence"}, "st_shared");
}

TEST_CASE("mbarriers of other CTAs: which operations are allowed") {
  Memory memory;
  const auto program = [](bool fenced, std::function<void(Machine&, u32)> body) {
    return pair(32, {}, [=](Machine& m) {
      if (m.at.thread == 0) {
        m.mbarrier_init(smem(m, 0), 1, site("init"));
        if (fenced) m.fence_mbarrier_init(site("fence"));
      }
      cluster_sync(m);
      if (m.at.thread == 0 && m.at.cta_in_cluster == 0) {
        body(m, m.map_shared(smem(m, 0), 1, site("map")));
      }
      cluster_sync(m);
    });
  };
  // Lane 0 acts between the barriers: its warp converges again at the second one.
  passes(memory,
         program(true, ([](Machine& m, u32 b) { m.mbarrier_arrive(b, 1, site("arrive_remote")); })),
         10);
  fails(memory,
        program(false, ([](Machine& m, u32 b) { m.mbarrier_arrive(b, 1, site("arrive_remote")); })),
        {"barrier"}, "from another CTA");
  fails(memory, program(true, ([](Machine& m, u32 b) { m.mbarrier_try_wait(b, 0, site("wait")); })),
        {"operand"}, "own CTA");
  fails(memory, program(true, ([](Machine& m, u32 b) { m.mbarrier_init(b + 8, 1, site("init")); })),
        {"operand"}, "of its own CTA");
}

TEST_CASE("a relaxed cluster barrier orders mbarriers after fence.mbarrier_init") {
  Memory memory;
  enum class Order { kFenceFirst, kFenceAfter, kNoFence };
  const auto program = [](Order order) {
    return pair(32, {}, [=](Machine& m) {
      if (m.at.thread == 0) {
        m.mbarrier_init(smem(m, 0), 1, site("init"));
        if (order == Order::kFenceFirst) m.fence_mbarrier_init(site("fence"));
      }
      m.cluster_arrive(false, site("arrive"));
      if (m.at.thread == 0 && order == Order::kFenceAfter) m.fence_mbarrier_init(site("fence"));
      m.cluster_wait(site("wait"));
      if (m.at.thread == 0) {
        const u32 other = m.map_shared(smem(m, 0), 1 - m.at.cta_in_cluster, site("map"));
        m.mbarrier_arrive(other, 1, site("use"));
      }
      cluster_sync(m);
    });
  };
  passes(memory, program(Order::kFenceFirst), 10);
  fails(memory, program(Order::kFenceAfter), {"barrier"}, "unordered with its initialisation");
  fails(memory, program(Order::kNoFence), {"barrier"}, "unordered with its initialisation");
}
