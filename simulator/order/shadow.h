// SPDX-License-Identifier: Apache-2.0
// What is known of each granule of one CTA's shared memory: who wrote it last, who has read it
// since. An access that is not ordered behind what it meets is a conflict. Knows no data and no
// instruction.
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

// One access as the order sees it: made by `component` at `epoch`, where `clock` is what its issuer
// knows. For an asynchronous operation that is at its issue.
struct Access {
  const Components& components;
  const Clock& clock;
  u32 component = 0;
  u32 epoch = 0;
  u32 site = 0;              // number of the template line
  bool async_proxy = false;  // by the asynchronous proxy: cp.async.bulk, wgmma
};

struct Conflict {
  enum class Kind : u8 {
    kUnwritten,  // a read of bytes that nobody wrote
    kReadWrite,  // with an unordered write (by `component`)
    kWriteRead,  // a write with an unordered read
    kWriteWrite,
    kUnfenced,  // ordered, but no proxy fence between
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
      : pages_((bytes + kPageCells * kGranule - 1) / (kPageCells * kGranule)) {}

  // Records a read or a write of [offset, offset + bytes), which lies inside. The first conflict,
  // if any; the access is then not recorded.
  std::optional<Conflict> read(u32 offset, u32 bytes, const Access& access);
  std::optional<Conflict> write(u32 offset, u32 bytes, const Access& access);

  // An mbarrier object takes 8 bytes, which then no other access may touch; or gives them back,
  // unwritten.
  void set_barrier(u32 offset, bool is_barrier);

 private:
  static constexpr u32 kNobody = 0xffffffff;
  static constexpr u32 kMany = 0xfffffffe;  // reader_epoch is then an index into readers_
  static constexpr u32 kMbarrier = 0xfffffffd;
  struct Reader {
    u32 component;
    u32 epoch;
    u32 site;
  };
  struct Cell {
    u32 writer = kNobody;
    u32 write_epoch = 0;
    u32 write_site = 0;
    u32 reader = kNobody;
    u32 read_epoch = 0;
    u32 read_site = 0;
  };
  void add_reader(Cell& cell, const Access& access);
  std::optional<Conflict> check_readers(const Cell& cell, u32 offset, const Access& access) const;
  // A kernel rarely touches all of its memory.
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
