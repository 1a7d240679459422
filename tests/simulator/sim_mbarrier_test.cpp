// SPDX-License-Identifier: Apache-2.0
// mbarriers in the simulator: a pipeline between a producer and consumers, filled by bulk loads or
// by cp.async, and the same pipeline with one fault.
#include "tests/support/sim_programs.h"

using namespace catenary;
using namespace catenary::sim;
using namespace catenary::testing;

namespace {

constexpr u32 kStages = 2;
constexpr u32 kTiles = 6;
constexpr u32 kTileBytes = 512;  // 16 per consumer
constexpr u32 kFull = 0;
constexpr u32 kEmpty = 8 * kStages;
constexpr u32 kData = 64;
constexpr u32 kSmem = kData + kStages * kTileBytes;

enum class Wrong {
  kNothing,
  kNoInitFence,
  kNoBarrierAfterInit,
  kProducerDoesNotWait,
  kConsumersDoNotWait,
  kConsumersDoNotFlip,
  kProducerDoesNotFlip,
  kFewBytes,
  kManyBytes,
  kTwoCopies,
  kOneLaneDoesNotArrive,
  kLanesArriveTwice,
  kNoWaits,
};

struct Pipeline {
  Region in, out;
  Wrong wrong = Wrong::kNothing;

  void init(Machine& m) const {
    if (m.at.thread == 0) {
      for (u32 s = 0; s < kStages; ++s) {
        m.mbarrier_init(smem(m, kFull + 8 * s), 1, site("init_full"));
        m.mbarrier_init(smem(m, kEmpty + 8 * s), 32, site("init_empty"));
      }
      if (wrong != Wrong::kNoInitFence) m.fence_mbarrier_init(site("fence"));
    }
    if (wrong != Wrong::kNoBarrierAfterInit) sync(m);
  }

  void produce(Machine& m) const {
    for (u32 i = 0; i < kTiles; ++i) {
      const u32 full = smem(m, kFull + 8 * (i % kStages));
      const u32 turn = wrong == Wrong::kProducerDoesNotFlip ? 0 : i / kStages & 1;
      if (wrong != Wrong::kProducerDoesNotWait) {
        wait(m, smem(m, kEmpty + 8 * (i % kStages)), turn ^ 1);
      }
      u32 expected = kTileBytes;
      if (wrong == Wrong::kFewBytes) expected -= 16;
      if (wrong == Wrong::kManyBytes) expected += 16;
      m.mbarrier_expect(full, expected, true, site("expect"));
      const u32 to = smem(m, kData + i % kStages * kTileBytes);
      const u8* from = at(in, i * kTileBytes);
      if (wrong == Wrong::kTwoCopies) {
        m.bulk_load(to, from, kTileBytes / 2, full, 0, site("load"));
        m.bulk_load(to + kTileBytes / 2, from, kTileBytes / 2, full, 0, site("load"));
        m.mbarrier_expect(full, 0, false, site("expect"));
        m.bulk_load(smem(m, kData + (i + 1) % kStages * kTileBytes), from, 16, full, 0,
                    site("load"));
      } else {
        m.bulk_load(to, from, kTileBytes, full, 0, site("load"));
      }
    }
  }

  void consume(Machine& m) const {
    const u32 lane = m.at.thread % 32;
    for (u32 i = 0; i < kTiles; ++i) {
      const u32 turn = wrong == Wrong::kConsumersDoNotFlip ? 0 : i / kStages & 1;
      if (wrong != Wrong::kConsumersDoNotWait) wait(m, smem(m, kFull + 8 * (i % kStages)), turn);
      for (u32 w = 0; w < 4; ++w) {
        const u32 place = kData + i % kStages * kTileBytes + 16 * lane + 4 * w;
        put(m, out, i * kTileBytes / 4 + 4 * lane + w, load(m, smem(m, place)));
      }
      if (wrong == Wrong::kOneLaneDoesNotArrive && lane == 5) continue;
      m.mbarrier_arrive(smem(m, kEmpty + 8 * (i % kStages)),
                        wrong == Wrong::kLanesArriveTwice ? 2 : 1, site("arrive"));
    }
  }

  SimKernel kernel() const {
    SimKernel k{.threads = 64, .smem_bytes = kSmem, .regions = {in, out}};
    k.body = [*this](Machine& m) {
      init(m);
      if (m.at.thread == 0) produce(m);
      if (m.at.thread >= 32 && wrong != Wrong::kNoWaits) consume(m);
    };
    return k;
  }
};

struct PipelineTest {
  Memory memory;
  Pipeline pipeline;
  PipelineTest() {
    pipeline.in = numbered(memory, "x", RegionRole::kInput, kTiles * kTileBytes, 7);
    pipeline.out = buffer(memory, "y", RegionRole::kOutput, kTiles * kTileBytes, false);
  }
  SimKernel with(Wrong wrong) {
    pipeline.wrong = wrong;
    return pipeline.kernel();
  }
};

// One thread of one CTA with an mbarrier at smem+0 for `count` arrivals.
SimKernel alone(u32 count, std::function<void(Machine&, u32)> body, u32 threads = 1) {
  SimKernel k{.threads = threads, .smem_bytes = 1024};
  k.body = [count, body = std::move(body)](Machine& m) {
    const u32 barrier = smem(m, 0);
    if (m.at.thread == 0) {
      m.mbarrier_init(barrier, count, site("init"));
      m.fence_mbarrier_init(site("fence"));
    }
    sync(m);
    body(m, barrier);
  };
  return k;
}

}  // namespace

TEST_CASE("a pipeline of bulk loads delivers every tile, under every seed") {
  PipelineTest test;
  for (u64 seed = 1; seed <= 50; ++seed) {
    std::string message;
    test.memory.mark(at(test.pipeline.out), test.pipeline.out.bytes, false);
    REQUIRE_MESSAGE(fault_of(test.memory, {test.with(Wrong::kNothing)}, seed, &message) == "",
                    message);
    for (i64 i = 0; i < test.pipeline.in.bytes / 4; ++i) {
      REQUIRE(word(test.pipeline.out, i) == word(test.pipeline.in, i));
    }
  }
}

TEST_CASE("the mbarriers of a pipeline need initialisation, a fence and a barrier") {
  PipelineTest test;
  fails(test.memory, test.with(Wrong::kNoInitFence), {"barrier"}, "fence.mbarrier_init");
  // The initialising thread may proceed: the others find no object, or one that is not ordered.
  fails(test.memory, test.with(Wrong::kNoBarrierAfterInit), {"barrier"}, "initialis");
}

TEST_CASE("a pipeline without a wait overwrites or reads stages with loads in flight") {
  PipelineTest test;
  fails(test.memory, test.with(Wrong::kProducerDoesNotWait), {"race", "copy_in_flight", "barrier"});
  fails(test.memory, test.with(Wrong::kConsumersDoNotWait),
        {"unwritten", "copy_in_flight", "barrier"});
  may_fail(test.memory, test.with(Wrong::kNoWaits), "deadlock", "32 arrivals");
}

TEST_CASE("a phase bit that is not flipped is a fault, in producer and consumer") {
  PipelineTest test;
  // A deadlock if the phase of the old phase bit was complete and another one has begun.
  fails(test.memory, test.with(Wrong::kConsumersDoNotFlip), {"phase", "deadlock"}, "flipped");
  fails(test.memory, test.with(Wrong::kProducerDoesNotFlip), {"phase", "deadlock"}, "flipped");
}

TEST_CASE("expected and delivered bytes differ") {
  PipelineTest test;
  fails(test.memory, test.with(Wrong::kFewBytes), {"transaction"},
        "expects 496 bytes, but 512 have been delivered");
  fails(test.memory, test.with(Wrong::kManyBytes), {"deadlock"},
        "512 of 528 expected bytes have arrived");
  fails(test.memory, test.with(Wrong::kTwoCopies), {"transaction", "copy_in_flight"});
}

TEST_CASE("arrivals are counted as declared") {
  PipelineTest test;
  fails(test.memory, test.with(Wrong::kOneLaneDoesNotArrive), {"deadlock"},
        "31 of 32 arrivals are in");
  fails(test.memory, test.with(Wrong::kLanesArriveTwice),
        {"barrier", "race", "phase", "copy_in_flight"});
}

TEST_CASE("more bytes are loaded than expected: the phase completes without the rest") {
  Memory memory;
  const Region x = numbered(memory, "x", RegionRole::kInput, 64);
  SimKernel k = alone(1, [=](Machine& m, u32 barrier) {
    m.mbarrier_expect(barrier, 32, true, site("expect"));
    m.bulk_load(smem(m, 64), at(x), 32, barrier, 0, site("load"));
    m.bulk_load(smem(m, 128), at(x), 32, barrier, 0, site("load"));
    wait(m, barrier, 0);
  });
  k.regions = {x};
  // The second load counts for this phase, or for the next one if the first is already complete.
  may_fail(memory, k, "transaction", "64 bytes were issued");
}

TEST_CASE("an mbarrier that is not initialised, or initialised twice") {
  Memory memory;
  SimKernel k{.threads = 1, .smem_bytes = 64};
  k.body = [](Machine& m) { m.mbarrier_arrive(smem(m, 0), 1, site("arrive")); };
  fails(memory, k, {"barrier"}, "mbarrier smem+0x0, which is not initialised", 1);
  k.body = [](Machine& m) { m.mbarrier_init(smem(m, 4), 1, site("init")); };
  fails(memory, k, {"misaligned"}, "", 1);
  k.body = [](Machine& m) { m.mbarrier_init(smem(m, 64), 1, site("init")); };
  fails(memory, k, {"out_of_bounds"}, "", 1);
  for (const u32 count : {0u, 1u << 20}) {
    k.body = [count](Machine& m) { m.mbarrier_init(smem(m, 0), count, site("init")); };
    fails(memory, k, {"barrier"}, std::to_string(count) + " arrivals", 1);
  }
  k.body = [](Machine& m) {
    m.mbarrier_init(smem(m, 0), (1u << 20) - 1, site("init"));
    m.mbarrier_init(smem(m, 0), 1, site("init"));
  };
  fails(memory, k, {"barrier"}, "must be invalidated first", 1);
  k.body = [](Machine& m) {
    m.mbarrier_init(smem(m, 0), 1, site("init"));
    store(m, smem(m, 4), 0);
  };
  fails(memory, k, {"barrier"}, "which is an mbarrier", 1);
}

TEST_CASE("an invalidated mbarrier is unwritten memory again, and may be initialised again") {
  Memory memory;
  passes(memory, alone(1, [](Machine& m, u32 barrier) {
           m.mbarrier_arrive(barrier, 1, site("arrive"));
           wait(m, barrier, 0);
           m.mbarrier_invalidate(barrier, site("inval"));
           store(m, barrier, 3);
           CHECK(load(m, barrier) == 3);
           m.mbarrier_init(barrier, 1, site("init"));
           m.mbarrier_arrive(barrier, 1, site("arrive"));
           wait(m, barrier, 0);
         }));
  fails(memory,
        alone(1,
              [](Machine& m, u32 barrier) {
                m.mbarrier_invalidate(barrier, site("inval"));
                m.mbarrier_arrive(barrier, 1, site("arrive"));
              }),
        {"barrier"}, "not initialised", 1);
  fails(memory,
        alone(1,
              [](Machine& m, u32 barrier) {
                m.mbarrier_invalidate(barrier, site("inval"));
                load(m, barrier);
              }),
        {"unwritten"}, "", 1);
  const Region x = numbered(memory, "x", RegionRole::kInput, 64);
  SimKernel k = alone(1, [=](Machine& m, u32 barrier) {
    m.mbarrier_expect(barrier, 64, true, site("expect"));
    m.bulk_load(smem(m, 64), at(x), 64, barrier, 0, site("load"));
    m.mbarrier_invalidate(barrier, site("inval"));
  });
  k.regions = {x};
  may_fail(memory, k, "barrier", "operations that complete at it are in flight");
}

TEST_CASE("operands and counts of an mbarrier's instructions") {
  Memory memory;
  fails(memory, alone(1, [](Machine& m, u32 b) { m.mbarrier_try_wait(b, 2, site("wait")); }),
        {"operand"}, "phase bit 2", 1);
  fails(memory, alone(2, [](Machine& m, u32 b) { m.mbarrier_arrive(b, 3, site("arrive")); }),
        {"barrier"}, "arrives 3 times", 1);
  fails(memory, alone(2, [](Machine& m, u32 b) { m.mbarrier_arrive(b, 0, site("arrive")); }),
        {"barrier"}, "arrives 0 times", 1);
  fails(memory,
        alone(2,
              [](Machine& m, u32 b) {
                m.mbarrier_expect(b, (1 << 20) - 1, false, site("expect"));
                m.mbarrier_expect(b, 1, true, site("expect"));
              }),
        {"transaction"}, "the largest is 1048575", 1);
}

TEST_CASE("a waiting thread observes the end of its phase before the next one completes") {
  Memory memory;
  // Thread 32 arrives twice; the schedule decides what thread 0 does in between.
  const SimKernel k = alone(
      1,
      [](Machine& m, u32 b) {
        if (m.at.thread == 0) wait(m, b, 0);
        if (m.at.thread == 32) {
          m.mbarrier_arrive(b, 1, site("arrive"));
          m.mbarrier_arrive(b, 1, site("arrive"));
        }
      },
      64);
  std::set<std::string> seen;
  for (u64 seed = 1; seed <= 40; ++seed) {
    std::string message;
    const std::string name = fault_of(memory, {k}, seed, &message);
    if (name == "phase") CHECK_MESSAGE(message.find("a phase ahead") != std::string::npos, message);
    seen.insert(name);
  }
  CHECK(seen.count("phase") == 1);
  CHECK(seen.count("deadlock") ==
        1);  // it waited after both had completed: phase bit 0 is also that of phase 2
  for (const std::string& name : seen) {
    CHECK((name == "" || name == "phase" || name == "deadlock"));
  }
}

TEST_CASE("a wait for a phase that never completes is a deadlock, spinning or not") {
  Memory memory;
  fails(memory,
        alone(
            2,
            [](Machine& m, u32 b) {
              if (m.at.thread == 3) m.mbarrier_arrive(b, 1, site("arrive"));
              wait(m, b, 0);
            },
            32),
        {"deadlock"}, "phase 0 (phase bit 0) of mbarrier smem+0x0: 1 of 2 arrivals are in");
}

TEST_CASE("arrivals release and waits acquire") {
  Memory memory;
  for (const bool waits : {true, false}) {
    const SimKernel k = alone(
        32,
        [waits](Machine& m, u32 b) {
          store(m, smem(m, 64 + 4 * m.at.thread), m.at.thread);
          m.mbarrier_arrive(b, 1, site("arrive"));
          if (waits) wait(m, b, 0);
          load(m, smem(m, 64 + 4 * (m.at.thread ^ 1)));
        },
        32);
    if (waits) {
      passes(memory, k);
    } else {
      fails(memory, k, {"race", "unwritten"});
    }
  }
}

TEST_CASE("cp.async arrives at an mbarrier when it is complete") {
  Memory memory;
  const Region x = numbered(memory, "x", RegionRole::kInput, 4 * 512, 1);
  const Region y = buffer(memory, "y", RegionRole::kOutput, 4 * 512, false);
  for (const bool waits : {true, false}) {
    SimKernel k{.threads = 64, .smem_bytes = 1024 + 512, .regions = {x, y}};
    k.body = [=](Machine& m) {
      const u32 full = smem(m, 0);
      const u32 empty = smem(m, 8);
      if (m.at.thread == 0) {
        m.mbarrier_init(full, 32, site("init"));
        m.mbarrier_init(empty, 32, site("init"));
      }
      sync(m);
      const u32 place = smem(m, 1024 + 16 * (m.at.thread % 32));
      for (u32 i = 0; i < 4; ++i) {
        const i64 offset = i * 512 + 16 * (m.at.thread % 32);
        if (m.at.thread < 32) {
          wait(m, empty, (i & 1) ^ 1);
          m.cp_async(place, at(x, offset), 16, 16, site("cp_async"));
          m.cp_async_arrive(full, site("cp_async_arrive"));
        } else {
          if (waits) wait(m, full, i & 1);
          for (u32 w = 0; w < 4; ++w) put(m, y, offset / 4 + w, load(m, place + 4 * w));
          m.mbarrier_arrive(empty, 1, site("arrive"));
        }
      }
    };
    if (!waits) {
      fails(memory, k, {"copy_in_flight", "unwritten", "race", "barrier"});
      continue;
    }
    passes(memory, k);
    for (i64 i = 0; i < 512; ++i) CHECK(word(y, i) == word(x, i));
  }
}

TEST_CASE("before the phase completes, cp.async is not ordered before its own thread either") {
  Memory memory;
  const Region x = numbered(memory, "x", RegionRole::kInput, 16);
  SimKernel k = alone(1, [=](Machine& m, u32 b) {
    m.cp_async(smem(m, 64), at(x), 16, 16, site("cp_async"));
    m.cp_async_arrive(b, site("cp_async_arrive"));
    load(m, smem(m, 64));
  });
  k.regions = {x};
  fails(memory, k, {"copy_in_flight"});
  k = alone(1, [=](Machine& m, u32 b) {
    m.cp_async(smem(m, 64), at(x), 16, 16, site("cp_async"));
    m.cp_async_arrive(b, site("cp_async_arrive"));
    m.cp_async(smem(m, 80), at(x), 16, 16, site("cp_async"));
    wait(m, b, 0);
    load(m, smem(m, 64));
    m.cp_async_commit(site("commit"));
    m.cp_async_wait(0, site("wait"));
    load(m, smem(m, 80));
  });
  k.regions = {x};
  passes(memory, k);
}
