// SPDX-License-Identifier: Apache-2.0
#include "runtime/pack/paged_table.h"

#include <algorithm>
#include <cstring>

#include "runtime/pack/entry.h"
#include "runtime/pack/format.h"

namespace catenary {
namespace {

using namespace pack_format;  // NOLINT: the names of the layout

int compare(const u8* a, const u8* b) { return std::memcmp(a, b, kDigestBytes); }

}  // namespace

PagedTable::PagedTable(const PackBytes& bytes, const Layout& layout, std::vector<u8> pages)
    : bytes_(bytes), layout_(layout), pages_(std::move(pages)), loaded_(num_pages(layout.rows)) {}

const u8* PagedTable::first_key(u64 page) const { return &pages_[page * kPageEntryBytes]; }

// Its rows begin with the key that the page table says, ascend, and end before the next page's.
Error PagedTable::check(u64 page, llvm::ArrayRef<u8> rows) const {
  const KernelKey digest = sha256(rows);
  if (compare(digest.bytes.data(), first_key(page) + kDigestBytes) != 0) {
    return make_error(ErrorCode::kCorruptArtifact, "the digest of its {} differs, so it is damaged",
                      layout_.name);
  }
  bool sorted = compare(rows.data(), first_key(page)) == 0;
  const auto ascend = [this](const u8* a, const u8* b) {
    return layout_.unique ? compare(a, b) < 0 : compare(a, b) <= 0;
  };
  const u64 count = rows.size() / layout_.row_bytes;
  for (u64 i = 1; i < count; ++i) {
    const u8* row = &rows[i * layout_.row_bytes];
    sorted = sorted && ascend(row - layout_.row_bytes, row);
  }
  const u8* last = &rows[(count - 1) * layout_.row_bytes];
  if (page + 1 < loaded_.size()) sorted = sorted && ascend(last, first_key(page + 1));
  if (sorted) return Error::success();
  return make_error(ErrorCode::kCorruptArtifact, "its {} is not sorted", layout_.name);
}

Expected<const u8*> PagedTable::page(u64 index) const {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<u8[]>& known = loaded_[index];
  if (known) return known.get();
  const u64 first = index * kPageRows;
  const u64 count = std::min(kPageRows, layout_.rows - first) * layout_.row_bytes;
  auto fresh = std::make_unique<u8[]>(count);
  const u64 offset = layout_.offset + first * layout_.row_bytes;
  if (Error error = bytes_.read(offset, {fresh.get(), count})) return error;
  if (Error error = check(index, {fresh.get(), count})) return error;
  known = std::move(fresh);
  return known.get();
}

Expected<const u8*> PagedTable::row(u64 index) const {
  Expected<const u8*> rows = page(index / kPageRows);
  if (!rows) return rows.takeError();
  return *rows + index % kPageRows * layout_.row_bytes;
}

Expected<u64> PagedTable::lower_bound(const KernelKey& key) const {
  // Pages that begin with a smaller key: the row is in the last of these, or begins the next one.
  u64 low = 0;
  u64 high = loaded_.size();
  while (low < high) {
    const u64 middle = low + (high - low) / 2;
    if (compare(first_key(middle), key.bytes.data()) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return u64{0};
  Expected<const u8*> rows = page(low - 1);
  if (!rows) return rows.takeError();
  u64 row = (low - 1) * kPageRows;
  const u64 end = std::min(layout_.rows, low * kPageRows);
  for (const u8* at = *rows; row < end && compare(at, key.bytes.data()) < 0; ++row) {
    at += layout_.row_bytes;
  }
  return row;
}

}  // namespace catenary
