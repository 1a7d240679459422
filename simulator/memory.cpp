// SPDX-License-Identifier: Apache-2.0
#include "simulator/memory.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <new>

namespace catenary::sim {
namespace {

constexpr u64 kAlign = 256;

// Bytes after an allocation that no other one holds: an access past its end is in no tensor,
// wherever the host's allocator places the next one.
constexpr u64 kGuard = 128 * 1024;

// NaN as bf16, as f16, and as the two halves of an f32.
constexpr u8 kPattern[2] = {0xff, 0x7f};

u64 number(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

void fill_pattern(Allocation& allocation) {
  u8* bytes = reinterpret_cast<u8*>(allocation.begin);
  for (i64 at = 0; at < allocation.bytes; ++at) bytes[at] = kPattern[at % 2];
}

}  // namespace

GlobalCell& Allocation::cell(size_t granule) {
  if (pages.empty()) pages.resize((written.size() + kPageCells - 1) / kPageCells);
  std::unique_ptr<Page>& page = pages[granule / kPageCells];
  if (!page) page = std::make_unique<Page>();
  return (*page)[granule % kPageCells];
}

void* Memory::allocate(i64 bytes) {
  if (bytes <= 0 || bytes > std::numeric_limits<i64>::max() / 2) return nullptr;
  Allocation fresh;
  fresh.bytes = bytes;
  fresh.storage.reset(new (std::nothrow) u8[static_cast<u64>(bytes) + kAlign + kGuard]);
  if (!fresh.storage) return nullptr;
  fresh.begin = (number(fresh.storage.get()) + kAlign - 1) / kAlign * kAlign;
  try {
    fresh.written.assign((static_cast<u64>(bytes) + kGranule - 1) / kGranule, false);
    fill_pattern(fresh);
    void* address = reinterpret_cast<void*>(fresh.begin);
    const u64 end = fresh.end();
    by_end_.emplace(end, std::move(fresh));
    return address;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool Memory::release(void* address) {
  const auto it = by_end_.upper_bound(number(address));
  if (it == by_end_.end() || it->second.begin != number(address)) return false;
  by_end_.erase(it);
  return true;
}

Allocation* Memory::find(const void* address, i64 bytes) {
  const u64 begin = number(address);
  const auto it = by_end_.upper_bound(begin);
  if (it == by_end_.end() || begin < it->second.begin || bytes < 0) return nullptr;
  return static_cast<u64>(bytes) <= it->second.end() - begin ? &it->second : nullptr;
}

void Memory::mark(const void* address, i64 bytes, bool written) {
  Allocation* allocation = find(address, bytes);
  if (allocation == nullptr || bytes == 0) return;
  const u64 from = number(address) - allocation->begin;
  const u64 to = from + static_cast<u64>(bytes);
  // A partly written granule counts as written; a partly cleared one stays written.
  const u64 first = written ? from / kGranule : (from + kGranule - 1) / kGranule;
  u64 last = written ? (to + kGranule - 1) / kGranule : to / kGranule;
  if (!written && to == static_cast<u64>(allocation->bytes)) last = allocation->written.size();
  if (first >= last) return;
  std::fill(allocation->written.begin() + static_cast<i64>(first),
            allocation->written.begin() + static_cast<i64>(last), written);
}

void Memory::forget_accesses() {
  for (auto& [end, allocation] : by_end_) allocation.pages.clear();
}

}  // namespace catenary::sim
