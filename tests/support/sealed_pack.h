// SPDX-License-Identifier: Apache-2.0
// What damages a pack: its bytes are changed, and its digests are made right again. No test
// framework, so that programs of libFuzzer have it too.
#pragma once

#include <algorithm>
#include <vector>

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Endian.h"
#include "runtime/pack/format.h"

namespace catenary::test {

// The fields of a header that tests change or follow.
struct PackPlaces {
  explicit PackPlaces(const std::vector<u8>& bytes) {
    using llvm::support::endian::read64le;
    index = read64le(&bytes[32]);
    entries = read64le(&bytes[40]);
    blobs = read64le(&bytes[48]);
    num_blobs = read64le(&bytes[56]);
    manifest = read64le(&bytes[64]);
    manifest_bytes = read64le(&bytes[72]);
    pages = read64le(&bytes[80]);
  }
  u64 index, entries, blobs, num_blobs, manifest, manifest_bytes, pages;
  u64 num_pages() const {
    return pack_format::num_pages(entries) + pack_format::num_pages(num_blobs);
  }
  u64 row(u64 i) const { return index + i * pack_format::kRowBytes; }
};

inline void put_digest(std::vector<u8>& bytes, u64 at, u64 from, u64 count) {
  const KernelKey digest = sha256(llvm::makeArrayRef(bytes).slice(from, count));
  std::copy(digest.bytes.begin(), digest.bytes.end(), bytes.begin() + static_cast<ptrdiff_t>(at));
}

// Makes the digest of the header right again.
inline void seal_header(std::vector<u8>& bytes) {
  put_digest(bytes, pack_format::kHeaderDigestAt, 0, pack_format::kHeaderDigestAt);
}

// The rows of the page table for one table, beginning at byte `pages`. Returns where they end.
inline u64 seal_pages(std::vector<u8>& bytes, u64 pages, u64 table, u64 rows, u64 row_bytes) {
  for (u64 first = 0; first < rows; first += pack_format::kPageRows) {
    const u64 at = table + first * row_bytes;
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), 32,
                bytes.begin() + static_cast<ptrdiff_t>(pages));
    put_digest(bytes, pages + 32, at, std::min(pack_format::kPageRows, rows - first) * row_bytes);
    pages += pack_format::kPageEntryBytes;
  }
  return pages;
}

// The same for entries, page table, manifest and header; the header's places are within the file.
inline void seal(std::vector<u8>& bytes) {
  using llvm::support::endian::read32le;
  using llvm::support::endian::read64le;
  const PackPlaces at(bytes);
  for (u64 i = 0; i < at.entries; ++i) {
    const u64 offset = read64le(&bytes[at.row(i) + 80]);
    const u64 count = read32le(&bytes[at.row(i) + 88]);
    if (offset > bytes.size() || count > bytes.size() - offset) continue;
    put_digest(bytes, at.row(i) + 32, offset, count);
  }
  const u64 blob_pages = seal_pages(bytes, at.pages, at.index, at.entries, pack_format::kRowBytes);
  seal_pages(bytes, blob_pages, at.blobs, at.num_blobs, pack_format::kBlobRowBytes);
  put_digest(bytes, 112, at.pages, at.num_pages() * pack_format::kPageEntryBytes);
  put_digest(bytes, 144, at.manifest, at.manifest_bytes);
  seal_header(bytes);
}

}  // namespace catenary::test
