// SPDX-License-Identifier: Apache-2.0
// Shared memory by 32-bit address, and cp.async (PTX ISA 9.7.9.25). Its groups are counted per
// thread; its writes are visible to the issuing thread after the wait, to others after a barrier
// that follows the wait.
#include <cstring>

#include "simulator/runner/runner.h"

namespace catenary::sim {

Runner::SharedLocation Runner::shared_location(u32 address, u32 bytes, u32 align, Site site) {
  Thread& thread = self();
  Cta* cta = thread.cta;
  if (const u32 rank = address >> 24; rank != 0) {
    if (rank > cta->cluster->ctas.size()) {
      fault(FaultKind::kOutOfBounds, site, "reaches into CTA {} of a cluster of {}", rank - 1,
            cta->cluster->ctas.size());
    }
    cta = &cta->cluster->ctas[rank - 1];
    if (cta->live == 0) {
      fault(FaultKind::kRemoteExit, site, "reaches into CTA {}, which has exited", cta->index);
    }
  }
  const u32 in_window = address & 0xffffff;
  if (in_window % align != 0) {
    fault(FaultKind::kMisaligned, site,
          "accesses {} bytes of shared memory at an address that is {} over a multiple of {}",
          bytes, in_window % align, align);
  }
  if (in_window < kWindow || in_window - kWindow + u64{bytes} > cta->smem.size()) {
    fault(FaultKind::kOutOfBounds, site,
          "accesses {} bytes at offset {} of {} bytes of shared memory", bytes,
          static_cast<i64>(in_window) - kWindow, cta->smem.size());
  }
  const u32 offset = in_window - kWindow;
  return {cta, offset, cta->smem.data() + offset};
}

void Runner::report(Thread& thread, const Cta& cta, const Conflict& conflict, u32 bytes, bool write,
                    Site site) {
  const Cluster& cluster = *thread.cta->cluster;
  const char* does = write ? "writes" : "reads";
  const std::string where =
      fmt::format("shared memory at offset {} ({} bytes from there)", conflict.offset, bytes);
  switch (conflict.kind) {
    case Conflict::Kind::kUnwritten:
      fault(FaultKind::kUnwritten, site, "reads {}, which is not written", where);
      return;
    case Conflict::Kind::kBarrier:
      fault(FaultKind::kBarrier, site, "{} {}, which is an mbarrier", does, where);
      return;
    case Conflict::Kind::kUnfenced:
      fault(FaultKind::kProxy, site,
            "{} {} by the asynchronous proxy without a proxy fence after {}", does, where,
            describe(cluster, conflict.component, conflict.site));
      return;
    default: {
      const bool async = !cluster.components.is_thread(conflict.component);
      const char* other = conflict.kind == Conflict::Kind::kWriteRead ? "read" : "write";
      fault(async ? FaultKind::kCopyInFlight : FaultKind::kRace, site,
            "{} {} of CTA {} unordered with the {}{} of {}", does, where, cta.index,
            async ? "outstanding " : "", other,
            describe(cluster, conflict.component, conflict.site));
    }
  }
}

void Runner::shared_read(Thread& thread, const SharedLocation& location, u32 bytes, u32 component,
                         u32 epoch, bool async_proxy, Site site) {
  const Access access{thread.cta->cluster->components,
                      thread.clock,
                      component,
                      epoch,
                      site_number(site),
                      async_proxy};
  if (auto conflict = location.cta->shadow.read(location.offset, bytes, access)) {
    report(thread, *location.cta, *conflict, bytes, false, site);
  }
}

void Runner::shared_write(Thread& thread, const SharedLocation& location, u32 bytes, u32 component,
                          u32 epoch, bool async_proxy, Site site) {
  const Access access{thread.cta->cluster->components,
                      thread.clock,
                      component,
                      epoch,
                      site_number(site),
                      async_proxy};
  if (auto conflict = location.cta->shadow.write(location.offset, bytes, access)) {
    report(thread, *location.cta, *conflict, bytes, true, site);
  }
}

void Runner::load_shared(void* to, u32 from, u32 bytes, Site site) {
  preempt();
  Thread& thread = self();
  const SharedLocation location = shared_location(from, bytes, bytes, site);
  shared_read(thread, location, bytes, thread.number, thread.clock.epoch(), false, site);
  std::memcpy(to, location.bytes, bytes);
}

void Runner::store_shared(u32 to, const void* from, u32 bytes, Site site) {
  preempt();
  Thread& thread = self();
  const SharedLocation location = shared_location(to, bytes, bytes, site);
  shared_write(thread, location, bytes, thread.number, thread.clock.epoch(), false, site);
  std::memcpy(location.bytes, from, bytes);
}

void Runner::cp_async(u32 to, const void* from, u32 bytes, u32 valid, Site site) {
  preempt();
  Thread& thread = self();
  if (valid > bytes) {
    fault(FaultKind::kOperand, site, "copies {} bytes of {}", valid, bytes);
  }
  if (valid > 0) global_read(thread, from, valid, bytes, Read::kPlain, site);
  const SharedLocation location = shared_location(to, bytes, bytes, site);
  const u32 group = thread.cp_async.open;
  shared_write(thread, location, bytes, thread.cta->cluster->components.cp_async(thread.number),
               group, false, site);
  thread.cp_async.add();
  u8* target = location.bytes;
  issue({Operation::Kind::kCpAsync, &thread, group, location.cta, site, [=] {
           if (valid > 0) std::memcpy(target, from, valid);
           std::memset(target + valid, 0, bytes - valid);
         }});
}

void Runner::cp_async_commit(Site) { ++self().cp_async.open; }

void Runner::cp_async_wait(u32 pending, Site) {
  preempt();
  Thread& thread = self();
  const u32 committed = thread.cp_async.open - 1;
  if (committed <= pending) return;
  const u32 group = committed - pending;
  complete_all(thread, [&](const Operation& operation) {
    return operation.kind == Operation::Kind::kCpAsync && operation.group <= group;
  });
  if (group > thread.cp_async.done) thread.cp_async.done = group;
  thread.clock.finish_cp_async(group);
}

}  // namespace catenary::sim
