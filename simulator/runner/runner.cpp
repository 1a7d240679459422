// SPDX-License-Identifier: Apache-2.0
// Scheduling: which grid may start, which thread runs next, when an asynchronous operation
// completes. All choices come from one seeded generator.
#include "simulator/runner/runner.h"

#include <algorithm>
#include <cstring>

namespace catenary::sim {
namespace {

constexpr u32 kPoison = 0xff;
constexpr u32 kMaxThreads = 1024;
constexpr u32 kMaxSharedBytes = 227 << 10;  // sm_90: CUDA programming guide, compute capabilities
constexpr u32 kMaxClusterCtas = 16;

// The runner whose fibers this host thread runs.
thread_local Runner* active = nullptr;

bool same_site(const Site& a, const Site& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0) &&
         std::strcmp(a.op, b.op) == 0;
}

}  // namespace

Runner::Runner(Memory& memory, const std::vector<Launch>& launches, const SimulatorOptions& options,
               StackPool& stacks)
    : memory_(memory), launches_(launches), options_(options), rng_(options.seed), stacks_(stacks) {
  profile_.resident_clusters = options.resident_clusters > 0
                                   ? static_cast<u32>(options.resident_clusters)
                                   : 1 + static_cast<u32>(random(4));
  constexpr u32 kPreempt[] = {0, 1024, 64, 8};
  profile_.preempt_interval = kPreempt[random(4)];
  if (profile_.preempt_interval != 0)
    until_preempted_ = 1 + random(2 * profile_.preempt_interval - 1);
  constexpr u32 kCompletion[] = {1, 4, 64, 0};
  profile_.completion_interval = kCompletion[random(4)];
  profile_.low_priority_warps = random(2) == 0;
  sites_.push_back({"", 0, ""});
  u32 number = 0;
  for (const Launch& launch : launches) {
    Grid& grid = grids_.emplace_back();
    grid.launch = &launch;
    grid.number = ++number;
    all_ctas_ += launch.ctas;
  }
}

Runner::~Runner() = default;

Error Runner::check_launches() const {
  for (const Launch& launch : launches_) {
    const u32 cluster = launch.cluster_ctas;
    if (launch.threads == 0 || launch.threads > kMaxThreads ||
        launch.smem_bytes > kMaxSharedBytes || cluster == 0 || cluster > kMaxClusterCtas ||
        launch.ctas % cluster != 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        "kernel {} is launched with {} threads, {} bytes of shared memory and {} "
                        "CTAs in clusters of {}: a launch takes 1 to {} threads, at most {} bytes "
                        "and whole clusters of at most {} CTAs",
                        launch.kernel, launch.threads, launch.smem_bytes, launch.ctas, cluster,
                        kMaxThreads, kMaxSharedBytes, kMaxClusterCtas);
    }
  }
  return Error::success();
}

Error Runner::run(RunStatistics* statistics) {
  if (Error error = check_launches()) return error;
  active = this;
  memory_.forget_accesses();
  for (const Launch& launch : launches_) launch.object->bind()(this);
  while (!faulted_) {
    if (may_start_more_ && !start_clusters()) break;
    schedule_next();
  }
  active = nullptr;
  if (statistics != nullptr) *statistics = statistics_;
  if (!faulted_) return Error::success();
  return make_error_text(code_, message_);
}

// Starts as many clusters as may run. False: all grids are complete, or host memory ran out.
bool Runner::start_clusters() {
  may_start_more_ = false;
  size_t resident = 0;
  bool left = false;
  for (Grid& grid : grids_) {
    resident += grid.clusters.size();
    left |= !grid.complete();
  }
  for (Grid& grid : grids_) {
    if (grid.started()) continue;
    while (resident < profile_.resident_clusters && !grid.started() && may_start(grid)) {
      start_cluster(grid);
      ++resident;
      if (faulted_) return false;
    }
    break;  // a grid starts after all CTAs of the previous one have started
  }
  return left;
}

bool Runner::may_start(const Grid& grid) const {
  if (grid.number == 1) return true;
  const Grid& before = grids_[grid.number - 2];
  if (!grid.launch->overlap) {
    return std::all_of(grids_.begin(), grids_.begin() + (grid.number - 1),
                       [](const Grid& g) { return g.complete(); });
  }
  return before.started() && before.triggered == before.launch->ctas;
}

void Runner::start_cluster(Grid& grid) {
  const Launch& launch = *grid.launch;
  grid.clusters.push_back(std::make_unique<Cluster>(launch.threads * launch.cluster_ctas));
  Cluster& cluster = *grid.clusters.back();
  cluster.grid = &grid;
  cluster.index = grid.next_cta / launch.cluster_ctas;
  cluster.live = launch.cluster_ctas;
  auto base = std::make_shared<Stamp>();
  for (u32 rank = 0; rank < launch.cluster_ctas; ++rank) {
    Cta& cta = cluster.ctas.emplace_back(launch.smem_bytes, launch.threads);
    cta.cluster = &cluster;
    cta.rank = rank;
    cta.index = grid.next_cta++;
    cta.live = launch.threads;
    std::fill(cta.smem.begin(), cta.smem.end(), static_cast<u8>(kPoison));
    for (u32 first = 0; first < launch.threads; first += 32) {
      cta.warps.push_back({first, std::min<u32>(32, launch.threads - first)});
    }
    for (u32 first = 0; first + 128 <= launch.threads; first += 128) {
      cta.warpgroups.push_back({first, 128});
    }
    u32 priority = 0;
    for (u32 t = 0; t < launch.threads; ++t) {
      Thread& thread =
          cta.threads.emplace_back(cluster.components, rank * launch.threads + t, base);
      thread.index = t;
      thread.cta = &cta;
      if (t % 32 == 0)
        priority = profile_.low_priority_warps ? static_cast<u32>(random(3) == 0) : 0;
      thread.priority = priority;
      Stack* stack = take_stack();
      if (stack == nullptr) return;
      thread.stack = stack;
      thread.fiber.start(*stack, &thread_main, &thread);
      thread.ready_index = ready_.size();
      ready_.push_back(&thread);
    }
  }
  statistics_.ctas += launch.cluster_ctas;
}

Stack* Runner::take_stack() {
  if (Stack* stack = stacks_.take()) return stack;
  faulted_ = true;
  code_ = ErrorCode::kOutOfMemory;
  message_ = fmt::format(
      "the simulator has no memory for another stack after {} threads: simulate a smaller kernel",
      stacks_.size());
  return nullptr;
}

void Runner::schedule_next() {
  if (ready_.empty()) {
    if (!complete_one()) report_deadlock();
    return;
  }
  if (profile_.completion_interval != 0 && !issuers_.empty() &&
      random(profile_.completion_interval) == 0) {
    complete_one();
    if (faulted_) return;
  }
  schedule(*pick());
}

Thread* Runner::pick() {
  size_t at = random(ready_.size());
  // A low-priority warp runs only if several draws in a row give one.
  for (int i = 0; i < 6 && ready_[at]->priority != 0; ++i) at = random(ready_.size());
  Thread* thread = ready_[at];
  ready_[at] = ready_.back();
  ready_[at]->ready_index = at;
  ready_.pop_back();
  return thread;
}

void Runner::schedule(Thread& thread) {
  const Cta& cta = *thread.cta;
  const Launch& launch = *cta.cluster->grid->launch;
  at = {thread.index, launch.threads, cta.index, launch.ctas, cta.rank, launch.cluster_ctas};
  running_ = &thread;
  ++statistics_.switches;
  thread.fiber.enter();
  running_ = nullptr;
  if (faulted_) return;
  if (thread.progress == Progress::kReady) {
    thread.ready_index = ready_.size();
    ready_.push_back(&thread);
  } else if (thread.progress == Progress::kDone) {
    retire(thread);
  }
}

void Runner::thread_main(void* argument) {
  Thread& thread = *static_cast<Thread*>(argument);
  Runner& runner = *active;
  const Launch& launch = *runner.grid_of(thread).launch;
  launch.object->call()(launch.parameters.data());
  runner.check_exit(thread);
  thread.progress = Progress::kDone;
}

// What must be complete when a thread exits. Runs on the thread's fiber, so that a fault names it.
void Runner::check_exit(Thread& thread) {
  const Site exit = {"", 0, "exit"};
  if (const u32 group = thread.cp_async.unfinished()) {
    fault(FaultKind::kOutstanding, exit, "exits while cp.async group {} is outstanding", group);
  }
  for (u32 g = thread.bulk_reads_done; g < thread.bulk.operations.size(); ++g) {
    if (thread.bulk.operations[g] != 0) {
      fault(FaultKind::kOutstanding, exit, "exits while bulk group {} still reads shared memory",
            g + 1);
    }
  }
  if (const u32 group = thread.wgmma.unfinished()) {
    fault(FaultKind::kOutstanding, exit, "exits while wgmma group {} is outstanding", group);
  }
  if (!thread.clock.dependency_waited()) {
    fault(FaultKind::kNoDependencyWait, exit,
          "exits without griddepcontrol.wait: the next kernel could start before the previous one "
          "has ended");
  }
  const auto leaves = [&](Rendezvous& lanes, const char* what) {
    const u32 lane = thread.index - lanes.first;
    if (lanes.open && lanes.mask.test(lane)) {
      fault(FaultKind::kDivergence, exit, "exits while other lanes of its {} wait in {} at {}:{}",
            what, lanes.site.op, lanes.site.file, lanes.site.line);
    }
  };
  leaves(warp_of(thread), "warp");
  if (thread.index / 128 < thread.cta->warpgroups.size()) leaves(warpgroup_of(thread), "warpgroup");
  for (u32 id = 0; id < thread.cta->barriers.size(); ++id) {
    const NamedBarrier& barrier = thread.cta->barriers[id];
    if (barrier.arrived != 0 && barrier.expected == grid_of(thread).launch->threads &&
        !barrier.threads.test(thread.index)) {
      fault(FaultKind::kBarrier, exit,
            "exits while {} threads wait for all {} of the CTA in barrier {} at {}:{}",
            barrier.arrived, barrier.expected, id, barrier.site.file, barrier.site.line);
    }
  }
}

void Runner::retire(Thread& thread) {
  stacks_.give(*thread.stack);
  thread.stack = nullptr;
  if (thread.operations.capacity() != 0 && thread.operations.empty()) {
    give_spare(std::move(thread.operations));
  }
  Cta& cta = *thread.cta;
  --cta.live;
  complete_cluster_barrier_if_due(*cta.cluster);
  if (cta.live == 0) finish_cta(cta);
}

void Runner::finish_cta(Cta& cta) {
  Cluster& cluster = *cta.cluster;
  Grid& grid = *cluster.grid;
  for (const Thread* issuer : issuers_) {
    for (const Operation& operation : issuer->operations) {
      if (operation.target != &cta) continue;
      completing_ = issuer;
      fault(FaultKind::kOutstanding, operation.site,
            "has not completed in the shared memory of CTA {}, which exits", cta.index);
      return;
    }
  }
  // The operations that are left only write global memory: they complete with the CTA.
  for (Thread& thread : cta.threads) complete_all(thread, [](const Operation&) { return true; });
  if (faulted_) return;
  if (!cta.triggered) ++grid.triggered;
  cta.triggered = true;
  ++grid.finished;
  if (options_.progress) options_.progress(++finished_ctas_, all_ctas_);
  if (grid.complete() && grid.number < grids_.size()) wake_all(grids_[grid.number].waiting);
  may_start_more_ = true;
  if (--cluster.live == 0) {
    std::erase_if(grid.clusters, [&](const auto& c) { return c.get() == &cluster; });
  }
}

void Runner::block(Site site, std::string why) {
  Thread& thread = self();
  thread.progress = Progress::kBlocked;
  thread.waits_at = site;
  thread.waits_for = std::move(why);
  thread.fiber.leave();
}

void Runner::wake(Thread& thread) {
  if (thread.progress != Progress::kBlocked) return;
  thread.progress = Progress::kReady;
  thread.waits_for.clear();
  thread.ready_index = ready_.size();
  ready_.push_back(&thread);
}

void Runner::wake_all(std::vector<Thread*>& threads) {
  for (Thread* thread : threads) wake(*thread);
  threads.clear();
}

void Runner::yield() {
  until_preempted_ = 1 + random(2 * profile_.preempt_interval - 1);
  self().fiber.leave();
}

// Faults unless all lanes of the mask exist and have not exited.
void Runner::check_lanes(const Rendezvous& at, const std::bitset<128>& mask, Site site) {
  const Cta& cta = *self().cta;
  const bool all_live = cta.live == cta.threads.size();
  if (all_live && (mask >> at.lanes).none()) return;
  for (u32 l = 0; l < mask.size(); ++l) {
    if (!mask.test(l)) continue;
    if (l >= at.lanes || cta.threads[at.first + l].progress == Progress::kDone) {
      fault(FaultKind::kDivergence, site, "executes {} with lane {}, which {}", site.op, l,
            l >= at.lanes ? "does not exist" : "has exited");
    }
  }
}

void Runner::converge(Rendezvous& at, const std::bitset<128>& mask, Site site, void* payload,
                      llvm::function_ref<void(Rendezvous&)> act) {
  Thread& me = self();
  Cta& cta = *me.cta;
  const u32 lane = me.index - at.first;
  if (!mask.test(lane)) {
    fault(FaultKind::kDivergence, site, "executes {} with a mask without its own lane", site.op);
  }
  if (!at.open) {
    at.open = true;
    at.site = site;
    at.mask = mask;
    at.arrived.reset();
    check_lanes(at, mask, site);
  } else if (!same_site(at.site, site) || at.mask != mask) {
    fault(FaultKind::kDivergence, site,
          "executes {} while other lanes wait for it in {} at {}:{}{}", site.op, at.site.op,
          at.site.file, at.site.line, at.mask != mask ? " with another mask" : "");
  }
  at.arrived.set(lane);
  at.payload[lane] = payload;
  if (at.arrived != at.mask) {
    block(site, "the other lanes");
    return;
  }
  act(at);
  at.open = false;
  for (u32 l = 0; l < at.lanes; ++l) {
    if (at.mask.test(l) && l != lane) wake(cta.threads[at.first + l]);
  }
}

}  // namespace catenary::sim
