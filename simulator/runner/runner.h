// SPDX-License-Identifier: Apache-2.0
// The machine: schedules threads, holds their state and implements each instruction. One file per
// group of instructions; each names the rules that it enforces. An instruction returns when it has
// taken effect for the calling thread, blocks that thread, or faults and never returns.
#pragma once

#include <functional>

#include "fmt/format.h"
#include "ir/random/random.h"
#include "simulator/fault.h"
#include "simulator/model/tensor_map.h"
#include "simulator/runner/state.h"

namespace catenary::sim {

class Runner final : public Machine {
 public:
  Runner(Memory& memory, const std::vector<Launch>& launches, const SimulatorOptions& options,
         StackPool& stacks);
  ~Runner();
  Error run(RunStatistics* statistics);

  // runner_global.cpp
  void load_global(void* to, const void* from, u32 bytes, Read read, Site site) override;
  void store_global(void* to, const void* from, u32 bytes, Site site) override;
  void reduce_global(void* to, const void* from, u32 count, Number number, bool release,
                     Site site) override;
  u32 atomic_add_global(void* to, u32 value, Site site) override;
  u32 load_acquire_global(const void* from, Site site) override;
  void store_release_global(void* to, u32 value, Site site) override;

  // runner_shared.cpp
  u32 dynamic_smem() override { return kWindow; }
  void load_shared(void* to, u32 from, u32 bytes, Site site) override;
  void store_shared(u32 to, const void* from, u32 bytes, Site site) override;
  void cp_async(u32 to, const void* from, u32 bytes, u32 valid, Site site) override;
  void cp_async_commit(Site site) override;
  void cp_async_wait(u32 pending, Site site) override;

  // runner_warp.cpp
  void warp_barrier(u32 mask, Site site) override;
  void ldmatrix(u32* to, u32 from, u32 count, bool trans, Site site) override;
  void stmatrix(u32 to, const u32* from, u32 count, bool trans, Site site) override;
  void mma(float* d, const u32* a, const u32* b, Number number, Site site) override;
  u32 shuffle(u32 value, u32 lane, Shuffle kind, u32 mask, Site site) override;
  u32 vote(u32 predicate, Vote kind, u32 mask, Site site) override;
  bool elect(u32 mask, Site site) override;
  void use_register(u32 bits, Site site) override;

  // runner_barrier.cpp
  void barrier(u32 id, u32 threads, bool wait, Site site) override;
  void set_max_registers(u32 count, bool increase, Site site) override;
  void griddepcontrol_wait(Site site) override;
  void griddepcontrol_launch_dependents(Site site) override;
  void fence_proxy_async(Site site) override;
  void fence_gpu(Site site) override;

  // runner_mbarrier.cpp
  void mbarrier_init(u32 barrier, u32 count, Site site) override;
  void mbarrier_invalidate(u32 barrier, Site site) override;
  void mbarrier_arrive(u32 barrier, u32 count, Site site) override;
  void mbarrier_expect(u32 barrier, u32 bytes, bool arrive, Site site) override;
  bool mbarrier_try_wait(u32 barrier, u32 parity, Site site) override;
  void cp_async_arrive(u32 barrier, Site site) override;
  void fence_mbarrier_init(Site site) override;

  // runner_bulk.cpp, runner_tensor.cpp
  void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier, u32 mask, Site site) override;
  void bulk_store(void* to, u32 from, u32 bytes, Site site) override;
  void bulk_reduce(void* to, u32 from, u32 bytes, Number number, Site site) override;
  void bulk_copy_cluster(u32 to, u32 from, u32 bytes, u32 barrier, Site site) override;
  void bulk_prefetch(const void* from, u32 bytes, Site site) override;
  void bulk_commit(Site site) override;
  void bulk_wait(u32 pending, bool read_only, Site site) override;
  void tma_load(u32 to, const void* map, const i32* at, u32 rank, u32 barrier, u32 mask,
                Site site) override;
  void tma_store(const void* map, const i32* at, u32 rank, u32 from, Site site) override;
  void tma_reduce(const void* map, const i32* at, u32 rank, u32 from, Site site) override;
  void tma_prefetch_descriptor(const void* map, Site site) override;

  // runner_wgmma.cpp
  void wgmma_fence(Site site) override;
  void wgmma(float* d, const WgmmaOperands& operands, Site site) override;
  void wgmma_commit(Site site) override;
  void wgmma_wait(u32 pending, Site site) override;

  // runner_cluster.cpp
  u32 map_shared(u32 address, u32 rank, Site site) override;
  void cluster_arrive(bool release, Site site) override;
  void cluster_wait(Site site) override;
  void store_async(u32 to, const void* from, u32 bytes, u32 barrier, Site site) override;

 private:
  // Dynamic shared memory starts after the kilobyte that the system reserves (CUDA programming
  // guide, compute capability 9.0).
  static constexpr u32 kWindow = 1024;

  // A shared-memory address, resolved and checked.
  struct SharedLocation {
    Cta* cta;
    u32 offset;
    u8* bytes;
  };

  // --- runner.cpp: scheduling ---
  Error check_launches() const;
  bool start_clusters();
  bool may_start(const Grid& grid) const;
  void start_cluster(Grid& grid);
  void schedule_next();
  void schedule(Thread& thread);
  Thread* pick();
  void retire(Thread& thread);
  void finish_cta(Cta& cta);
  void report_deadlock();
  static void thread_main(void* argument);
  Stack* take_stack();
  void check_exit(Thread& thread);

 public:
  // --- common to all instructions (runner.cpp, runner_report.cpp) ---
  Thread& self() { return *running_; }
  Grid& grid_of(const Thread& thread) { return *thread.cta->cluster->grid; }
  // Ends the run: names the thread, the line and the rule. Does not return to a fiber; returns only
  // to the scheduler, when it completes an operation and no fiber runs.
  template <typename... Args>
  void fault(FaultKind kind, Site site, fmt::format_string<Args...> format, Args&&... args) {
    fault_text(kind, site, fmt::format(format, std::forward<Args>(args)...));
  }
  void fault_text(FaultKind kind, Site site, std::string sentence);
  // Stops the running thread until wake(); `why` is for the deadlock report.
  void block(Site site, std::string why);
  void wake(Thread& thread);
  void wake_all(std::vector<Thread*>& threads);
  // A preemption point: every instruction that other threads can observe calls it first.
  void preempt() {
    if (--until_preempted_ == 0) yield();
  }
  void yield();
  // "CTA 3, thread 37 (warp 1, lane 5)"
  static std::string name_of(const Thread& thread);
  // "thread 5's cp.async at smem/cp_async_tile.cuh:98"
  std::string describe(const Cluster& cluster, u32 component, u32 site) const;
  u32 site_number(Site site);
  // Uniform in [0, below); below < 2^32.
  u64 random(u64 below) { return (rng_.next() >> 32) * below >> 32; }

  void check_lanes(const Rendezvous& at, const std::bitset<128>& mask, Site site);
  // Blocks until all lanes of the mask have arrived; the last one runs `act`.
  void converge(Rendezvous& at, const std::bitset<128>& mask, Site site, void* payload,
                llvm::function_ref<void(Rendezvous&)> act);
  Rendezvous& warp_of(Thread& thread) { return thread.cta->warps[thread.index / 32]; }
  Rendezvous& warpgroup_of(Thread& thread) { return thread.cta->warpgroups[thread.index / 128]; }

  // --- memory (runner_shared.cpp, runner_global.cpp) ---
  // Resolves a shared address of the running thread. Faults unless it is a multiple of `align` and
  // [address, address + bytes) is inside.
  SharedLocation shared_location(u32 address, u32 bytes, u32 align, Site site);
  // Records an access to shared memory by `component` at `epoch` in the shadow; `thread` is the
  // issuer. Faults on a conflict.
  void shared_read(Thread& thread, const SharedLocation& location, u32 bytes, u32 component,
                   u32 epoch, bool async_proxy, Site site);
  void shared_write(Thread& thread, const SharedLocation& location, u32 bytes, u32 component,
                    u32 epoch, bool async_proxy, Site site);
  void report(Thread& thread, const Cta& cta, const Conflict& conflict, u32 bytes, bool write,
              Site site);
  // Checks and records an access to [address, address + bytes); faults if this launch must not make
  // it now.
  void global_read(Thread& thread, const void* address, u32 bytes, u32 align, Read read, Site site);
  // The write is by `component` at `epoch`, issued by `thread`; atomic writes do not conflict with
  // each other.
  void global_write(Thread& thread, void* address, u32 bytes, u32 align, u32 component, u32 epoch,
                    bool atomic, Site site);
  bool global_ordered(const Thread& thread, const GlobalAccess& other, bool atomic) const;
  std::string describe_global(const GlobalAccess& access) const;
  void release_word(const void* word);
  void acquire_word(const void* word);
  const Region& global_region(Thread& thread, const void* address, u32 bytes, bool write,
                              Site site);

  // --- asynchronous operations (runner_async.cpp) ---
  void issue(Operation operation);
  // Completes one operation of a random thread; false: there is none.
  bool complete_one();
  // Completes the operations of `owner` for which `wanted` is true: wgmmas in issue order, the
  // others in random order.
  void complete_all(Thread& owner, llvm::function_ref<bool(const Operation&)> wanted);
  // Completes an operation that is off its owner's list; a fault then names the owner.
  void complete(const Thread& owner, Operation& operation);
  // To be called after operations were removed.
  void drop_issuer_if_idle(Thread& owner);
  std::vector<Operation> take_spare();
  void give_spare(std::vector<Operation> list);

  // --- mbarriers (runner_mbarrier.cpp) ---
  struct Barrier {
    Cta* cta;
    u32 offset;
    Mbarrier* object;
  };
  // The object at a shared address; `own`: it must be in the thread's own CTA. Faults if there is
  // none, or if its initialisation is not ordered before the running thread.
  Barrier find_mbarrier(u32 address, bool own, Site site);
  // check_published() faults if the initialisation may be invisible to the asynchronous proxy and
  // to other CTAs.
  bool fence_published(const Mbarrier& object);
  void check_published(const Barrier& barrier, Site site);
  void count_arrivals(const Barrier& barrier, u32 count, Site site);
  void complete_phase_if_due(const Barrier& barrier, Site site);
  // An asynchronous write of `bytes` at `location` that completes at `barrier`: checks its order at
  // the issue; at completion runs `write` and counts the bytes.
  void issue_transaction(const SharedLocation& location, u32 bytes, const Barrier& barrier,
                         bool async_proxy, Site site, std::function<void()> write);
  static std::string mbarrier_name(const Barrier& barrier);
  static std::string describe_wait(const Barrier& barrier, const Thread& thread);
  // Fills in waits_for of the threads that wait for an mbarrier of `cta`.
  static void describe_waits(Cta& cta);

  // --- bulk and TMA operations (runner_bulk.cpp, runner_tensor.cpp) ---
  // Completes twice: `read` takes the bytes from shared memory; later `write` puts them into global
  // memory.
  void issue_store(Site site, std::function<std::vector<u8>()> read,
                   std::function<void(const std::vector<u8>&)> write);
  void bulk_write(void* to, u32 from, u32 bytes, bool add, Number number, Site site);
  void check_bulk_size(u32 bytes, Site site);
  // Calls `act` for each CTA of the multicast mask, with the addresses mapped to that CTA.
  void for_each_rank(u32 to, u32 barrier, u32 mask, Site site,
                     const std::function<void(u32 to, u32 barrier)>& act);
  TensorMapSpec read_map(const void* map, const i32* corner, u32 rank, Site site);
  void tensor_write(const void* map, const i32* at, u32 rank, u32 from, bool add, Site site);

  // --- clusters (runner_cluster.cpp) ---
  void complete_cluster_barrier_if_due(Cluster& cluster);

 private:
  Memory& memory_;
  const std::vector<Launch>& launches_;
  SimulatorOptions options_;
  Random rng_;
  std::deque<Grid> grids_;
  std::vector<Thread*> ready_;
  Thread* running_ = nullptr;
  const Thread* completing_ = nullptr;  // whose operation completes now
  std::vector<Thread*> issuers_;        // threads with operations in flight
  StackPool& stacks_;
  std::vector<std::vector<Operation>> spare_;  // empty lists with capacity, for reuse
  bool may_start_more_ = true;                 // a CTA ended or triggered: more may start
  std::vector<Site> sites_;
  std::unordered_map<u64, u32> site_numbers_;
  struct RecentSite {
    Site site = {};
    u32 number = 0;
  };
  std::array<RecentSite, 64> recent_sites_ = {};
  std::unordered_map<u64, std::vector<ClusterStamp>> released_;  // by address of the word
  // Drawn once per run from the seed, so that many seeds cover many kinds of schedule.
  struct ScheduleProfile {
    u32 resident_clusters = 2;
    u32 preempt_interval = 0;         // mean number of instructions between preemptions; 0: none
    u32 completion_interval = 4;      // mean number of switches between completions; 0: only when
                                      // no thread can run
    bool low_priority_warps = false;  // some warps run rarely
  } profile_;
  u64 until_preempted_ = ~u64{0};  // instructions left
  bool faulted_ = false;
  ErrorCode code_ = ErrorCode::kSimulatorFault;
  std::string message_;
  RunStatistics statistics_;
  u64 finished_ctas_ = 0;
  u64 all_ctas_ = 0;
};

}  // namespace catenary::sim
