// SPDX-License-Identifier: Apache-2.0
// Global memory: every access must be inside a buffer of its launch, respect that buffer's role,
// read written bytes only, and be ordered against the other accesses of its grid. The dependency
// wait orders the grids of a stream (PTX ISA 9.7.13.13, griddepcontrol).
#include <algorithm>
#include <cstring>

#include "simulator/model/number.h"
#include "simulator/runner/runner.h"

namespace catenary::sim {
namespace {

u64 address_of(const void* p) { return reinterpret_cast<u64>(p); }

bool holds(const Region& region, u64 begin, u64 end) {
  return begin >= region.begin && end <= region.begin + static_cast<u64>(region.bytes);
}

bool is_written(RegionRole role) {
  return role == RegionRole::kOutput || role == RegionRole::kWorkspace;
}

// "that is byte 8200 of 'x', which has 8192": the address relative to the nearest buffer.
std::string nearest(const std::vector<Region>& regions, u64 address) {
  const Region* best = nullptr;
  u64 best_distance = ~u64{0};
  for (const Region& region : regions) {
    const u64 end = region.begin + static_cast<u64>(region.bytes);
    const u64 distance = address < region.begin ? region.begin - address
                         : address >= end       ? address - end
                                                : 0;
    if (distance < best_distance) best = &region, best_distance = distance;
  }
  if (best == nullptr) return "the launch has no buffer";
  const i64 offset = static_cast<i64>(address - best->begin);
  return fmt::format("that is byte {} of '{}', which has {}", offset, best->name, best->bytes);
}

}  // namespace

const Region& Runner::global_region(Thread& thread, const void* address, u32 bytes, bool write,
                                    Site site) {
  const std::vector<Region>& regions = grid_of(thread).launch->regions;
  const u64 begin = address_of(address);
  const Region* found = nullptr;
  for (const Region& region : regions) {
    if (!holds(region, begin, begin + bytes)) continue;
    // For overlapping regions the stricter role decides about the wait, the wider one about writes.
    if (found == nullptr || is_written(region.role) ||
        (found->role == RegionRole::kWeight && !is_written(found->role))) {
      found = &region;
    }
  }
  if (found == nullptr) {
    fault(FaultKind::kOutOfBounds, site, "{} {} bytes outside every buffer: {}",
          write ? "writes" : "reads", bytes, nearest(regions, begin));
  }
  return *found;
}

void Runner::global_read(Thread& thread, const void* address, u32 bytes, u32 align, Read read,
                         Site site) {
  if (address_of(address) % align != 0) {
    fault(FaultKind::kMisaligned, site,
          "reads {} bytes of global memory at an address that is {} over a multiple of {}", bytes,
          address_of(address) % align, align);
  }
  const Region& region = global_region(thread, address, bytes, false, site);
  const u64 offset = address_of(address) - region.begin;
  if (region.role != RegionRole::kWeight && !thread.clock.dependency_waited()) {
    fault(FaultKind::kDependency, site,
          "reads '{}' before griddepcontrol.wait: only weights are known to be complete there",
          region.name);
  }
  if (read == Read::kConstant && is_written(region.role)) {
    fault(FaultKind::kReadOnly, site,
          "reads '{}' by ld.global.nc, which is for memory that no kernel of the chain writes",
          region.name);
  }
  Allocation* allocation = memory_.find(address, bytes);
  if (allocation == nullptr) {
    fault(FaultKind::kOutOfBounds, site, "reads {} bytes of '{}' that are not allocated", bytes,
          region.name);
  }
  const size_t first = (address_of(address) - allocation->begin) / kGranule;
  const size_t last = (address_of(address) + bytes - 1 - allocation->begin) / kGranule;
  const Cluster& cluster = *thread.cta->cluster;
  const GlobalAccess access = {
      cluster.grid->number, cluster.index,     cluster.components.thread(thread.number),
      thread.clock.epoch(), site_number(site), false};
  for (size_t i = first; i <= last; ++i) {
    if (!allocation->written[i]) {
      fault(FaultKind::kUnwritten, site, "reads byte {} of '{}', which is not written",
            offset + (i - first) * kGranule, region.name);
    }
    // Read-only regions need a check only where another kernel has recorded accesses.
    GlobalCell* cell = is_written(region.role) ? &allocation->cell(i) : allocation->find_cell(i);
    if (cell == nullptr) continue;
    if (!global_ordered(thread, cell->write, false)) {
      fault(FaultKind::kRace, site, "reads byte {} of '{}' unordered with the write of {}",
            offset + (i - first) * kGranule, region.name, describe_global(cell->write));
    }
    cell->read = access;
  }
}

void Runner::global_write(Thread& thread, void* address, u32 bytes, u32 align, u32 component,
                          u32 epoch, bool atomic, Site site) {
  if (address_of(address) % align != 0) {
    fault(FaultKind::kMisaligned, site,
          "writes {} bytes of global memory at an address that is {} over a multiple of {}", bytes,
          address_of(address) % align, align);
  }
  const Region& region = global_region(thread, address, bytes, true, site);
  const u64 offset = address_of(address) - region.begin;
  if (!is_written(region.role)) {
    fault(FaultKind::kReadOnly, site, "writes byte {} of '{}', which this kernel only reads",
          offset, region.name);
  }
  if (!thread.clock.dependency_waited()) {
    fault(FaultKind::kDependency, site,
          "writes '{}' before griddepcontrol.wait: the previous kernel may still read it",
          region.name);
  }
  Allocation* allocation = memory_.find(address, bytes);
  if (allocation == nullptr) {
    fault(FaultKind::kOutOfBounds, site, "writes {} bytes of '{}' that are not allocated", bytes,
          region.name);
  }
  const size_t first = (address_of(address) - allocation->begin) / kGranule;
  const size_t last = (address_of(address) + bytes - 1 - allocation->begin) / kGranule;
  const Cluster& cluster = *thread.cta->cluster;
  const GlobalAccess access = {cluster.grid->number, cluster.index, component, epoch,
                               site_number(site),    atomic};
  for (size_t i = first; i <= last; ++i) {
    GlobalCell& cell = allocation->cell(i);
    for (const GlobalAccess* other : {&cell.write, &cell.read}) {
      if (global_ordered(thread, *other, atomic)) continue;
      fault(FaultKind::kRace, site, "writes byte {} of '{}' unordered with the {} of {}",
            offset + (i - first) * kGranule, region.name, other == &cell.write ? "write" : "read",
            describe_global(*other));
    }
    if (atomic && !allocation->written[i]) {
      fault(FaultKind::kUnwritten, site, "adds to byte {} of '{}', which is not written",
            offset + (i - first) * kGranule, region.name);
    }
    cell.write = access;
    allocation->written[i] = true;
  }
}

// True if `other` happens before what `thread` does now. Launch 0: an earlier run.
bool Runner::global_ordered(const Thread& thread, const GlobalAccess& other, bool atomic) const {
  if (other.launch == 0 || (atomic && other.atomic)) return true;
  const Cluster& cluster = *thread.cta->cluster;
  if (other.launch != cluster.grid->number) return grids_[other.launch - 1].complete();
  if (other.cluster == cluster.index) {
    return thread.clock.knows(other.component, other.epoch) ||
           other.component == cluster.components.thread(thread.number);
  }
  return thread.clock.knows_cluster(other.cluster, other.component, other.epoch);
}

std::string Runner::describe_global(const GlobalAccess& access) const {
  const Grid& grid = grids_[access.launch - 1];
  const Site& at = sites_[access.site];
  const u32 threads = grid.launch->threads;
  const u32 number = access.component % (threads * grid.launch->cluster_ctas);
  return fmt::format("kernel {}, CTA {}, thread {} ({} at {}:{})", grid.launch->kernel,
                     access.cluster * grid.launch->cluster_ctas + number / threads,
                     number % threads, at.op, at.file, at.line);
}

void Runner::load_global(void* to, const void* from, u32 bytes, Read read, Site site) {
  preempt();
  global_read(self(), from, bytes, bytes, read, site);
  std::memcpy(to, from, bytes);
}

void Runner::store_global(void* to, const void* from, u32 bytes, Site site) {
  preempt();
  Thread& thread = self();
  global_write(thread, to, bytes, bytes, thread.number, thread.clock.epoch(), false, site);
  std::memcpy(to, from, bytes);
}

void Runner::reduce_global(void* to, const void* from, u32 count, Number number, bool release,
                           Site site) {
  preempt();
  Thread& thread = self();
  const u32 bytes = count * number_bytes(number);
  global_write(thread, to, bytes, bytes, thread.number, thread.clock.epoch(), true, site);
  if (release) {
    release_word(to);
  }
  add_numbers(to, from, count, number);
}

u32 Runner::atomic_add_global(void* to, u32 value, Site site) {
  preempt();
  Thread& thread = self();
  global_write(thread, to, 4, 4, thread.number, thread.clock.epoch(), true, site);
  acquire_word(to);
  release_word(to);
  u32 before;
  std::memcpy(&before, to, 4);
  const u32 after = before + value;
  std::memcpy(to, &after, 4);
  return before;
}

// Adds what the thread knows to the stamps that a later acquire of the word gets.
void Runner::release_word(const void* word) {
  Thread& thread = self();
  for (ClusterStamp& known : thread.clock.release_to_clusters(thread.cta->cluster->index)) {
    released_[address_of(word)].push_back(std::move(known));
  }
}

void Runner::acquire_word(const void* word) {
  const auto it = released_.find(address_of(word));
  if (it != released_.end()) self().clock.acquire_from_clusters(it->second);
}

u32 Runner::load_acquire_global(const void* from, Site site) {
  // Always yields: a loop around it must let other threads write the word.
  self().fiber.leave();
  Thread& thread = self();
  if (address_of(from) % 4 != 0) {
    fault(FaultKind::kMisaligned, site,
          "acquires a word at an address that is not a multiple of 4");
  }
  const Region& region = global_region(thread, from, 4, false, site);
  if (region.role != RegionRole::kWeight && !thread.clock.dependency_waited()) {
    fault(FaultKind::kDependency, site, "acquires a word of '{}' before griddepcontrol.wait",
          region.name);
  }
  acquire_word(from);
  u32 value;
  std::memcpy(&value, from, 4);
  return value;
}

void Runner::store_release_global(void* to, u32 value, Site site) {
  preempt();
  Thread& thread = self();
  global_write(thread, to, 4, 4, thread.number, thread.clock.epoch(), true, site);
  release_word(to);
  std::memcpy(to, &value, 4);
}

}  // namespace catenary::sim
