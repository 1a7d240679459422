// SPDX-License-Identifier: Apache-2.0
// Bulk operations (PTX ISA 9.7.9.25.4): loads complete at an mbarrier, stores in bulk groups of
// their thread. Both use the asynchronous proxy and complete at any moment before the wait for
// them. Stores complete in two steps: shared memory has been read, then global memory is written.
#include <cstring>

#include "simulator/model/number.h"
#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

constexpr u32 kAlign = 16;
constexpr u32 kOffsetMask = 0xffffff;

}  // namespace

void Runner::check_bulk_size(u32 bytes, Site site) {
  if (bytes == 0 || bytes % kAlign != 0) {
    fault(FaultKind::kOperand, site, "copies {} bytes: cp.async.bulk takes a multiple of {}", bytes,
          kAlign);
  }
}

void Runner::for_each_rank(u32 to, u32 barrier, u32 mask, Site site,
                           const std::function<void(u32 to, u32 barrier)>& act) {
  if (mask == 0) return act(to, barrier);
  const size_t ctas = self().cta->cluster->ctas.size();
  if (mask >> ctas != 0) {
    fault(FaultKind::kOutOfBounds, site, "copies to the CTAs of mask {:#x} in a cluster of {}",
          mask, ctas);
  }
  for (u32 rank = 0; rank < ctas; ++rank) {
    if ((mask >> rank & 1) == 0) continue;
    const u32 window = (rank + 1) << 24;
    act(window | (to & kOffsetMask), window | (barrier & kOffsetMask));
  }
}

void Runner::bulk_load(u32 to, const void* from, u32 bytes, u32 barrier, u32 mask, Site site) {
  preempt();
  check_bulk_size(bytes, site);
  global_read(self(), from, bytes, kAlign, Read::kPlain, site);
  for_each_rank(to, barrier, mask, site, [&](u32 to_rank, u32 barrier_rank) {
    const SharedLocation location = shared_location(to_rank, bytes, kAlign, site);
    issue_transaction(location, bytes, find_mbarrier(barrier_rank, false, site), true, site,
                      [target = location.bytes, from, bytes] { std::memcpy(target, from, bytes); });
  });
}

void Runner::bulk_copy_cluster(u32 to, u32 from, u32 bytes, u32 barrier, Site site) {
  preempt();
  Thread& thread = self();
  check_bulk_size(bytes, site);
  const SharedLocation source = shared_location(from, bytes, kAlign, site);
  if (source.cta != thread.cta) {
    fault(FaultKind::kOperand, site,
          "copies from shared memory of CTA {}: the source is of its own CTA", source.cta->index);
  }
  const SharedLocation location = shared_location(to, bytes, kAlign, site);
  const Barrier completes = find_mbarrier(barrier, false, site);
  // The completed phase also tells that the source has been read.
  shared_read(thread, source, bytes, completes.object->component, completes.object->phase + 1, true,
              site);
  issue_transaction(location, bytes, completes, true, site, [this, source, location, bytes, site] {
    if (source.cta->live == 0) {
      fault(FaultKind::kOutstanding, site,
            "CTA {} exits while this copy from its shared memory is in flight", source.cta->index);
      return;
    }
    std::memcpy(location.bytes, source.bytes, bytes);
  });
}

void Runner::issue_store(Site site, std::function<std::vector<u8>()> read,
                         std::function<void(const std::vector<u8>&)> write) {
  Thread& thread = self();
  const u32 group = thread.bulk.open;
  thread.bulk.add();
  issue({Operation::Kind::kBulkStore, &thread, group, nullptr, site,
         [this, &thread, group, site, read = std::move(read), write = std::move(write)] {
           auto bytes = std::make_shared<const std::vector<u8>>(read());
           if (thread.cta->live == 0) return write(*bytes);
           issue({Operation::Kind::kBulkStore, &thread, group, nullptr, site,
                  [bytes, write] { write(*bytes); }});
         },
         true});
}

void Runner::bulk_write(void* to, u32 from, u32 bytes, bool add, Number number, Site site) {
  preempt();
  Thread& thread = self();
  check_bulk_size(bytes, site);
  const Components& components = thread.cta->cluster->components;
  const u32 group = thread.bulk.open;
  const SharedLocation location = shared_location(from, bytes, kAlign, site);
  if (location.cta != thread.cta) {
    fault(FaultKind::kOperand, site,
          "stores from shared memory of CTA {}: the source is of its own CTA", location.cta->index);
  }
  shared_read(thread, location, bytes, components.bulk_reads(thread.number), group, true, site);
  global_write(thread, to, bytes, kAlign, components.bulk_writes(thread.number), group, add, site);
  const u8* source = location.bytes;
  issue_store(
      site, [source, bytes] { return std::vector<u8>(source, source + bytes); },
      [to, add, number](const std::vector<u8>& data) {
        if (add) {
          add_numbers(to, data.data(), static_cast<u32>(data.size()) / number_bytes(number),
                      number);
        } else {
          std::memcpy(to, data.data(), data.size());
        }
      });
}

void Runner::bulk_store(void* to, u32 from, u32 bytes, Site site) {
  bulk_write(to, from, bytes, false, Number::kU32, site);
}

void Runner::bulk_reduce(void* to, u32 from, u32 bytes, Number number, Site site) {
  if (number == Number::kTF32) {
    fault(FaultKind::kOperand, site, "adds tf32 numbers: a bulk reduction takes f32");
  }
  bulk_write(to, from, bytes, true, number, site);
}

void Runner::bulk_prefetch(const void* from, u32 bytes, Site site) {
  check_bulk_size(bytes, site);
  if (reinterpret_cast<u64>(from) % kAlign != 0) {
    fault(FaultKind::kMisaligned, site, "prefetches an address that is {} over a multiple of {}",
          reinterpret_cast<u64>(from) % kAlign, kAlign);
  }
  global_region(self(), from, bytes, false, site);
}

void Runner::bulk_commit(Site) { ++self().bulk.open; }

void Runner::bulk_wait(u32 pending, bool read_only, Site) {
  preempt();
  Thread& thread = self();
  const u32 committed = thread.bulk.open - 1;
  if (committed <= pending) return;
  const u32 group = committed - pending;
  const auto complete_stores = [&](bool reads) {
    complete_all(thread, [&](const Operation& operation) {
      return operation.kind == Operation::Kind::kBulkStore && operation.group <= group &&
             operation.reads == reads;
    });
  };
  complete_stores(true);
  if (group > thread.bulk_reads_done) thread.bulk_reads_done = group;
  thread.clock.finish_bulk_reads(group);
  if (read_only) return;
  complete_stores(false);
  if (group > thread.bulk.done) thread.bulk.done = group;
  thread.clock.finish_bulk_writes(group);
}

}  // namespace catenary::sim
