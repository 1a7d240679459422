// SPDX-License-Identifier: Apache-2.0
// mbarrier objects (PTX ISA 9.7.13.15). A phase completes when its pending arrival count and its
// tx-count are 0; its waiters acquire what the arrivals released and what the asynchronous
// operations wrote. A waiter must observe the end of a phase before the next phase completes.
#include <algorithm>

#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

constexpr u32 kMaxCount = (1u << 20) - 1;
constexpr i64 kMaxTransactions = (1 << 20) - 1;

}  // namespace

// "mbarrier smem+0x40", "mbarrier smem+0x40 of CTA 3"
std::string Runner::mbarrier_name(const Barrier& barrier) {
  const std::string name = fmt::format("mbarrier smem+{:#x}", barrier.offset);
  if (barrier.cta->cluster->ctas.size() == 1) return name;
  return fmt::format("{} of CTA {}", name, barrier.cta->index);
}

std::string Runner::describe_wait(const Barrier& barrier, const Thread& thread) {
  const Mbarrier& object = *barrier.object;
  std::string text = fmt::format(
      "the end of phase {} (phase bit {}) of {}: {} of {} arrivals are in", object.phase,
      object.phase & 1, mbarrier_name(barrier), object.count - object.pending, object.count);
  if (object.expected != 0 || object.transactions != 0) {
    text += fmt::format(", {} of {} expected bytes have arrived",
                        object.expected - object.transactions, object.expected);
  }
  // Legal if threads take turns to wait for a barrier, yet a likely cause of a deadlock.
  const auto seen = thread.phases_seen.find(object.component);
  if (seen != thread.phases_seen.end() && seen->second < object.phase) {
    text += fmt::format(
        "; the thread has observed {} phases and {} are complete: its phase bit may not have been "
        "flipped",
        seen->second, object.phase);
  }
  return text;
}

// Formatted only for the report: the counts change while a thread waits.
void Runner::describe_waits(Cta& cta) {
  for (auto& [offset, object] : cta.mbarriers) {
    for (const MbarrierWaiter& waiter : object.waiting) {
      waiter.thread->waits_for = describe_wait({&cta, offset, &object}, *waiter.thread);
    }
  }
}

Runner::Barrier Runner::find_mbarrier(u32 address, bool own, Site site) {
  Thread& thread = self();
  const SharedLocation location = shared_location(address, 8, 8, site);
  Barrier found{location.cta, location.offset, nullptr};
  if (own && location.cta != thread.cta) {
    fault(FaultKind::kOperand, site, "uses the {}: it must be in the thread's own CTA",
          mbarrier_name(found));
  }
  const auto it = location.cta->mbarriers.find(location.offset);
  if (it == location.cta->mbarriers.end()) {
    fault(FaultKind::kBarrier, site, "uses {}, which is not initialised", mbarrier_name(found));
  }
  found.object = &it->second;
  const Mbarrier& object = *found.object;
  if (!thread.clock.knows(object.initialised_by->number, object.initialised_epoch) &&
      !fence_published(object)) {
    fault(FaultKind::kBarrier, site,
          "uses {} unordered with its initialisation by {} at {}:{}: put a barrier of the CTA "
          "between them",
          mbarrier_name(found), name_of(*object.initialised_by), object.site.file,
          object.site.line);
  }
  if (location.cta != thread.cta) check_published(found, site);
  return found;
}

// fence.mbarrier_init.release.cluster orders the initialisation before everything after the next
// cluster barrier of its thread, even if the arrival there is relaxed (PTX ISA 9.7.13.4).
bool Runner::fence_published(const Mbarrier& object) {
  const Thread& thread = self();
  return object.published_epoch != 0 &&
         thread.cta->cluster->waits[thread.number] > object.published_phase;
}

void Runner::check_published(const Barrier& barrier, Site site) {
  const Mbarrier& object = *barrier.object;
  const Clock& clock = self().clock;
  const u32 by = object.initialised_by->number;
  const bool fenced = object.published_epoch != 0 && clock.knows(by, object.published_epoch);
  if (fenced || fence_published(object) || clock.fenced(by, object.initialised_epoch)) return;
  fault(FaultKind::kBarrier, site,
        "uses {} from {}, and fence.mbarrier_init does not follow its initialisation by {} at "
        "{}:{}",
        mbarrier_name(barrier),
        barrier.cta == self().cta ? "the asynchronous proxy" : "another CTA",
        name_of(*object.initialised_by), object.site.file, object.site.line);
}

void Runner::mbarrier_init(u32 barrier, u32 count, Site site) {
  preempt();
  Thread& thread = self();
  Cta& cta = *thread.cta;
  const SharedLocation location = shared_location(barrier, 8, 8, site);
  const Barrier named{location.cta, location.offset, nullptr};
  if (location.cta != &cta) {
    fault(FaultKind::kOperand, site,
          "initialises the {}: a thread initialises those of its own CTA", mbarrier_name(named));
  }
  if (count == 0 || count > kMaxCount) {
    fault(FaultKind::kBarrier, site, "initialises {} for {} arrivals: 1 to {} are allowed",
          mbarrier_name(named), count, kMaxCount);
  }
  if (const auto it = cta.mbarriers.find(location.offset); it != cta.mbarriers.end()) {
    fault(FaultKind::kBarrier, site,
          "initialises {}, which {}:{} has initialised: it must be invalidated first",
          mbarrier_name(named), it->second.site.file, it->second.site.line);
  }
  shared_write(thread, location, 8, thread.number, thread.clock.epoch(), false, site);
  cta.shadow.set_barrier(location.offset, true);
  Mbarrier& object = cta.mbarriers[location.offset];
  object.component = cta.cluster->components.add_mbarrier();
  object.count = count;
  object.pending = count;
  object.initialised_by = &thread;
  object.initialised_epoch = thread.clock.epoch();
  object.site = site;
}

void Runner::mbarrier_invalidate(u32 barrier, Site site) {
  preempt();
  const Barrier named = find_mbarrier(barrier, true, site);
  const Mbarrier& object = *named.object;
  const i64 outstanding =
      object.asynchronous + object.issued - (object.expected - object.transactions);
  const bool awaited =
      std::any_of(object.waiting.begin(), object.waiting.end(),
                  [](const MbarrierWaiter& w) { return w.thread->progress == Progress::kBlocked; });
  if (outstanding != 0 || awaited) {
    fault(FaultKind::kBarrier, site, "invalidates {} while {}", mbarrier_name(named),
          awaited ? "a thread waits for it" : "operations that complete at it are in flight");
  }
  named.cta->shadow.set_barrier(named.offset, false);
  named.cta->mbarriers.erase(named.offset);
}

// Counts arrivals of the running thread, or of a cp.async.
void Runner::count_arrivals(const Barrier& barrier, u32 count, Site site) {
  Mbarrier& object = *barrier.object;
  if (count == 0 || count > object.pending) {
    fault(FaultKind::kBarrier, site,
          "arrives {} times at {}, whose phase {} waits for {} more of {} arrivals", count,
          mbarrier_name(barrier), object.phase, object.pending, object.count);
    return;
  }
  object.pending -= count;
}

void Runner::complete_phase_if_due(const Barrier& barrier, Site site) {
  Mbarrier& object = *barrier.object;
  if (object.pending == 0 && object.transactions < 0) {
    fault(FaultKind::kTransaction, site,
          "phase {} of {} has all arrivals and expects {} bytes, but {} have been delivered",
          object.phase, mbarrier_name(barrier), object.expected,
          object.expected - object.transactions);
    return;
  }
  if (object.pending != 0 || object.transactions != 0) return;
  if (object.issued != object.expected) {
    fault(FaultKind::kTransaction, site,
          "phase {} of {} completes with the {} bytes that it expects, but operations of {} bytes "
          "were issued for it: the others are delivered to a later phase",
          object.phase, mbarrier_name(barrier), object.expected, object.issued);
    return;
  }
  for (const MbarrierWaiter& waiter : object.waiting) {
    if (waiter.phase == object.phase || waiter.thread->progress == Progress::kDone) continue;
    fault(FaultKind::kPhase, site,
          "phase {} of {} completes before {} has observed the end of phase {}: the arriving "
          "threads are a phase ahead",
          object.phase, mbarrier_name(barrier), name_of(*waiter.thread), waiter.phase);
    return;
  }
  object.last = object.open_phase.result();
  object.open_phase.clear();
  ++object.phase;
  object.pending = object.count;
  object.expected = 0;
  object.issued = 0;
  for (const MbarrierWaiter& waiter : object.waiting) wake(*waiter.thread);
}

void Runner::mbarrier_arrive(u32 barrier, u32 count, Site site) {
  preempt();
  const Barrier named = find_mbarrier(barrier, false, site);
  count_arrivals(named, count, site);
  named.object->open_phase.add(self().clock);
  complete_phase_if_due(named, site);
}

void Runner::mbarrier_expect(u32 barrier, u32 bytes, bool arrive, Site site) {
  preempt();
  const Barrier named = find_mbarrier(barrier, false, site);
  Mbarrier& object = *named.object;
  if (bytes + object.transactions > kMaxTransactions) {
    fault(FaultKind::kTransaction, site,
          "expects {} bytes more at {}, whose tx-count is {}: the largest is {}", bytes,
          mbarrier_name(named), object.transactions, kMaxTransactions);
  }
  object.transactions += bytes;
  object.expected += bytes;
  if (arrive) {
    count_arrivals(named, 1, site);
    object.open_phase.add(self().clock);
  }
  complete_phase_if_due(named, site);
}

bool Runner::mbarrier_try_wait(u32 barrier, u32 parity, Site site) {
  preempt();
  Thread& thread = self();
  const Barrier named = find_mbarrier(barrier, true, site);
  Mbarrier& object = *named.object;
  if (parity > 1) {
    fault(FaultKind::kOperand, site, "waits for phase bit {} of {}: it is 0 or 1", parity,
          mbarrier_name(named));
  }
  if ((object.phase & 1) == parity) {
    const u32 phase = object.phase;
    if (std::none_of(object.waiting.begin(), object.waiting.end(),
                     [&](const MbarrierWaiter& w) { return w.thread == &thread; })) {
      object.waiting.push_back({&thread, phase});
    }
    // try_wait has a time limit and may return false at any time: kernels must loop.
    if (random(4) == 0) {
      thread.fiber.leave();
      return false;
    }
    block(site, "");  // describe_waits() says why
  }
  std::erase_if(object.waiting, [&](const MbarrierWaiter& w) { return w.thread == &thread; });
  const auto [seen, fresh] = thread.phases_seen.try_emplace(object.component, object.phase);
  if (!fresh && seen->second == object.phase) {
    fault(FaultKind::kPhase, site,
          "waits twice for phase bit {} of {} while {} phases are complete: the phase bit was not "
          "flipped",
          parity, mbarrier_name(named), object.phase);
  }
  seen->second = object.phase;
  thread.clock.acquire(object.last);
  return true;
}

// .noinc: the arrival is one of the barrier's count. It happens when the thread's earlier cp.async
// are complete, and replaces a wait of the thread for them.
void Runner::cp_async_arrive(u32 barrier, Site site) {
  preempt();
  Thread& thread = self();
  const Barrier named = find_mbarrier(barrier, true, site);
  const u32 group = thread.cp_async.open++;
  std::fill(thread.cp_async.operations.begin(), thread.cp_async.operations.end(), 0);
  ++named.object->asynchronous;
  issue({Operation::Kind::kBulkLoad, &thread, 0, named.cta, site,
         [this, &thread, named, group, site] {
           complete_all(thread, [&](const Operation& operation) {
             return operation.kind == Operation::Kind::kCpAsync && operation.group <= group;
           });
           Mbarrier& object = *named.object;
           --object.asynchronous;
           count_arrivals(named, 1, site);
           if (faulted_) return;
           object.open_phase.add(thread.cta->cluster->components.cp_async(thread.number), group);
           complete_phase_if_due(named, site);
         }});
}

void Runner::fence_mbarrier_init(Site) {
  Thread& thread = self();
  for (auto& [offset, object] : thread.cta->mbarriers) {
    if (object.initialised_by == &thread && object.published_epoch == 0) {
      object.published_epoch = thread.clock.epoch();
      object.published_phase = thread.cta->cluster->arrivals[thread.number];
    }
  }
}

void Runner::issue_transaction(const SharedLocation& location, u32 bytes, const Barrier& barrier,
                               bool async_proxy, Site site, std::function<void()> write) {
  Thread& thread = self();
  if (location.cta != barrier.cta) {
    fault(FaultKind::kBarrier, site,
          "writes shared memory of CTA {} and completes at {}: both must be in one CTA",
          location.cta->index, mbarrier_name(barrier));
  }
  check_published(barrier, site);
  Mbarrier& object = *barrier.object;
  shared_write(thread, location, bytes, object.component, object.phase + 1, async_proxy, site);
  object.issued += bytes;
  issue({Operation::Kind::kBulkLoad, &thread, 0, location.cta, site,
         [this, barrier, bytes, site, write = std::move(write)] {
           write();
           Mbarrier& target = *barrier.object;
           target.transactions -= bytes;
           if (target.transactions < -kMaxTransactions) {
             fault(FaultKind::kTransaction, site,
                   "phase {} of {} has been delivered {} bytes more than it expects so far: its "
                   "smallest tx-count is {}",
                   target.phase, mbarrier_name(barrier), -target.transactions, -kMaxTransactions);
             return;
           }
           target.open_phase.add(target.component, target.phase + 1);
           complete_phase_if_due(barrier, site);
         }});
}

}  // namespace catenary::sim
