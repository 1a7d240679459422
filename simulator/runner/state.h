// SPDX-License-Identifier: Apache-2.0
// What exists while kernels run: grids, clusters, CTAs, threads and what they wait for. Plain
// state; the rules are in runner*.cpp.
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

// An asynchronous operation that has been issued and not landed.
struct Operation {
  enum class Kind : u8 { kCopy, kBulkLoad, kBulkStore, kWgmma };
  Kind kind = Kind::kCopy;
  Thread* owner = nullptr;
  u32 group = 0;          // of the owner and kind; groups count from 1
  Cta* target = nullptr;  // whose shared memory it writes, if any
  Site site = {};
  llvm::unique_function<void()> land;  // the effect
  bool reads = false;                  // kBulkStore: has yet to read shared memory
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
  // A group that has operations and was not waited for; 0: none.
  u32 unfinished() const {
    for (u32 g = done; g < operations.size(); ++g) {
      if (operations[g] != 0) return g + 1;
    }
    return 0;
  }
};

// Lanes that execute one instruction together: a warp or a warpgroup. The last one to arrive acts
// for all, on what each left at `payload`.
struct Rendezvous {
  u32 first = 0;  // thread of the CTA
  u32 lanes = 32;
  bool open = false;
  Site site = {};
  std::bitset<128> mask = {};  // who takes part
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
  size_t ready_at = 0;    // index among the ready threads
  Site waits_at = {};     // of the instruction it is blocked in
  std::string waits_for;  // for the report of a deadlock
  Groups copies;
  Groups bulk;
  u32 bulk_reads_done = 0;
  Groups wgmma;
  // Of a warpgroup's first thread alone, from the first wgmma.fence on.
  std::unique_ptr<WarpgroupState> warpgroup;
  u32 priority = 0;  // the scheduler's
  // Issued and not landed: in no order, and products in the order in which they land.
  std::vector<Operation> operations;
  std::vector<Operation> products;
  size_t issuer_at = 0;  // index among the threads that have such
  // By component of an mbarrier: how many of its phases were complete when this thread last saw
  // one.
  std::unordered_map<u32, u32> phases_seen;
  Thread(const Components& components, u32 number, StampPtr base)
      : number(number), clock(components, number, std::move(base)) {}
};

// One of the 16 barriers of a CTA.
struct NamedBarrier {
  u32 expected = 0;  // threads; 0: nobody has arrived
  u32 arrived = 0;
  std::bitset<1024> threads = {};  // that have arrived
  Site site = {};
  Meeting meeting;
  std::vector<Thread*> waiting;
};

// A thread that has asked for the end of `phase` and not seen it.
struct MbarrierWaiter {
  Thread* thread;
  u32 phase;
};

// An mbarrier object in shared memory (PTX ISA 9.7.13.15).
struct Mbarrier {
  u32 component = 0;  // epoch p + 1: the transactions of phase p
  u32 count = 0;      // arrivals of a phase
  u32 pending = 0;
  i64 transactions = 0;  // bytes expected and not delivered, or less than 0
  i64 expected = 0;      // bytes, of the incomplete phase in all
  i64 issued = 0;        // bytes of the copies that were issued for it
  u32 asynchronous = 0;  // arrivals of cp.async that are on their way
  u32 phase = 0;         // that is incomplete now
  Thread* initialised_by = nullptr;
  u32 initialised_epoch = 0;
  u32 published_epoch = 0;  // of its fence.mbarrier_init; 0: none yet
  u32 published_phase = 0;  // of the cluster's barrier: at which that thread arrives next
  Site site = {};
  Meeting meeting;  // of the incomplete phase
  StampPtr last;    // of the phase before
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
  // barrier.cluster: arrivals of the phase that is open.
  u32 arrived = 0;
  u32 phase = 0;  // phases that are complete
  Meeting meeting;
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
