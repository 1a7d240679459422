// SPDX-License-Identifier: Apache-2.0
// The state of a run: grids, clusters, CTAs, threads and what they wait for. The rules are in
// runner*.cpp.
#pragma once

#include <array>
#include <bitset>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "llvm/ADT/FunctionExtras.h"
#include "simulator/fiber.h"
#include "simulator/order/clock.h"
#include "simulator/order/shadow.h"
#include "simulator/runner/slots.h"
#include "simulator/runner/wgmma_state.h"
#include "simulator/simulator.h"

namespace catenary::sim {

struct Thread;
struct Cta;
struct Cluster;
struct Grid;

// An asynchronous operation in flight: issued and not complete.
struct Operation {
  enum class Kind : u8 { kCpAsync, kBulkLoad, kBulkStore, kWgmma };
  Kind kind = Kind::kCpAsync;
  Thread* owner = nullptr;
  u32 group = 0;          // of its owner and kind; groups count from 1
  Cta* target = nullptr;  // whose shared memory it writes, if any
  Site site = {};
  llvm::unique_function<void()> complete;  // its effect
  bool reads = false;                      // kBulkStore: shared memory has not been read yet
};

// Groups of one thread's asynchronous operations of one kind.
struct Groups {
  u32 open = 1;                 // the group that the next operation joins
  u32 done = 0;                 // groups up to this one have been waited for
  std::vector<u32> operations;  // by group number - 1: how many it has
  void add() {
    if (operations.size() < open) operations.resize(open, 0);
    ++operations[open - 1];
  }
  // The first group with operations that was not waited for; 0: none.
  u32 unfinished() const {
    for (u32 g = done; g < operations.size(); ++g) {
      if (operations[g] != 0) return g + 1;
    }
    return 0;
  }
};

// The lanes of a warp or a warpgroup that execute one instruction together. The last one to arrive
// acts for all of them, on what each has put at `payload`.
struct Rendezvous {
  u32 first = 0;  // thread of the CTA
  u32 lanes = 32;
  bool open = false;
  Site site = {};
  std::bitset<128> mask = {};  // lanes that take part
  std::bitset<128> arrived = {};
  std::array<void*, 128> payload = {};
};

enum class Progress : u8 { kReady, kBlocked, kDone };

struct Thread {
  Fiber fiber;
  Stack* stack = nullptr;
  u32 index = 0;   // in its CTA
  u32 number = 0;  // in its cluster: also its component
  Cta* cta = nullptr;
  Clock clock;
  Progress progress = Progress::kReady;
  size_t ready_index = 0;  // among the ready threads
  Site waits_at = {};      // of the instruction it is blocked in
  std::string waits_for;   // for the deadlock report
  Groups cp_async;
  Groups bulk;
  u32 bulk_reads_done = 0;
  Groups wgmma;
  // Only in a warpgroup's first thread, from its first wgmma.fence on.
  std::unique_ptr<WarpgroupState> warpgroup;
  u32 priority = 0;  // 0 or 1 (runs rarely); the scheduler's
  // In flight: in any order, and wgmmas in the order of their issue, which is that of completion.
  std::vector<Operation> operations;
  std::vector<Operation> wgmmas;
  size_t issuer_index = 0;  // among the threads with operations in flight
  // By component of an mbarrier: how many of its phases were complete at this thread's last
  // successful wait.
  std::unordered_map<u32, u32> phases_seen;
  Thread(const Components& components, u32 number, StampPtr base)
      : number(number), clock(components, number, std::move(base)) {}
};

// One of the 16 barriers of a CTA.
struct NamedBarrier {
  u32 expected = 0;  // threads; 0: none has arrived
  u32 arrived = 0;
  std::bitset<1024> threads = {};  // that have arrived
  Site site = {};
  BarrierPhase open_phase;
  std::vector<Thread*> waiting;
};

// A thread that has waited for `phase` and has not observed its end yet.
struct MbarrierWaiter {
  Thread* thread;
  u32 phase;
};

// An mbarrier object in shared memory (PTX ISA 9.7.13.15).
struct Mbarrier {
  u32 component = 0;  // epoch p + 1: the transactions of phase p
  u32 count = 0;      // arrivals of a phase
  u32 pending = 0;
  i64 transactions = 0;  // tx-count: bytes expected and not delivered; negative: delivered early
  i64 expected = 0;      // bytes, by all expect-tx of the current phase
  i64 issued = 0;        // bytes of the operations issued for the current phase
  u32 asynchronous = 0;  // arrivals of cp.async in flight
  u32 phase = 0;         // the current (incomplete) phase
  Thread* initialised_by = nullptr;
  u32 initialised_epoch = 0;
  u32 published_epoch = 0;  // of its fence.mbarrier_init; 0: none yet
  u32 published_phase = 0;  // the phase of the cluster barrier that this thread arrives at next
  Site site = {};
  BarrierPhase open_phase;
  StampPtr last;  // of the previous phase
  std::vector<MbarrierWaiter> waiting;
};

struct Cta {
  Cluster* cluster = nullptr;
  u32 index = 0;  // in the grid
  u32 rank = 0;   // in the cluster
  std::vector<u8> smem;
  Shadow shadow;
  Slots<Thread> threads;
  std::vector<Rendezvous> warps;
  std::vector<Rendezvous> warpgroups;
  std::array<NamedBarrier, 16> barriers;
  std::unordered_map<u32, Mbarrier> mbarriers;  // by offset
  std::vector<u32> registers;  // per thread, by warpgroup; empty before the first setmaxnreg
  std::vector<Thread*> waiting_for_registers;
  u32 live = 0;            // threads that have not exited
  bool triggered = false;  // griddepcontrol.launch_dependents
  Cta(u32 smem_bytes, u32 num_threads)
      : smem(smem_bytes), shadow(smem_bytes), threads(num_threads) {}
};

struct Cluster {
  Grid* grid = nullptr;
  u32 index = 0;  // in the grid
  Components components;
  std::deque<Cta> ctas;
  u32 live = 0;  // CTAs that have not exited
  // barrier.cluster: arrivals of the current phase.
  u32 arrived = 0;
  u32 phase = 0;  // complete phases
  BarrierPhase open_phase;
  StampPtr last;
  std::vector<u32> arrivals;  // by thread number: how often it has arrived
  std::vector<u32> waits;     // and waited
  std::vector<Thread*> waiting;
  explicit Cluster(u32 threads) : components(threads), arrivals(threads), waits(threads) {}
};

struct Grid {
  const Launch* launch = nullptr;
  u32 number = 0;  // counted from 1
  u32 next_cta = 0;
  u32 triggered = 0;                              // CTAs that have triggered or exited
  u32 finished = 0;                               // CTAs
  std::deque<std::unique_ptr<Cluster>> clusters;  // resident
  std::vector<Thread*> waiting;                   // in griddepcontrol.wait
  bool started() const { return next_cta == launch->ctas; }
  bool complete() const { return finished == launch->ctas; }
};

}  // namespace catenary::sim
