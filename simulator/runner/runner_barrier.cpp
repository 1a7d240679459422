// SPDX-License-Identifier: Apache-2.0
// Barriers of a CTA (PTX ISA 9.7.13.1 and 9.7.13.2), setmaxnreg (9.7.17.5), griddepcontrol
// (9.7.13.13) and fences.
#include <algorithm>

#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

constexpr u32 kRegisterFile = 64 << 10;  // registers of an SM, in units of 32 bits

}  // namespace

void Runner::barrier(u32 id, u32 threads, bool wait, Site site) {
  preempt();
  Thread& thread = self();
  Cta& cta = *thread.cta;
  const u32 all = grid_of(thread).launch->threads;
  const u32 expected = threads == 0 ? all : threads;
  if (id >= cta.barriers.size() || expected % 32 != 0 || expected > (all + 31) / 32 * 32) {
    if (!(threads == 0 && id < cta.barriers.size())) {
      fault(
          FaultKind::kBarrier, site,
          "uses barrier {} for {} threads: ids are 0 to 15, and counts whole warps of the CTA's {}",
          id, expected, all);
    }
  }
  if (threads == 0 && cta.live != all) {
    fault(FaultKind::kBarrier, site, "waits for all {} threads of the CTA, and {} have exited", all,
          all - cta.live);
  }
  NamedBarrier& barrier = cta.barriers[id];
  if (barrier.arrived != 0 && barrier.expected != expected) {
    fault(FaultKind::kBarrier, site,
          "uses barrier {} for {} threads while {} of {} wait in it at {}:{}", id, expected,
          barrier.arrived, barrier.expected, barrier.site.file, barrier.site.line);
  }
  // .aligned: all lanes of a warp execute the same barrier instruction.
  if (barrier.arrived != 0) {
    for (const Thread* other : barrier.waiting) {
      if (other->index / 32 == thread.index / 32 && other->waits_at.line != site.line) {
        fault(FaultKind::kDivergence, site,
              "executes {} while lane {} of its warp waits in another barrier at {}:{}", site.op,
              other->index % 32, other->waits_at.file, other->waits_at.line);
      }
    }
  }
  if (barrier.threads.test(thread.index)) {
    fault(FaultKind::kBarrier, site, "arrives twice at barrier {} before it completes", id);
  }
  barrier.threads.set(thread.index);
  barrier.expected = expected;
  barrier.site = site;
  barrier.open_phase.add(thread.clock);
  if (wait) barrier.waiting.push_back(&thread);
  if (++barrier.arrived < expected) {
    if (!wait) return;
    block(site, fmt::format("barrier {} of {} threads", id, barrier.expected));
    return;
  }
  const StampPtr stamp = barrier.open_phase.result();
  std::vector<Thread*> waiting = std::move(barrier.waiting);
  barrier = NamedBarrier();
  for (Thread* other : waiting) {
    other->clock.acquire(stamp);
    if (other != &thread) wake(*other);
  }
}

// Registers per thread at the start: the most that ptxas may use under
// __launch_bounds__(threads, min_ctas).
static u32 initial_registers(const Launch& launch) {
  return std::min(255u, kRegisterFile / (launch.threads * launch.object->min_ctas())) / 8 * 8;
}

void Runner::set_max_registers(u32 count, bool increase, Site site) {
  Thread& thread = self();
  Cta& cta = *thread.cta;
  if (thread.index / 128 >= cta.warpgroups.size()) {
    fault(FaultKind::kRegisters, site, "executes setmaxnreg outside a whole warpgroup");
  }
  if (count % 8 != 0 || count < 24 || count > 256) {
    fault(FaultKind::kRegisters, site,
          "sets {} registers: multiples of 8 from 24 to 256 are allowed", count);
  }
  const u32 initial = initial_registers(*grid_of(thread).launch);
  if (cta.registers.empty()) cta.registers.assign(cta.warpgroups.size(), initial);
  std::bitset<128> all_lanes;
  all_lanes.set();
  const u32 group = thread.index / 128;
  converge(warpgroup_of(thread), all_lanes, site, nullptr, [&](Rendezvous&) {
    const u32 now = cta.registers[group];
    if (increase ? count < now : count > now) {
      fault(FaultKind::kRegisters, site, "{} its registers from {} to {}",
            increase ? "increases" : "decreases", now, count);
    }
    if (!increase) cta.registers[group] = count;
  });
  if (!increase) {
    // Other warpgroups may wait for the registers that were released.
    wake_all(cta.waiting_for_registers);
    return;
  }
  // Blocks until enough registers are free (9.7.17.5); the pool is what the CTA started with.
  while (true) {
    const u32 pool = initial * static_cast<u32>(cta.warpgroups.size());
    u32 used = 0;
    for (u32 g = 0; g < cta.registers.size(); ++g) used += g == group ? count : cta.registers[g];
    if (used <= pool) break;
    cta.waiting_for_registers.push_back(&thread);
    block(site, fmt::format("{} registers per thread while other warpgroups use {} of {}", count,
                            used - count, pool));
  }
  cta.registers[group] = count;
}

void Runner::griddepcontrol_wait(Site site) {
  preempt();
  Thread& thread = self();
  Grid& grid = grid_of(thread);
  if (grid.number > 1 && grid.launch->overlap && !grids_[grid.number - 2].complete()) {
    grid.waiting.push_back(&thread);
    block(site, fmt::format("kernel {} to end", grids_[grid.number - 2].launch->kernel));
  }
  thread.clock.set_dependency_waited();
}

void Runner::griddepcontrol_launch_dependents(Site) {
  preempt();
  Cta& cta = *self().cta;
  if (cta.triggered) return;
  cta.triggered = true;
  ++cta.cluster->grid->triggered;
  may_start_more_ = true;
}

void Runner::fence_proxy_async(Site) { self().clock.fence_proxy(); }

// No effect: the acquire and release of words in global memory carry the order at gpu scope.
void Runner::fence_gpu(Site) {}

}  // namespace catenary::sim
