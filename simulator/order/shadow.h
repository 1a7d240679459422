// SPDX-License-Identifier: Apache-2.0
// Shadow memory of one CTA's shared memory: the last writer of each granule and its readers since.
// An access that is not ordered after the recorded ones is a conflict. Holds no data; independent
// of instructions.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "simulator/memory.h"
#include "simulator/order/clock.h"

namespace catenary::sim {

// Bytes that share a cell: the smallest access of shared memory.
inline constexpr u32 kSharedGranule = 2;

// One access: made by `component` at `epoch`; `clock` is what its issuer knows (of an asynchronous
// operation, at its issue).
struct Access {
  const Components& components;
  const Clock& clock;
  u32 component = 0;
  u32 epoch = 0;
  u32 site = 0;              // number of the template line
  bool async_proxy = false;  // through the asynchronous proxy: cp.async.bulk, wgmma
};

struct Conflict {
  enum class Kind : u8 {
    kUnwritten,  // a read of unwritten bytes
    kReadWrite,  // with an unordered write (by `component`)
    kWriteRead,  // a write with an unordered read
    kWriteWrite,
    kUnfenced,  // ordered, but without a proxy fence
    kBarrier,   // the bytes are an mbarrier object
  };
  Kind kind = Kind::kUnwritten;
  u32 offset = 0;     // of the granule
  u32 component = 0;  // of the other access
  u32 site = 0;
};

class Shadow {
 public:
  explicit Shadow(u32 bytes)
      : pages_((bytes + kPageCells * kSharedGranule - 1) / (kPageCells * kSharedGranule)) {}

  // Records a read or a write of [offset, offset + bytes), which must be inside. Returns the first
  // conflict, if any; the access is then not recorded.
  std::optional<Conflict> read(u32 offset, u32 bytes, const Access& access);
  std::optional<Conflict> write(u32 offset, u32 bytes, const Access& access);

  // Makes 8 bytes an mbarrier object, which no other access may touch, or unwritten memory again.
  void set_barrier(u32 offset, bool is_barrier);

 private:
  static constexpr u32 kNone = 0xffffffff;
  static constexpr u32 kMany = 0xfffffffe;  // reader_epoch is then an index into readers_
  static constexpr u32 kMbarrier = 0xfffffffd;
  struct Reader {
    u32 component;
    u32 epoch;
    u32 site;
  };
  struct Cell {
    u32 writer = kNone;
    u32 write_epoch = 0;
    u32 write_site = 0;
    u32 reader = kNone;
    u32 read_epoch = 0;
    u32 read_site = 0;
  };
  void add_reader(Cell& cell, const Access& access);
  std::optional<Conflict> check_readers(const Cell& cell, u32 offset, const Access& access) const;
  // Pages are allocated on first use: a kernel rarely touches all of its memory.
  static constexpr u32 kPageCells = 512;
  using Page = std::array<Cell, kPageCells>;
  Cell& cell(u32 granule) {
    std::unique_ptr<Page>& page = pages_[granule / kPageCells];
    if (!page) page = std::make_unique<Page>();
    return (*page)[granule % kPageCells];
  }
  std::vector<std::unique_ptr<Page>> pages_;
  std::vector<llvm::SmallVector<Reader, 4>> readers_;
  std::vector<u32> free_readers_;
};

}  // namespace catenary::sim
