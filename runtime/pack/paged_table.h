// SPDX-License-Identifier: Apache-2.0
// A sorted table of a pack: rows in pages, each with a digest of its own. Only the pages that are
// used are read. What a row means beside its key is the caller's.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "compiler/emit/source.h"
#include "runtime/pack/pack_bytes.h"

namespace catenary {

// Thread-safe.
class PagedTable {
 public:
  struct Layout {
    const char* name = "";  // "index", for messages
    u64 offset = 0;         // of the first row
    u64 rows = 0;
    u64 row_bytes = 0;    // a row begins with its key
    bool unique = false;  // no key comes twice
  };

  // `pages`: the rows of the page table that are of this table (format.h), checked by their digest.
  // All rows are within `bytes`, which outlives the table.
  PagedTable(const PackBytes& bytes, const Layout& layout, std::vector<u8> pages);

  u64 size() const { return layout_.rows; }

  // The bytes of a row, valid as long as the table; index < size(). kIo; kCorruptArtifact: the
  // message is only the reason.
  Expected<const u8*> row(u64 index) const;

  // The first row whose key is not less than `key`; size(): there is none. Reads one page at most,
  // unless a key fills pages. Errors as row().
  Expected<u64> lower_bound(const KernelKey& key) const;

 private:
  const u8* first_key(u64 page) const;
  Expected<const u8*> page(u64 index) const;
  Error check(u64 page, llvm::ArrayRef<u8> rows) const;

  const PackBytes& bytes_;
  const Layout layout_;
  const std::vector<u8> pages_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<u8[]>> loaded_;  // null: not read yet
};

}  // namespace catenary
