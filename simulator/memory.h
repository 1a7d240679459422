// SPDX-License-Identifier: Apache-2.0
// The simulated device's global memory: host allocations that know which of their bytes have been
// written. A device address is the host address. Knows no kernel.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "shared/int.h"

namespace catenary::sim {

// Who wrote the bytes of one granule last, and who read them last, while kernels run.
struct GlobalAccess {
  u32 launch = 0;     // number of the launch in its run, from 1; 0: nobody
  u32 cluster = 0;    // in the grid
  u32 component = 0;  // in the cluster (simulator/order/clock.h)
  u32 epoch = 0;
  u32 site = 0;  // number of the template line
  bool atomic = false;
};
struct GlobalCell {
  GlobalAccess write;
  GlobalAccess read;
};

// Bytes that share a cell. Accesses are never smaller.
inline constexpr u32 kGranule = 2;

struct Allocation {
  u64 begin = 0;
  i64 bytes = 0;
  std::unique_ptr<u8[]> storage;  // padded to give `begin` its alignment
  std::vector<bool> written;      // per granule
  // Null: nobody has asked for a cell of its page in this run.
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
  // Null when the host has no memory left. bytes > 0.
  void* allocate(i64 bytes);
  // False: not an address that allocate() gave.
  bool release(void* address);

  // The allocation that holds [address, address + bytes), or null.
  Allocation* find(const void* address, i64 bytes);

  // Sets whether [address, address + bytes) counts as written; it must lie in one allocation. The
  // bytes stay.
  void mark(const void* address, i64 bytes, bool written);

  // Who accessed what while kernels ran counts for one run: the next one starts after all of it.
  void forget_accesses();

 private:
  std::map<u64, Allocation> by_end_;
};

}  // namespace catenary::sim
