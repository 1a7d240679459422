// SPDX-License-Identifier: Apache-2.0
// The simulated device's global memory: host allocations that record which of their bytes have been
// written. A device address is the host address. Independent of kernels.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "shared/int.h"

namespace catenary::sim {

// One access to a granule of global memory while kernels run.
struct GlobalAccess {
  u32 launch = 0;     // number of the launch in its run, from 1; 0: no access yet
  u32 cluster = 0;    // in the grid
  u32 component = 0;  // in the cluster (simulator/order/clock.h)
  u32 epoch = 0;
  u32 site = 0;  // number of the template line
  bool atomic = false;
};
// The last write and the last read of a granule.
struct GlobalCell {
  GlobalAccess write;
  GlobalAccess read;
};

// Bytes that share a cell: the smallest access of global memory.
inline constexpr u32 kGranule = 1;

struct Allocation {
  u64 begin = 0;
  i64 bytes = 0;
  std::unique_ptr<u8[]> storage;  // padded: the alignment of `begin`, a guard after the end
  std::vector<bool> written;      // per granule
  // Null: no cell of its page is in use in this run.
  GlobalCell* find_cell(size_t granule) {
    const size_t page = granule / kPageCells;
    return page < pages.size() && pages[page] ? &(*pages[page])[granule % kPageCells] : nullptr;
  }
  GlobalCell& cell(size_t granule);
  u64 end() const { return begin + static_cast<u64>(bytes); }

  static constexpr size_t kPageCells = 128;
  using Page = std::array<GlobalCell, kPageCells>;
  std::vector<std::unique_ptr<Page>> pages;  // empty before the first cell
};

class Memory {
 public:
  // Aligned to 256, filled with a pattern that is NaN in every float type, nothing written yet.
  // The 128 KiB after it belong to no other allocation. Null if the host has no memory left.
  // bytes > 0.
  void* allocate(i64 bytes);
  // False: not an address that allocate() returned.
  bool release(void* address);

  // The allocation that holds [address, address + bytes), or null.
  Allocation* find(const void* address, i64 bytes);

  // Sets whether [address, address + bytes), a part of one allocation, counts as written. The bytes
  // do not change.
  void mark(const void* address, i64 bytes, bool written);

  // Drops the recorded accesses of a run: the next run is ordered after all of them.
  void forget_accesses();

 private:
  std::map<u64, Allocation> by_end_;
};

}  // namespace catenary::sim
