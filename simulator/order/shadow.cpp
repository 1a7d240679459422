// SPDX-License-Identifier: Apache-2.0
#include "simulator/order/shadow.h"

#include <algorithm>

namespace catenary::sim {

void Shadow::add_reader(Cell& cell, const Access& access) {
  const auto covered = [&](u32 component, u32 epoch) {
    return component == access.component || access.clock.knows(component, epoch);
  };
  if (cell.reader == kMany) {
    auto& all = readers_[cell.read_epoch];
    llvm::erase_if(all, [&](const Reader& r) { return covered(r.component, r.epoch); });
    all.push_back({access.component, access.epoch, access.site});
    return;
  }
  if (cell.reader != kNone && !covered(cell.reader, cell.read_epoch)) {
    const Reader other{cell.reader, cell.read_epoch, cell.read_site};
    u32 index;
    if (free_readers_.empty()) {
      index = static_cast<u32>(readers_.size());
      readers_.emplace_back();
    } else {
      index = free_readers_.back();
      free_readers_.pop_back();
    }
    readers_[index] = {other, {access.component, access.epoch, access.site}};
    cell.reader = kMany;
    cell.read_epoch = index;
    return;
  }
  cell.reader = access.component;
  cell.read_epoch = access.epoch;
  cell.read_site = access.site;
}

std::optional<Conflict> Shadow::check_readers(const Cell& cell, u32 offset,
                                              const Access& access) const {
  const auto unordered = [&](u32 component, u32 epoch) {
    return component != access.component && !access.clock.knows(component, epoch);
  };
  if (cell.reader == kMany) {
    for (const Reader& r : readers_[cell.read_epoch]) {
      if (unordered(r.component, r.epoch)) {
        return Conflict{Conflict::Kind::kWriteRead, offset, r.component, r.site};
      }
    }
  } else if (cell.reader != kNone && unordered(cell.reader, cell.read_epoch)) {
    return Conflict{Conflict::Kind::kWriteRead, offset, cell.reader, cell.read_site};
  }
  return std::nullopt;
}

std::optional<Conflict> Shadow::read(u32 offset, u32 bytes, const Access& access) {
  const u32 end = (offset + bytes + kSharedGranule - 1) / kSharedGranule;
  for (u32 i = offset / kSharedGranule; i < end; ++i) {
    Cell& cell = this->cell(i);
    const u32 at = i * kSharedGranule;
    if (cell.writer == kMbarrier) {
      return Conflict{Conflict::Kind::kBarrier, at, 0, cell.write_site};
    }
    if (cell.writer == kNone) return Conflict{Conflict::Kind::kUnwritten, at, 0, 0};
    if (!access.clock.knows(cell.writer, cell.write_epoch)) {
      return Conflict{Conflict::Kind::kReadWrite, at, cell.writer, cell.write_site};
    }
    if (access.async_proxy && access.components.is_generic(cell.writer) &&
        !access.clock.fenced(cell.writer, cell.write_epoch)) {
      return Conflict{Conflict::Kind::kUnfenced, at, cell.writer, cell.write_site};
    }
    add_reader(cell, access);
  }
  return std::nullopt;
}

std::optional<Conflict> Shadow::write(u32 offset, u32 bytes, const Access& access) {
  const u32 end = (offset + bytes + kSharedGranule - 1) / kSharedGranule;
  for (u32 i = offset / kSharedGranule; i < end; ++i) {
    Cell& cell = this->cell(i);
    const u32 at = i * kSharedGranule;
    if (cell.writer == kMbarrier) {
      return Conflict{Conflict::Kind::kBarrier, at, 0, cell.write_site};
    }
    if (cell.writer != kNone) {
      // Two cp.async of one group may not overlap either: they complete in any order.
      const bool same =
          access.components.is_thread(access.component) && cell.writer == access.component;
      if (!same && !access.clock.knows(cell.writer, cell.write_epoch)) {
        return Conflict{Conflict::Kind::kWriteWrite, at, cell.writer, cell.write_site};
      }
      if (access.async_proxy && access.components.is_generic(cell.writer) &&
          !access.clock.fenced(cell.writer, cell.write_epoch)) {
        return Conflict{Conflict::Kind::kUnfenced, at, cell.writer, cell.write_site};
      }
    }
    if (auto conflict = check_readers(cell, at, access)) return conflict;
    if (cell.reader == kMany) {
      readers_[cell.read_epoch].clear();
      free_readers_.push_back(cell.read_epoch);
    }
    cell = {access.component, access.epoch, access.site, kNone, 0, 0};
  }
  return std::nullopt;
}

void Shadow::set_barrier(u32 offset, bool is_barrier) {
  for (u32 i = offset / kSharedGranule; i < (offset + 8) / kSharedGranule; ++i) {
    cell(i) = Cell();
    if (is_barrier) cell(i).writer = kMbarrier;
  }
}

}  // namespace catenary::sim
